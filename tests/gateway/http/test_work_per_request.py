"""The work for a request is linear in its body, whichever field is large."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pytest

pytest.importorskip("starlette")
pytest.importorskip("aiohttp")
pytest.importorskip("msgspec")

import msgspec

from gateways import EngineProcess
from request_walk import Answered, anything, ask, distinct, keys_of, kinds_of, large
from unspool._core.scan.character_runs import COMPILED
from unspool.gateway import Settings, build
from unspool.gateway.apis import parse_endpoint as parsing
from unspool.gateway.apis import tokenize_endpoints
from unspool.gateway.apis.chat import request as body
from unspool.gateway.apis.chat.request import MAX_CHOICES
from unspool.gateway.apis.messages import content_blocks as message_blocks
from unspool.gateway.apis.messages import request as from_messages
from unspool.gateway.apis.messages import tools as message_tools
from unspool.gateway.apis.ollama import embed
from unspool.gateway.apis.ollama import request as from_ollama
from unspool.gateway.apis.responses import request as from_responses
from unspool.gateway.apis.responses import stored_responses_and_conversations
from unspool.gateway.apis.responses import tools as response_tools
from unspool.gateway.conversation import media
from unspool.gateway.http import request_body as intake
from unspool.gateway.http.json_limits import Bounds
from unspool.gateway.state import responses_api_history as past

pytestmark = pytest.mark.skipif(COMPILED, reason="the lines of a compiled module are not seen")

Value: TypeAlias = Callable[[int], Any]
"""A body as a function of the size of one field."""
Case: TypeAlias = tuple[str, Value]
"""A path and a body."""

SIZE: Final = 40
FASTER: Final = {"lines": 4.3, "bytes allocated": 6, "elements scanned": 6}
"""Allowed factor of work for four times the field; quadratic work would give sixteen."""
SLACK: Final = {"lines": 500, "bytes allocated": 600_000, "elements scanned": 20_000}
"""Work that is not counted: caches that are filled once, checks beyond a certain size."""
SLACK_OF_BYTE: Final = {"lines": 0, "bytes allocated": 8, "elements scanned": 4}
"""Uncounted work per byte of a body."""
MOST_OF_BYTE: Final = {"lines": 16, "bytes allocated": 300, "elements scanned": 40}
"""Work for each byte of a body, beyond the work for the least one; empty items cost the most for each."""

HELLO: Final = [{"role": "user", "content": "Hi"}]
TEXT: Final = "x" * 400


# -- typed fields

TYPED: Final[dict[str, tuple[str, Any, dict[str, Any]]]] = {
    "chat": ("/v1/chat/completions", body.ChatBody, {"messages": HELLO}),
    "responses": ("/v1/responses", from_responses.ResponsesBody, {"input": "Hi"}),
    "messages": ("/v1/messages", from_messages.MessagesBody, {"messages": HELLO, "max_tokens": 5}),
    "count_tokens": ("/v1/messages/count_tokens", from_messages.MessagesBody, {"messages": HELLO}),
    "ollama": ("/api/chat", from_ollama.ChatBody, {"messages": HELLO, "stream": False}),
    "ollama_generate": ("/api/generate", from_ollama.GenerateBody, {"prompt": "Hi", "stream": False}),
    "parse": ("/v1/parse", parsing.ParseBody, {"text": "Hi", "dialect": "hermes"}),
    "tokenize": ("/tokenize", tokenize_endpoints._Tokenize, {"prompt": "Hi"}),
    "detokenize": ("/detokenize", tokenize_endpoints._Detokenize, {"tokens": [1]}),
    "embed": ("/api/embed", embed._Embed, {"input": "Hi"}),
    "conversation": ("/v1/conversations", stored_responses_and_conversations._NewConversation, {}),
}
"""By name: the path, the type of the body, and the smallest body."""


def typed() -> Iterator[tuple[str, Case]]:
    """Yield every field with every value of its type that can be large."""
    for name, (path, type_, least) in TYPED.items():
        shape = msgspec.inspect.type_info(type_)
        for place in dict.fromkeys(place for place, _ in large(shape, 2)):
            yield f"{name}{place}", (path, _typed(shape, least, place))


def _typed(shape: Any, least: Mapping[str, Any], place: str) -> Value:
    field = next(one.encode_name for one in shape.fields if place[1:].startswith(one.encode_name))
    field = max(
        (one.encode_name for one in shape.fields if place[1:].startswith(one.encode_name)),
        key=len,
        default=field,
    )
    return lambda size: {**least, field: dict(large(shape, size))[place][field]}


# -- objects without a type

ITEMS: Final = (from_responses, past)
BLOCKS: Final = (message_blocks, media)
Wrap: TypeAlias = Callable[[list[Any]], Any]
SLOTS: Final[dict[str, tuple[str, tuple[Any, ...], Wrap]]] = {
    "input": ("/v1/responses", ITEMS, lambda items: {"input": [*HELLO, *items]}),
    "input content": (
        "/v1/responses",
        (*ITEMS, media),
        lambda parts: {"input": [{"role": "user", "content": parts}]},
    ),
    "assistant input content": (
        "/v1/responses",
        (*ITEMS, media),
        lambda parts: {"input": [{"role": "assistant", "content": parts}]},
    ),
    "items": ("/v1/conversations", ITEMS, lambda items: {"items": items}),
    "response tools": ("/v1/responses", (response_tools,), lambda tools: {"input": "Hi", "tools": tools}),
    "namespace": (
        "/v1/responses",
        (response_tools,),
        lambda tools: {"input": "Hi", "tools": [{"type": "namespace", "name": "s", "tools": tools}]},
    ),
    "allowed tools": (
        "/v1/responses",
        (response_tools,),
        lambda tools: {
            "input": "Hi",
            "tools": [one | {"type": "function"} for one in tools],
            "tool_choice": {"type": "allowed_tools", "tools": tools},
        },
    ),
    "blocks": (
        "/v1/messages",
        BLOCKS,
        lambda blocks: {"messages": [{"role": "user", "content": blocks}], "max_tokens": 5},
    ),
    "assistant blocks": (
        "/v1/messages",
        BLOCKS,
        lambda blocks: {"messages": [{"role": "assistant", "content": blocks}, *HELLO], "max_tokens": 5},
    ),
    "result blocks": (
        "/v1/messages",
        BLOCKS,
        lambda blocks: {
            "messages": [
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": blocks}]}
            ],
            "max_tokens": 5,
        },
    ),
    "message tools": (
        "/v1/messages",
        (message_tools,),
        lambda tools: {
            "messages": HELLO,
            "max_tokens": 5,
            "tools": [{"name": tool["name"], "type": "custom", "input_schema": {}} for tool in tools],
        },
    ),
    "parts": (
        "/v1/chat/completions",
        (media,),
        lambda parts: {"messages": [{"role": "user", "content": parts}]},
    ),
    "functions": (
        "/v1/chat/completions",
        (body,),
        lambda tools: {
            "messages": HELLO,
            "tools": [{"type": "function", "function": {"name": tool["name"]}} for tool in tools],
        },
    ),
}
"""Lists of untyped objects: their location, the modules that read them, and a body around them."""
DEFAULTS: Final[dict[str, Any]] = {
    "role": "assistant",
    "arguments": "{}",
    "source": {"type": "base64", "data": "eA==", "media_type": "text/plain"},
    "tools": [{"type": "function", "name": "f"}],
    "parameters": {},
    "pattern": "x",
    "input_audio": {"data": "x"},
    "is_error": False,
    "tool_calls": [],
    "function": {"name": "f"},
}
"""Values of keys that are not text."""
NEVER_ALONE: Final = (
    *("json_object", "json_schema", "user", "assistant", "system", "developer", "item_reference", "base64"),
    *(
        "url",
        "file",
        "local_shell",
        "shell",
        "apply_patch",
        "computer",
        "computer_use_preview",
        "tool_search",
    ),
    *("allowed_tools", "grammar"),
)
"""Kinds that are not list elements, or that refer to something else."""


def seed(kind: str, modules: Sequence[Any]) -> dict[str, Any]:
    """Return an object of a kind with every key that the code reads."""
    keys = keys_of(*modules)
    value = {key: DEFAULTS.get(key, TEXT if key == "content" else "x") for key in keys}
    return {**value, "type": kind, "name": "f"}


def untyped() -> Iterator[tuple[str, Case]]:
    """Yield objects of every kind: many of them, and one with a large value under each key."""
    for slot, (path, modules, wrap) in SLOTS.items():
        for kind in kinds_of(*modules) or ["function"]:
            one = seed(kind, modules)
            yield f"{slot}: {kind} [n]", (path, _many(wrap, one))
            for key in one:
                for place, _ in anything(2):
                    yield f"{slot}: {kind}.{key}{place}", (path, _one(wrap, one, key, place))
                    yield f"{slot}: {kind}[n].{key}{place}", (path, _each(wrap, one, key, place))


def pairs() -> Iterator[tuple[str, Case]]:
    """Yield objects of two kinds: alternating, and the second kind in reverse order."""
    for slot, (path, modules, wrap) in SLOTS.items():
        seeds = {kind: seed(kind, modules) for kind in kinds_of(*modules)}
        for first, one in seeds.items():
            for second, other in seeds.items():
                if first != second:
                    yield f"{slot}: {first}, {second}", (path, _turns(wrap, one, other))
                    yield f"{slot}: {first} ... {second}", (path, _backwards(wrap, one, other))


def _many(wrap: Wrap, one: dict[str, Any]) -> Value:
    return lambda size: wrap([distinct(one, number) for number in range(size)])


def _one(wrap: Wrap, one: dict[str, Any], key: str, place: str) -> Value:
    return lambda size: wrap([{**one, key: dict(anything(size))[place]}])


def _each(wrap: Wrap, one: dict[str, Any], key: str, place: str) -> Value:
    return lambda size: wrap([distinct({**one, key: dict(anything(3))[place]}, n) for n in range(size)])


def _turns(wrap: Wrap, one: dict[str, Any], other: dict[str, Any]) -> Value:
    return lambda size: wrap([distinct(each, n) for n in range(size) for each in (one, other)])


def _backwards(wrap: Wrap, one: dict[str, Any], other: dict[str, Any]) -> Value:
    return lambda size: wrap(
        [*(distinct(one, n) for n in range(size)), *(distinct(other, n) for n in reversed(range(size)))]
    )


def conversations() -> Iterator[tuple[str, Case]]:
    """Yield conversations whose calls and results belong together, in both orders."""
    for reverse in (False, True):
        name = "backwards" if reverse else "forwards"
        yield f"chat: results {name}", ("/v1/chat/completions", _called(reverse, "chat"))
        yield f"ollama: results {name}", ("/api/chat", _called(reverse, "ollama"))
        yield f"ollama: named results {name}", ("/api/chat", _called(reverse, "named"))
    for role in ("user", "system", "tool"):
        message = {"role": role, "content": TEXT, "tool_call_id": "c"}
        yield f"chat: {role} [n]", ("/v1/chat/completions", _make_history(message))


def _called(reverse: bool, form: str) -> Value:
    def make(size: int) -> Any:
        numbers = list(range(size))
        arguments: Any = "{}" if form == "chat" else {}
        calls = [
            {"id": f"c{n}", "type": "function", "function": {"name": f"f{n}", "arguments": arguments}}
            for n in numbers
        ]
        keys = ("tool_name", "f") if form == "named" else ("tool_call_id", "c")
        results = [{"role": "tool", "content": "x", keys[0]: f"{keys[1]}{n}"} for n in numbers]
        message = {"role": "assistant", "content": "", "tool_calls": calls}
        return {"messages": [*HELLO, message, *(results[::-1] if reverse else results)], "stream": False}

    return make


def _make_history(message: dict[str, Any]) -> Value:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return lambda size: {"messages": [{"role": "assistant", "tool_calls": [call]}, *[message] * size]}


# -- the walk over all fields


class Walked:
    """A gateway in this thread."""

    def __init__(self, settings: Settings) -> None:
        self.runner = asyncio.Runner()
        self.gateway = self.runner.run(build(settings))

    def ask(self, method: str, path: str, body: object = None, *, measure: bool = True) -> Answered:
        return self.runner.run(ask(self.gateway.app, method, path, body, measure=measure))

    def close(self) -> None:
        self.runner.run(self.gateway.upstream.stop())
        self.runner.run(self.gateway.store.stop())
        self.runner.close()


@pytest.fixture(scope="module")
def walked(engine: EngineProcess, template: str) -> Iterator[Walked]:
    logger = logging.getLogger("unspool.gateway")
    logger.disabled = True
    walked_gateway = Walked(
        Settings(upstream="completions", url=engine.url, template=template, dialect="hermes")
    )
    yield walked_gateway
    walked_gateway.close()
    logger.disabled = False


class _BoundsOfAnySize(Bounds):
    """Limits that are checked in short bodies, too."""

    def __init__(self, most_values: int) -> None:
        super().__init__(most_values)
        self._short = 0


def check(walked: Walked, case: Case) -> Answered:
    """Assert that four times the field gives at most four times the work, within a bound per byte.

    A table that grows just then is work of one measurement only, so a second one decides.
    """
    try:
        return _measured(walked, case)
    except AssertionError:
        return _measured(walked, case)


def _measured(walked: Walked, case: Case) -> Answered:
    path, value = case
    with pytest.MonkeyPatch.context() as patch:
        # Apply the checks for large bodies to small ones, too.
        patch.setattr(intake, "SMALL", 0)
        patch.setattr(intake, "Bounds", _BoundsOfAnySize)
        walked.ask("POST", path, value(1), measure=False)
        least, few, many = (walked.ask("POST", path, value(size)) for size in (1, SIZE, 4 * SIZE))
    summaries = [f"{answer.status}: {answer.sent} bytes, {answer.work}" for answer in (least, few, many)]
    for kind, spent in many.work.each().items():
        more, most = spent - least.work.each()[kind], many.sent - least.sent
        usual = FASTER[kind] * max(0, few.work.each()[kind] - least.work.each()[kind])
        slack = SLACK[kind] + SLACK_OF_BYTE[kind] * most
        assert more <= usual + slack, f"{kind} grow faster than the body: {summaries}"
        assert more <= MOST_OF_BYTE[kind] * most + SLACK[kind], f"too many {kind} for each byte: {summaries}"
    return many


TYPED_CASES: Final = dict(typed())
UNTYPED_CASES: Final = dict(untyped())
_QUICK_SLOTS: Final = ("input", "items", "blocks", "assistant blocks", "response tools", "message tools")
QUICK: Final = {
    **{
        name: case
        for name, case in UNTYPED_CASES.items()
        if name.endswith("[n]")
        and name.partition(": ")[0] in _QUICK_SLOTS
        and name.partition(": ")[2].removesuffix(" [n]") not in NEVER_ALONE
    },
    **dict(conversations()),
}


@pytest.mark.parametrize("name", QUICK)
def test_repeated_elements_cost_linear_work(walked: Walked, name: str) -> None:
    check(walked, QUICK[name])


@pytest.mark.slow
@pytest.mark.parametrize("api", TYPED)
def test_typed_fields_cost_linear_work(walked: Walked, api: str) -> None:
    for name, case in TYPED_CASES.items():
        if name.startswith((f"{api}.", f"{api}[")):
            _check(walked, name, case)


@pytest.mark.slow
@pytest.mark.parametrize("slot", SLOTS)
def test_untyped_fields_cost_linear_work(walked: Walked, slot: str) -> None:
    answered = {
        name: _check(walked, name, case)
        for name, case in UNTYPED_CASES.items()
        if name.startswith(f"{slot}: ")
    }
    assert any(answer.status == 200 for answer in answered.values()), (
        "every kind is refused: DEFAULTS lack a key"
    )


@pytest.mark.slow
@pytest.mark.parametrize("slot", SLOTS)
def test_pairs_of_fields_cost_linear_work(walked: Walked, slot: str) -> None:
    for name, case in pairs():
        if name.startswith(f"{slot}: "):
            _check(walked, name, case)


def _check(walked: Walked, name: str, case: Case) -> Answered:
    try:
        return check(walked, case)
    except AssertionError as error:
        raise AssertionError(f"{name}: {error}") from None


def test_choices_share_what_is_read_of_the_tools(walked: Walked) -> None:
    """A number of three digits makes 128 choices."""

    def lines(choices: int, tools: int) -> int:
        offered = [{"type": "function", "function": {"name": f"f{n}"}} for n in range(tools)]
        body = {"messages": HELLO, "n": choices, "tools": offered}
        walked.ask("POST", "/v1/chat/completions", body, measure=False)
        answer = walked.ask("POST", "/v1/chat/completions", body)
        assert answer.status == 200
        return answer.work.lines

    one = lines(1, 4 * SIZE) - lines(1, 1)
    many = lines(MAX_CHOICES, 4 * SIZE) - lines(MAX_CHOICES, 1)
    assert many <= 2 * one + SLACK["lines"], f"{one} lines for one choice, {many} for {MAX_CHOICES}"


def test_input_items_are_not_copied_before_they_are_stored() -> None:
    """Copies with lists inside make long garbage collections, in which no stream moves."""
    items = [{"role": "assistant", "content": TEXT}] * (4 * SIZE)
    request = from_responses.read_responses_request({"input": items, "store": False})
    assert request.items == items


# -- stored items


def test_references_cost_at_most_a_body(walked: Walked) -> None:
    """A reference of forty bytes refers to an item of any size."""
    parts = [{"type": "input_text", "text": "x"}] * 500
    items = [
        {"id": "large", "role": "user", "content": "x" * 20_000},
        {"id": "many", "role": "user", "content": parts},
    ]
    walked.ask("POST", "/v1/conversations", {"items": items}, measure=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walked.gateway.bodies, "_max_bytes", 200_000)
        for id in ("large", "many"):
            reference = {"type": "item_reference", "id": id}
            walked.ask("POST", "/v1/responses", {"input": [reference]}, measure=False)
            least = walked.ask("POST", "/v1/responses", {"input": [reference]})
            assert least.status == 200
            for count in (2, 600):
                answer = walked.ask("POST", "/v1/responses", {"input": [reference] * count})
                assert answer.status == (200 if count == 2 else 413)
                for kind, spent in answer.work.each().items():
                    most = (
                        least.work.each()[kind] + 10 * (answer.sent if count > 2 else 200_000) + SLACK[kind]
                    )
                    assert spent <= most, f"{kind} for {count} times {id}: {spent}, at most {most}"


def stored_routes(walked: Walked) -> Iterator[tuple[str, str]]:
    """Return every method and path of stored objects."""
    for route in walked.gateway.router.routes:
        path = getattr(route, "path", "")
        if path.startswith(("/v1/conversations/{id}", "/v1/responses/{id}")):
            for method in route.endpoint.handlers:  # type: ignore[attr-defined]
                yield method, path


def test_stored_items_cost_nothing_until_they_are_read(walked: Walked) -> None:
    """Only a page is read, however long a conversation is."""
    new = {"items": HELLO, "metadata": {}}
    routes = list(stored_routes(walked))
    assert len(routes) >= 11
    for method, path in routes:
        spent: list[dict[str, int]] = []
        # The first request fills caches.  Of the two long ones, one may make a table of the store grow.
        for count in (3, 3, 100, 100):
            items = [{"id": f"i{n}", "role": "user", "content": "x" * 10_000} for n in range(count)]
            if path.startswith("/v1/conversations"):
                made = walked.ask("POST", "/v1/conversations", {"items": items}, measure=False)
            else:
                made = walked.ask("POST", "/v1/responses", {"input": items}, measure=False)
            place = path.replace("{id}", made.json["id"]).replace("{item}", "i1") + "?limit=1"
            answer = walked.ask(method, place, new if method == "POST" else None)
            assert answer.status == (400 if path.endswith("/cancel") else 200), answer.body
            spent.append(answer.work.each())
        for kind, least in spent[1].items():
            slack = 50_000 if kind == "bytes allocated" else 5_000  # the stored items take a megabyte
            many = min(spent[2][kind], spent[3][kind])
            assert many <= least + slack, f"{method} {path}: {least} and {many} {kind}"


# -- the event loop

STEP: Final = 3_000
"""Maximum number of lines that a large body may add to one step of the event loop."""


@pytest.mark.slow
@pytest.mark.parametrize("api", TYPED)
def test_large_bodies_are_not_traversed_on_the_event_loop(walked: Walked, api: str) -> None:
    path, type_, least = TYPED[api]
    shape = msgspec.inspect.type_info(type_)
    walked.ask("POST", path, least, measure=False)
    usual = walked.ask("POST", path, least).longest.lines
    for place in dict.fromkeys(place for place, _ in large(shape, 2)):
        if place.count(".") > 1 or place.count("[") > 1 or place.endswith(" depth"):
            continue
        answer = walked.ask("POST", path, _typed(shape, least, place)(6_000))
        assert answer.longest.lines <= usual + STEP, f"{api}{place}: {answer.longest}, {answer.status}"
