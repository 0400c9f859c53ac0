"""Conversion of Responses request bodies to generation requests.

Input items become messages.  A reasoning item, together with the text and the calls after it, becomes one
assistant message.  The output of a call becomes a message with the role ``tool``.  ``tools.py`` converts the
tools.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from ....wire import CUSTOM_INPUT
from ...conversation import media
from ...conversation.media import Part
from ...generation.request import GenerationRequest
from ...http.failure import Failure, invalid
from ...state.responses_api_history import StoredContext
from ...state.sealed_reasoning import Seal
from ..unsupported_fields import ignore_verbosity, list_ignored, reject_unsupported
from ..validation import Count, Share, Temperature, decode_body, string_at
from .tools import join_name, read_tools

_ENCRYPTED: Final = "reasoning.encrypted_content"
_TEXT_PARTS: Final = ("input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal")
_VENDOR_ITEMS: Final = (
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
    """Body of a Responses request."""

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
    """Convert the body of a Responses request to a generation request.

    :param hosted: how to treat tools that only their vendor can run: ``ignore`` or ``reject``.
    :param past: stored items that the request refers to.
    :param seal: encrypts and decrypts the reasoning that clients store.
    """
    past = past or StoredContext()
    request = {key: value for key, value in body.items() if value is not None}
    shape = decode_body(request, ResponsesBody)
    reject_unsupported(request, "responses")
    offered = read_tools(shape.tools or [], hosted)
    tools = offered.functions
    new_items = _resolve_references(shape.input, past)
    history = _ItemConverter(seal)
    # Stored items get negative positions, so that input[0] in an error is the first item of the request.
    for at, item in enumerate((*past.items, *new_items), -len(past.items)):
        history.add(item, f"input[{at}]")
    messages = history.finish()
    if shape.instructions:
        messages.insert(0, {"role": "system", "content": shape.instructions})
    if not messages:
        raise invalid("input is empty; send a string or at least one item", "input")
    chat: dict[str, Any] = {"messages": messages}
    if tools:
        chat["tools"] = tools
    if shape.tool_choice is not None and (tools or shape.tool_choice not in ("auto", "none")):
        chat["tool_choice"] = offered.convert_choice(shape.tool_choice)
    if shape.parallel_tool_calls is not None:
        chat["parallel_tool_calls"] = shape.parallel_tool_calls
    schema = _read_format(shape.text, chat)
    optional_fields: tuple[str, ...] = ()
    if shape.reasoning is not None and shape.reasoning.effort is not None:
        chat["reasoning_effort"] = shape.reasoning.effort
        optional_fields = ("reasoning_effort",)
    if shape.chat_template_kwargs is not None:
        chat["chat_template_kwargs"] = shape.chat_template_kwargs
    logprobs = None
    if "message.output_text.logprobs" in (shape.include or ()) or shape.top_logprobs:
        logprobs = shape.top_logprobs or 0
    stop = (shape.stop,) if isinstance(shape.stop, str) else tuple(shape.stop or ())
    if stop:
        chat["stop"] = list(stop)
    wants_encrypted = _ENCRYPTED in (shape.include or ()) or shape.store is False
    echo: dict[str, Any] = {key: request[key] for key in _ECHOED if key in request}
    if past.conversation is not None:
        echo["conversation"] = {"id": past.conversation}
    return GenerationRequest(
        api="responses",
        chat=chat,
        stream=bool(shape.stream),
        max_tokens=shape.max_output_tokens,
        stop=stop,
        logprobs=logprobs,
        schema=schema,
        sampling={key: request[key] for key in _SAMPLING if key in request},
        custom_tools=tuple(offered.custom),
        namespaces=offered.namespaces,
        echo=echo,
        items=new_items,
        store=shape.store is not False,
        conversation=past.conversation,
        optional_fields=optional_fields,
        seal=seal.close if seal is not None and wants_encrypted else None,
        ignored=[
            *offered.ignored,
            *history.ignored,
            *list_ignored(request, _KNOWN),
            *ignore_verbosity(shape.text.verbosity if shape.text is not None else None),
            *(
                ["truncation: the gateway does not shorten conversations"]
                if shape.truncation == "auto"
                else ()
            ),
        ],
    )


def _read_format(text: _Text | None, chat: dict[str, Any]) -> Mapping[str, Any] | None:
    """Set ``response_format`` in ``chat``; return the reply's JSON schema, or None if there is no schema."""
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


# -- input items


def _resolve_references(
    items: str | Sequence[Mapping[str, Any]], past: StoredContext
) -> Sequence[Mapping[str, Any]]:
    """Return the input items, with each reference replaced by the stored item."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}] if items else []
    out: list[Mapping[str, Any]] = []
    for at, item in enumerate(items):
        if item.get("type") != "item_reference":
            out.append(item)
            continue
        id = string_at(item, "id", f"input[{at}]")
        if id not in past.referred:
            raise invalid(
                f"input[{at}]: the item {id!r} is not stored here; send the item itself",
                f"input[{at}].id",
                "item_not_found",
            )
        out.append(past.referred[id])
    return out


class _ItemConverter:
    """Converter that turns input items into messages."""

    def __init__(self, seal: Seal | None) -> None:
        self.messages: list[dict[str, Any]] = []
        self.ignored: list[str] = []
        self._seal = seal
        self._turn: dict[str, Any] | None = None
        """Assistant message that is being built from consecutive items; None if there is none."""
        self._texts: list[str] = []
        """Texts of the message that is being built, joined when the message is complete."""

    def finish(self) -> list[dict[str, Any]]:
        """Complete the message that is being built, if there is one, and return all messages."""
        self._end_turn()
        return self.messages

    def add(self, item: Mapping[str, Any], place: str) -> None:
        """Convert an item, and add it to the messages."""
        kind = item.get("type", "message")
        match kind:
            case "message":
                self._add_message(item, place)
            case "reasoning":
                self._add_reasoning(item, place)
            case "function_call" | "custom_tool_call":
                self._add_call(item, place, custom=kind == "custom_tool_call")
            case "function_call_output" | "custom_tool_call_output":
                self._end_turn()
                self.messages.append(
                    {
                        "role": "tool",
                        "tool_call_id": string_at(item, "call_id", place),
                        "content": _read_content(item.get("output"), f"{place}.output"),
                    }
                )
            case str() if kind in _VENDOR_ITEMS:
                self.ignored.append(f"{kind} in a conversation: only the API's vendor can run such tools")
            case _:
                raise invalid(f"{place}.type is {kind!r}, which is not supported", f"{place}.type")

    def _add_message(self, item: Mapping[str, Any], place: str) -> None:
        role = item.get("role")
        if role not in ("user", "assistant", "system", "developer"):
            raise invalid(
                f"{place}.role is {role!r}; choose user, assistant, system or developer", f"{place}.role"
            )
        content = _read_content(item.get("content"), f"{place}.content")
        if role != "assistant":
            self._end_turn()
            self.messages.append({"role": role, "content": content})
            return
        turn = self._open_turn(new="tool_calls" in (self._turn or ()))
        text = content
        if not isinstance(text, str):
            text = "".join(part["text"] if "text" in part else media.describe(part) for part in text)
        if text or self._texts:
            self._texts.append(text)
        else:
            turn["content"] = ""

    def _add_reasoning(self, item: Mapping[str, Any], place: str) -> None:
        parts = item.get("content") or item.get("summary") or ()
        if not isinstance(parts, Sequence):
            raise invalid(f"{place}.content is not a list", f"{place}.content", "invalid_type")
        text = "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))
        encrypted = item.get("encrypted_content")
        if isinstance(encrypted, str) and encrypted:
            decrypted = None if self._seal is None else self._seal.open(encrypted)
            if decrypted is None:
                self.ignored.append("encrypted_content: encrypted with another key or for another user")
            text = text if decrypted is None else decrypted
        # Reasoning is the first part of a message, so reasoning after other output starts a new message.
        has_output = self._texts or (self._turn or {}).keys() & {"reasoning_content", "tool_calls"}
        turn = self._open_turn(new=bool(has_output))
        if text:
            turn["reasoning_content"] = text

    def _add_call(self, item: Mapping[str, Any], place: str, *, custom: bool) -> None:
        name = join_name(string_at(item, "name", place), item.get("namespace"))
        id = string_at(item, "call_id", place)
        arguments = string_at(item, "input" if custom else "arguments", place)
        if custom:
            arguments = json.dumps({CUSTOM_INPUT: arguments}, ensure_ascii=False)
        turn = self._open_turn(new=False)
        call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        turn.setdefault("tool_calls", []).append(call)

    def _open_turn(self, *, new: bool) -> dict[str, Any]:
        """Return the assistant message that is being built; start a new one if there is none.

        :param new: always start a new message, after completing the one that is being built.
        """
        turn = self._turn
        if turn is None or new:
            self._end_turn()
            turn = self._turn = {"role": "assistant", "content": None}
            self.messages.append(turn)
        return turn

    def _end_turn(self) -> None:
        """Complete the assistant message that is being built, if there is one."""
        if self._turn is not None and self._texts:
            self._turn["content"] = "\n".join(self._texts)
            self._texts = []
        self._turn = None


def _read_content(content: object, place: str) -> str | list[dict[str, Any]]:
    """Return content in Chat Completions format: a list of parts if the content has media, else a string."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, Sequence):
        raise invalid(f"{place} is not a string or a list", place, "invalid_type")
    return media.join_parts([_read_part(part, f"{place}[{at}]") for at, part in enumerate(content)])


def _read_part(part: object, place: str) -> Part:
    """Convert one content part to Chat Completions format."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping) or not isinstance(kind, str):
        raise _unknown_part(kind, place)
    if kind in _TEXT_PARTS:
        return {"type": "text", "text": str(part.get("text", part.get("refusal", "")))}
    name = str(part.get("filename") or part.get("file_url") or part.get("file_id") or "")
    if kind in ("input_image", "input_file") and isinstance(part.get("image_url"), str):
        return media.image_part(part["image_url"])
    if kind == "input_file" and isinstance(part.get("file_data"), str):
        head, comma, data = part["file_data"].rpartition(",")
        media_type = head.removeprefix("data:").partition(";")[0] if comma else ""
        return media.document_part(name, media_type or "application/octet-stream", data)
    if kind in ("input_image", "input_file", "computer_screenshot"):
        return media.reference_part("image" if kind != "input_file" else "file", name)
    if kind == "input_audio" and isinstance(part.get("input_audio"), Mapping):
        return {"type": "input_audio", "input_audio": dict(part["input_audio"])}
    raise _unknown_part(kind, place)


def _unknown_part(kind: object, place: str) -> Failure:
    return invalid(f"{place}.type is {kind!r}, which this gateway cannot read", f"{place}.type")
