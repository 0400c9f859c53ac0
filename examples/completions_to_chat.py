"""Read a stream of ``/v1/completions``, and write the chunks of Chat Completions.

The engine gets only a prompt and returns only text; this program applies the model's template and dialect.

python examples/completions_to_chat.py http://127.0.0.1:8000 MODEL_DIRECTORY hermes "How is the weather?"
"""

import http.client
import json
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from unspool import plan
from unspool.templates import ChatTemplate
from unspool.wire import DONE, ChatStream, sse

TOOL = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def completions(url: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the choice of each event that the engine sends."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=600)
    try:
        headers = {"content-type": "application/json"}
        connection.request(
            "POST", f"{address.path}/v1/completions", json.dumps(body | {"stream": True}), headers
        )
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise SystemExit(response.read().decode())
        for line in response:
            data = line.removeprefix(b"data:").strip()
            if line.startswith(b"data:") and data != b"[DONE]":
                yield from json.loads(data)["choices"]
    finally:
        connection.close()


def chat(url: str, template: ChatTemplate, dialect: str, body: dict[str, Any]) -> Iterator[str]:
    """Yield the server-sent events for a request of Chat Completions."""
    planned = plan(dialect, body)
    variables: dict[str, Any] = dict(planned.chat_template_kwargs)
    prompt = template.render(body["messages"], body.get("tools"), **variables)
    planned = planned.with_prompt(prompt)
    for warning in planned.warnings:
        print(warning, file=sys.stderr)
    parser = planned.parser()
    wire = ChatStream(parser, model=body["model"])
    reason = None
    request = {
        "model": body["model"],
        "prompt": prompt,
        "max_tokens": body.get("max_tokens", 1024),
        "skip_special_tokens": planned.skip_special_tokens,
    }
    for choice in completions(url, request):
        reason = choice.get("finish_reason") or reason
        yield from map(sse, wire.feed(parser.feed(choice["text"])))
    yield from map(sse, wire.feed(parser.finish("length" if reason == "length" else "stop")))
    yield DONE


if __name__ == "__main__":
    url, model, dialect, question = sys.argv[1:]
    messages = [{"role": "user", "content": question}]
    tools = [{"type": "function", "function": TOOL}]
    for event in chat(
        url, ChatTemplate.load(model), dialect, {"model": "m", "messages": messages, "tools": tools}
    ):
        print(event, end="", flush=True)
