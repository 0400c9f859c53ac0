"""Read tool calls with OpenAI's client from a server that leaves markup in the text, without a gateway.

llama-server -m qwen3-8b.gguf --jinja --skip-chat-parsing
OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=x python examples/without_a_server.py hermes
"""

import sys
from typing import Any

import httpx2
from openai import OpenAI

from unspool.integrations.httpx2 import Transport

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def main(dialect: str = "auto") -> None:
    """Ask about the weather, and print what the model reasons, says and calls."""
    client = OpenAI(http_client=httpx2.Client(transport=Transport(dialect)))
    with (
        client,
        client.chat.completions.stream(
            model="qwen3",
            messages=[{"role": "user", "content": "What is the weather in Oslo?"}],
            tools=[WEATHER],
        ) as stream,
    ):
        for event in stream:
            if event.type == "content.delta":
                print(event.delta, end="", flush=True)
        message = stream.get_final_completion().choices[0].message
    print()
    print("reasoning:", (message.model_extra or {}).get("reasoning_content"))
    for call in message.tool_calls or ():
        print("call:", call.function.name, call.function.arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
