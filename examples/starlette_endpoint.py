"""An endpoint with OpenAI's API for any text generator, in one function.

pip install starlette uvicorn && uvicorn --app-dir examples starlette_endpoint:app
curl -N localhost:8000/v1/chat/completions -d '{"messages": [], "stream": true}'
"""

from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import unspool
from unspool.wire import ChatStream

DIALECT = "hermes"


async def generate(body: dict[str, Any]) -> AsyncIterator[str]:
    """Yield pieces of raw output; replace this function by your model."""
    del body
    for piece in ("<think>It is", " noon?</thi", "nk>One mo", "ment.\n<tool_c", 'all>{"name": "now", "argu'):
        yield piece
    yield 'ments": {"zone": "Oslo"}}</tool_call>'


async def chat(request: Request) -> Response:
    """Answer ``POST /v1/chat/completions``."""
    body = await request.json()
    parser = unspool.Parser(DIALECT, tools=body.get("tools"))
    wire = ChatStream(parser, model=body.get("model", "local"))
    events = unspool.astream(generate(body), parser, finish_reason="stop")
    if body.get("stream"):
        lines = (wire.sse([event]) async for event in events)  # the last one ends with "data: [DONE]"
        return StreamingResponse(lines, media_type="text/event-stream")
    async for _ in events:
        pass
    return JSONResponse(wire.response(events.message))


app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
