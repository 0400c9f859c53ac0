"""Parsing of one output into reasoning, content, calls and diagnostics.

python examples/parse_an_output.py
"""

import json

import unspool

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        },
    }
]
OUTPUT = """<think>
Three days, in Oslo; and Rome.
</think>
Let me look.
<tool_call>
<function=get_weather>
<parameter=city>
Oslo
</parameter>
<parameter=days>
3
</parameter>
</function>
</tool_call>
<tool_call>
<function=get_weather>
<parameter=city>
Ro"""

message = unspool.parse(OUTPUT, "qwen3_coder", tools=TOOLS)
print("reasoning:", message.reasoning)
print("content:  ", message.content)
for call in message.tool_calls:
    print("call:     ", call.name, json.loads(call.arguments))
for diagnostic in message.diagnostics:
    print("diagnostic:", diagnostic.kind, f"at {diagnostic.start} to {diagnostic.end}")
print("finished: ", message.finish_reason)
