"""What is handed on as it is: completions and embeddings; and tokens, by whoever has the tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..http.errors import Failure, invalid
from ..http.exchange import Exchange
from ..http.json_decoding import SMALL
from ..upstreams.completions import UsageChunk
from .answers import DONE, Answer, encode, error_object
from .chat.request import chat_job, decode_body

if TYPE_CHECKING:
    from ..app import Gateway


_OF_NUMBERS: Final = b"[]0123456789+-.eE, \t\r\n"


class _Tokenize(msgspec.Struct):
    model: str | None = None
    prompt: str | None = None
    content: str | None = None
    """What llama.cpp calls it."""
    messages: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    add_special: bool | None = None


class _Detokenize(msgspec.Struct):
    tokens: list[int]
    model: str | None = None


class _Embed(msgspec.Struct):
    model: str | None = None
    input: str | list[str] | None = None
    prompt: str | None = None
    dimensions: int | None = None
    truncate: bool | None = None
    options: dict[str, Any] | None = None
    keep_alive: float | str | None = None


class _Vector(msgspec.Struct):
    embedding: msgspec.Raw
    """Numbers, as they were written: nobody here calculates with them."""
    index: int = 0


class _Embeddings(msgspec.Struct):
    data: list[_Vector]
    usage: UsageChunk | None = None


class Passing:
    """Handlers of what the gateway has no part in."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lane = gateway.lanes.aside

    async def completions(self, exchange: Exchange) -> None:
        """A prompt that the client has rendered."""
        await self._hand_on(exchange, "/v1/completions")

    async def embeddings(self, exchange: Exchange) -> None:
        """Embeddings, if the upstream makes them."""
        await self._hand_on(exchange, "/v1/embeddings")

    async def _hand_on(self, exchange: Exchange, path: str) -> None:
        body = await self._gateway.body(exchange)
        self._gateway.admit(exchange)
        served = self._gateway.models.find(body.get("model"))
        exchange.watch()
        exchange.fields["model"] = served.model.name
        passed = await served.upstream.forward(path, body)
        kind = ((b"content-type", passed.content_type.encode("latin-1")),)
        try:
            if not passed.streams:
                # Not before all of it is there: what has begun cannot become an error.
                await exchange.respond(200, await passed.read_all(), kind)
                return
            exchange.failing = _failing
            await exchange.start(200, kind)
            exchange.ping = Answer.ping
            while portion := await passed.read():
                await exchange.send(portion)
            await exchange.send(b"", more=False)
        finally:
            await passed.close()

    # -- tokens

    async def tokenize(self, exchange: Exchange) -> None:
        """The tokens of a text, or of the prompt that messages come to."""
        body = await self._gateway.body(exchange)
        shape = decode_body({key: value for key, value in body.items() if value is not None}, _Tokenize)
        served = self._gateway.models.find(shape.model)
        text = shape.prompt if shape.prompt is not None else shape.content
        if (text is None) == (shape.messages is None):
            raise invalid("give either prompt or messages", "prompt", "missing_required_parameter")
        if shape.messages is not None:
            asked_of = {key: value for key, value in body.items() if key in ("messages", "tools")}
            job = await self._gateway.intake.job(exchange, chat_job, asked_of)
            prompts = self._gateway.lanes.prompts
            text = (await prompts.run(exchange.whose, served.prepare, job, exchange.id)).prompt
        asked = shape.add_special_tokens if shape.add_special_tokens is not None else shape.add_special
        # As vLLM has it, which calls a text prompt, and llama.cpp, which does not.
        special = shape.prompt is not None if asked is None else asked
        tokens = None
        if text is not None:
            tokens = await served.tokenize(self._lane, exchange.whose, text, special=special)
        if tokens is None:
            raise _nobody("tokenize")
        await exchange.respond(200, encode({"tokens": tokens, "count": len(tokens)}))

    async def detokenize(self, exchange: Exchange) -> None:
        """The text of tokens."""
        shape = decode_body(await self._gateway.body(exchange), _Detokenize)
        served = self._gateway.models.find(shape.model)
        text = await served.detokenize(self._lane, exchange.whose, shape.tokens)
        if text is None:
            raise _nobody("detokenize")
        await exchange.respond(200, encode({"prompt": text, "content": text}))

    # -- embeddings, as Ollama's clients ask for them

    async def embed(self, exchange: Exchange) -> None:
        """Ollama's ``/api/embed``, and the older ``/api/embeddings``."""
        shape = decode_body(await self._gateway.body(exchange), _Embed)
        served = self._gateway.models.find(shape.model)
        old = exchange.path.endswith("/embeddings")
        given = shape.prompt if old else shape.input
        if given is None:
            name = "prompt" if old else "input"
            raise invalid(f"{name} is required", name, "missing_required_parameter")
        asked: dict[str, Any] = {"input": given}
        if shape.dimensions is not None:
            asked["dimensions"] = shape.dimensions
        exchange.watch()
        passed = await served.upstream.forward("/v1/embeddings", asked)
        try:
            data = await passed.read_all()
        finally:
            await passed.close()

        def answer() -> bytes:
            vectors, usage = _vectors(data, 1 if isinstance(given, str) else len(given))
            if old:
                return encode({"embedding": vectors[0]})
            about = {"model": served.model.name, "prompt_eval_count": usage}
            return encode({"embeddings": vectors, **about})

        if len(data) <= SMALL:
            await exchange.respond(200, answer())
        else:
            await exchange.respond(200, await self._gateway.lanes.answers.run(exchange.whose, answer))


def _vectors(data: bytes, count: int) -> tuple[list[msgspec.Raw], int]:
    """The embeddings of an answer, and how many tokens they are of."""
    try:
        found = msgspec.json.decode(data, type=_Embeddings)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _no_embeddings() from error
    if len(found.data) != count or not all(_are_numbers(bytes(one.embedding)) for one in found.data):
        raise _no_embeddings()
    vectors = [one.embedding for one in sorted(found.data, key=lambda one: one.index)]
    return vectors, 0 if found.usage is None else found.usage.prompt_tokens or 0


def _are_numbers(data: bytes) -> bool:
    return data.startswith(b"[") and data.rfind(b"[") == 0 and not data.translate(None, _OF_NUMBERS)


def _no_embeddings() -> Failure:
    told = "the upstream sent what are no embeddings"
    return Failure("upstream", told, code="upstream_protocol")


def _failing(failure: Failure) -> bytes:
    return b"data: %b\n\n%b" % (encode(error_object("chat", failure)), DONE)


def _nobody(what: str) -> Failure:
    told = f"nobody here can {what}: the upstream does not, and model_dir names no tokenizer.json"
    return Failure("not_found", told, code="not_found")
