"""Streaming with OpenAI's client through the gateway: reasoning, text and a call as they arrive.

make run            # or: unspool serve MODEL
OPENAI_BASE_URL=http://127.0.0.1:8765/v1 OPENAI_API_KEY=x python examples/stream_from_the_gateway.py
"""

from openai import OpenAI

TOOL = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}

stream = OpenAI().chat.completions.create(
    model="local",  # a gateway with one model accepts any name
    messages=[{"role": "user", "content": "What is the weather in Paris?"}],
    tools=[{"type": "function", "function": TOOL}],
    stream=True,
)
for chunk in stream:
    choice = chunk.choices[0]
    if thought := getattr(choice.delta, "reasoning_content", None):
        print("thinks", repr(thought))
    if choice.delta.content:
        print("says  ", repr(choice.delta.content))
    for call in choice.delta.tool_calls or []:
        if call.function and call.function.name:
            print("calls ", call.function.name)
        if call.function and call.function.arguments:
            print("with  ", repr(call.function.arguments))
    if choice.finish_reason:
        print("ends  ", choice.finish_reason)
