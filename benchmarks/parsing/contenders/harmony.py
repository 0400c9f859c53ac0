"""openai-harmony: the reference parser of gpt-oss, written in Rust, which parses token ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from openai_harmony import HarmonyEncoding, Message, Role, StreamableParser, load_harmony_encoding

from ..workloads import Answer
from . import Reader

VERSION = version("openai-harmony")
_BORDER = (None, None, "")
"""State at the beginning of a message."""


@cache
def _encoding() -> HarmonyEncoding:
    return load_harmony_encoding("HarmonyGptOss")


@cache
def _ids(text: str) -> list[int]:
    return list(_encoding().encode(text, allowed_special="all"))


def _start() -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    parser = StreamableParser(_encoding(), role=Role.ASSISTANT)
    process, border = parser.process, _ids("<|start|>")[0]

    def feed(ids: list[int]) -> list[tuple[str | None, str | None, str]]:
        """Return the data that a server must query after each token in order to send deltas."""
        found: list[tuple[str | None, str | None, str]] = []
        for token in ids:
            process(token)
            if token == border:
                found.append(_BORDER)
            elif text := parser.last_content_delta:
                found.append((parser.current_channel, parser.current_recipient, text))
        return found

    return feed, parser.process_eos


def _whole(ids: list[int]) -> Any:
    return _encoding().parse_messages_from_completion_tokens(ids, role=Role.ASSISTANT)


def _answer(results: list[Any]) -> Answer:
    texts = {"content": "", "reasoning": ""}
    calls: list[list[str]] = []
    for found in results:
        for part in found if isinstance(found, list) else ():
            channel, recipient, text = part if isinstance(part, tuple) else _fields(part)
            if part == _BORDER or not isinstance(part, tuple):
                calls.append(["", ""])
            if recipient:
                calls = calls or [["", ""]]
                calls[-1] = [recipient.removeprefix("functions."), calls[-1][1] + text]
            else:
                texts["reasoning" if channel == "analysis" else "content"] += text
    return Answer(**texts, calls=[call for call in calls if call[0]])


def _fields(message: Message) -> tuple[str | None, str | None, str]:
    return message.channel, message.recipient, "".join(part.text for part in message.content)


def _prepare(deltas: Sequence[str]) -> list[list[int]]:
    return [_ids(delta) for delta in deltas]


def reader(dialect: str, scenario: str) -> Reader | None:  # noqa: ARG001
    """Return a reader for harmony only."""
    return Reader(_start, _answer, _prepare, _whole) if dialect == "harmony" else None
