"""``/v1/responses``: its requests as chat completions.

Items of the input become messages: a reasoning item, the message and the calls
that follow it are one turn of the assistant; outputs of calls are messages of the
role tool.  Its tools are read in ``response_tools.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from ....wire._responses import CUSTOM_INPUT
from ...conversation import media
from ...conversation.media import Part
from ...generation.request import GenerationRequest
from ...http.errors import Failure, invalid
from ...state.response_history import StoredContext, as_item
from ...state.seal import Seal
from ..unsupported_fields import left_out, refuse, verbosity
from ..validation import Count, Share, Temperature, checked, string_at
from .tools import model_name, read_tools

_SEALED: Final = "reasoning.encrypted_content"
_TEXT_PARTS: Final = ("input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal")
_RUN_BY_VENDOR: Final = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "computer_call",
    "computer_call_output",
    "mcp_list_tools",
    "mcp_call",
    "mcp_approval_request",
    "mcp_approval_response",
)
_ECHOED: Final = (
    "instructions",
    "metadata",
    "parallel_tool_calls",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
    "max_output_tokens",
    "reasoning",
    "text",
    "truncation",
    "user",
    "store",
    "top_logprobs",
    "previous_response_id",
)
_SAMPLING: Final = (
    "temperature",
    "top_p",
    "seed",
    "user",
    "presence_penalty",
    "frequency_penalty",
    "top_k",
    "min_p",
)


class _TextFormat(msgspec.Struct):
    type: str
    schema: dict[str, Any] | None = None
    name: str | None = None
    strict: bool | None = None


class _Text(msgspec.Struct):
    format: _TextFormat | None = None
    verbosity: str | None = None


class _Reasoning(msgspec.Struct):
    effort: str | None = None
    summary: str | None = None


class ResponsesBody(msgspec.Struct):
    """A response's request, as far as types go."""

    input: str | list[dict[str, Any]]
    model: str | None = None
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    max_output_tokens: Count | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    include: list[str] | None = None
    text: _Text | None = None
    reasoning: _Reasoning | None = None
    metadata: dict[str, Any] | None = None
    previous_response_id: str | None = None
    background: bool | None = None
    store: bool | None = None
    conversation: str | dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    stop: str | list[str] | None = None
    truncation: str | None = None


_KNOWN: Final = frozenset((*ResponsesBody.__struct_fields__, *_SAMPLING))


def read_responses_request(
    body: Mapping[str, Any],
    *,
    hosted: str = "ignore",
    past: StoredContext | None = None,
    seal: Seal | None = None,
) -> GenerationRequest:
    """A response's request.

    :param hosted: what to do with tools that only their vendor can run.
    :param past: what it refers back to.
    :param seal: for reasoning that the client keeps.
    """
    past = past or StoredContext()
    request = {key: value for key, value in body.items() if value is not None}
    shape = checked(request, ResponsesBody)
    refuse(request, "responses")
    offered = read_tools(shape.tools or [], hosted)
    tools = offered.functions
    now = _items(shape.input, past)
    history = _History(seal)
    for at, item in enumerate((*past.items, *now), -len(past.items)):
        history.take(item, f"input[{at}]")
    messages = history.finish()
    if shape.instructions:
        messages.insert(0, {"role": "system", "content": shape.instructions})
    if not messages:
        raise invalid("input is empty: there is nothing to answer", "input")
    chat: dict[str, Any] = {"messages": messages}
    if tools:
        chat["tools"] = tools
    if shape.tool_choice is not None and (tools or shape.tool_choice not in ("auto", "none")):
        chat["tool_choice"] = offered.choice(shape.tool_choice)
    if shape.parallel_tool_calls is not None:
        chat["parallel_tool_calls"] = shape.parallel_tool_calls
    schema = _format(shape.text, chat)
    soft: tuple[str, ...] = ()
    if shape.reasoning is not None and shape.reasoning.effort is not None:
        chat["reasoning_effort"] = shape.reasoning.effort
        soft = ("reasoning_effort",)
    if shape.chat_template_kwargs is not None:
        chat["chat_template_kwargs"] = shape.chat_template_kwargs
    logprobs = None
    if "message.output_text.logprobs" in (shape.include or ()) or shape.top_logprobs:
        logprobs = shape.top_logprobs or 0
    stop = (shape.stop,) if isinstance(shape.stop, str) else tuple(shape.stop or ())
    if stop:
        chat["stop"] = list(stop)
    wants_sealed = _SEALED in (shape.include or ()) or shape.store is False
    echo: dict[str, Any] = {key: request[key] for key in _ECHOED if key in request}
    if past.conversation is not None:
        echo["conversation"] = {"id": past.conversation}
    return GenerationRequest(
        api="responses",
        request=chat,
        stream=bool(shape.stream),
        max_tokens=shape.max_output_tokens,
        stop=stop,
        logprobs=logprobs,
        schema=schema,
        sampling={key: request[key] for key in _SAMPLING if key in request},
        custom_tools=tuple(offered.custom),
        namespaces=offered.namespaces,
        echo=echo,
        items=[as_item(item) for item in now],
        store=shape.store is not False,
        conversation=past.conversation,
        soft=soft,
        seal=seal.close if seal is not None and wants_sealed else None,
        left_out=[
            *offered.left_out,
            *history.left_out,
            *left_out(request, _KNOWN),
            *verbosity(shape.text.verbosity if shape.text is not None else None),
            *(
                ["truncation: the engine says where a conversation is too long"]
                if shape.truncation == "auto"
                else ()
            ),
        ],
    )


def _format(text: _Text | None, chat: dict[str, Any]) -> Mapping[str, Any] | None:
    """``text.format`` as ``response_format``; its schema."""
    form = text.format if text is not None else None
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        chat["response_format"] = {"type": "json_object"}
        return {"type": "object"}
    if form.type != "json_schema":
        raise invalid(
            f"text.format.type is {form.type!r}; choose text, json_object or json_schema", "text.format.type"
        )
    if form.schema is None:
        raise invalid("text.format.schema is required", "text.format.schema", "missing_required_parameter")
    chat["response_format"] = {
        "type": "json_schema",
        "json_schema": {"name": form.name or "answer", "schema": form.schema},
    }
    return form.schema


# -- the input


def _items(given: str | Sequence[Mapping[str, Any]], past: StoredContext) -> Sequence[Mapping[str, Any]]:
    """The input, with the items that it refers to in their places."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}] if given else []
    out: list[Mapping[str, Any]] = []
    for at, item in enumerate(given):
        if item.get("type") != "item_reference":
            out.append(item)
            continue
        id = string_at(item, "id", f"input[{at}]")
        if id not in past.referred:
            raise invalid(
                f"input[{at}]: the item {id!r} is not stored here, or not any more; send the item itself",
                f"input[{at}].id",
                "item_not_found",
            )
        out.append(past.referred[id])
    return out


class _History:
    """Messages from items."""

    def __init__(self, seal: Seal | None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        self._seal = seal
        self._turn: dict[str, Any] | None = None
        """The turn of the assistant that further items belong to."""
        self._texts: list[str] = []
        """Its texts, joined when it ends: there may be very many."""

    def finish(self) -> list[dict[str, Any]]:
        """Return the messages."""
        self._end_turn()
        return self.messages

    def take(self, item: Mapping[str, Any], place: str) -> None:
        """The next item."""
        kind = item.get("type", "message")
        match kind:
            case "message":
                self._message(item, place)
            case "reasoning":
                self._reasoning(item, place)
            case "function_call" | "custom_tool_call":
                self._call(item, place, custom=kind == "custom_tool_call")
            case "function_call_output" | "custom_tool_call_output":
                self._end_turn()
                self.messages.append(
                    {
                        "role": "tool",
                        "tool_call_id": string_at(item, "call_id", place),
                        "content": _content(item.get("output"), f"{place}.output"),
                    }
                )
            case str() if kind in _RUN_BY_VENDOR:
                self.left_out.append(f"{kind} in a conversation: only its vendor can run it")
            case _:
                raise invalid(f"{place}.type is {kind!r}, which this gateway cannot read", f"{place}.type")

    def _message(self, item: Mapping[str, Any], place: str) -> None:
        role = item.get("role")
        if role not in ("user", "assistant", "system", "developer"):
            raise invalid(
                f"{place}.role is {role!r}; choose user, assistant, system or developer", f"{place}.role"
            )
        content = _content(item.get("content"), f"{place}.content")
        if role != "assistant":
            self._end_turn()
            self.messages.append({"role": role, "content": content})
            return
        turn = self._assistant(new="tool_calls" in (self._turn or ()))
        text = content
        if not isinstance(text, str):
            text = "".join(part["text"] if "text" in part else media.described(part) for part in text)
        if text or self._texts:
            self._texts.append(text)
        else:
            turn["content"] = ""

    def _reasoning(self, item: Mapping[str, Any], place: str) -> None:
        parts = item.get("content") or item.get("summary") or ()
        if not isinstance(parts, Sequence):
            raise invalid(f"{place}.content is not a list", f"{place}.content", "invalid_type")
        text = "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))
        sealed = item.get("encrypted_content")
        if isinstance(sealed, str) and sealed:
            found = None if self._seal is None else self._seal.open(sealed)
            if found is None:
                self.left_out.append(
                    "encrypted_content: it was not sealed here with this key, for this owner"
                )
            text = text if found is None else found
        said = self._texts or (self._turn or {}).keys() & {"reasoning_content", "tool_calls"}
        turn = self._assistant(new=bool(said))
        if text:
            turn["reasoning_content"] = text

    def _call(self, item: Mapping[str, Any], place: str, *, custom: bool) -> None:
        name = model_name(string_at(item, "name", place), item.get("namespace"))
        id = string_at(item, "call_id", place)
        arguments = string_at(item, "input" if custom else "arguments", place)
        if custom:
            arguments = json.dumps({CUSTOM_INPUT: arguments}, ensure_ascii=False)
        turn = self._assistant(new=False)
        call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        turn.setdefault("tool_calls", []).append(call)

    def _assistant(self, *, new: bool) -> dict[str, Any]:
        """Return the turn to add to.

        :param new: the turn so far, if there is one, cannot take what comes.
        """
        turn = self._turn
        if turn is None or new:
            self._end_turn()
            turn = self._turn = {"role": "assistant", "content": None}
            self.messages.append(turn)
        return turn

    def _end_turn(self) -> None:
        """Put the texts of the turn together: nothing more is added to it."""
        if self._turn is not None and self._texts:
            self._turn["content"] = "\n".join(self._texts)
            self._texts = []
        self._turn = None


def _content(given: object, place: str) -> str | list[dict[str, Any]]:
    """Content: text, or a list of parts if there is more than text."""
    if given is None or isinstance(given, str):
        return given or ""
    if not isinstance(given, Sequence):
        raise invalid(f"{place} is not a string or a list", place, "invalid_type")
    return media.joined([_part(part, f"{place}[{at}]") for at, part in enumerate(given)])


def _part(part: object, place: str) -> Part:
    """A part of content as chat completions have it."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        raise _unknown_part(kind, place)
    if kind in _TEXT_PARTS:
        return {"type": "text", "text": str(part.get("text", part.get("refusal", "")))}
    name = str(part.get("filename") or part.get("file_url") or part.get("file_id") or "")
    if kind in ("input_image", "input_file") and isinstance(part.get("image_url"), str):
        return media.image(part["image_url"])
    if kind == "input_file" and isinstance(part.get("file_data"), str):
        head, comma, data = part["file_data"].rpartition(",")
        media_type = head.removeprefix("data:").partition(";")[0] if comma else ""
        return media.document(name, media_type or "application/octet-stream", data)
    if kind in ("input_image", "input_file", "computer_screenshot"):
        return media.absent("image" if kind != "input_file" else "file", name)
    if kind == "input_audio" and isinstance(part.get("input_audio"), Mapping):
        return {"type": "input_audio", "input_audio": dict(part["input_audio"])}
    raise _unknown_part(kind, place)


def _unknown_part(kind: object, place: str) -> Failure:
    return invalid(f"{place}.type is {kind!r}, which this gateway cannot read", f"{place}.type")
