"""A chat template, rendered the way Hugging Face Transformers does."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from typing import Any, Final

from ..errors import UnspoolError, UsageError
from ._capabilities import PROBED_TOOL, THINKING_ON, ChatMessage, TemplateCapabilities, ask
from ._jinja_environment import WRITTEN, Manner
from ._render_job import Answer, Job
from ._render_pool import render

_ALIASED: Final = ("reasoning_content", "thinking", "reasoning")
_CONTINUE: Final = "CONTINUE_FINAL_MESSAGE_TAG "
_MAX_SOURCE: Final = 1 << 20
"""Characters of a template: ten times what the longest has."""
_MAX_SECONDS: Final = 86_400
_MAX_MEGABYTES: Final = 1 << 20
_ASKING: Final = 5
"""What a template wants may be as long in finding out as so many renderings."""


class ChatTemplateError(UnspoolError):
    """A chat template cannot be compiled, or does not render these messages."""

    def __init__(self, reason: str, hint: str, line: int | None = None) -> None:
        self.reason = reason
        """What went wrong, as the template or Jinja says it."""
        self.hint = hint
        """What to change."""
        self.line = line
        """Line of the template, where it is known."""
        place = "" if line is None else f" (line {line})"
        super().__init__(f"chat template{place}: {reason.rstrip()}\n{hint}")


class ChatTemplateLimit(ChatTemplateError):
    """A rendering takes more time or memory than it may, or writes more."""


def _plain(value: object) -> Any:
    """The same in plain JSON types: a template sees no object that can do anything."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    # Subclasses, enumerations above all, can do more than their values.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_plain(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    dump = getattr(value, "model_dump", None)
    return _plain(dump()) if callable(dump) else f"<{type(value).__name__}>"


def _shallow(value: object, what: str) -> Any:
    """The same in plain JSON types, if it is not nested more deeply than processes can tell each other."""
    try:
        return _plain(value)
    except RecursionError:
        raise UsageError(f"{what} must not be nested so deeply, or contain themselves") from None


def as_chat(messages: Iterable[object]) -> list[ChatMessage]:
    """The messages as dictionaries of their own."""
    if isinstance(messages, str | Mapping):
        raise UsageError(f"messages must be a list of messages, got {type(messages).__name__}")
    chat: list[ChatMessage] = _shallow(list(messages), "messages")
    for at, message in enumerate(chat):
        if not isinstance(message, dict):
            raise UsageError(f"message {at} must be a dictionary with 'role' and 'content', got {message!r}")
    return chat


class ChatTemplate:
    """A model's chat template.

    >>> template = ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
    >>> template.render([{"role": "user", "content": "Hi"}])
    '<user>Hi'
    """

    def __init__(
        self,
        source: str,
        *,
        bos_token: str | None = "",
        eos_token: str | None = "",
        max_length: int = 1 << 24,
        max_seconds: float = 10.0,
        max_megabytes: int = 512,
        **variables: object,
    ) -> None:
        """Compile a template.

        :param source: the text of ``chat_template.jinja``, or the field
            ``chat_template`` of ``tokenizer_config.json``.
        :param bos_token: the tokenizer's special tokens, as in its
            ``special_tokens_map``; None: the tokenizer has none.
        :param max_length: a rendering may have this many characters.
        :param max_seconds: a rendering may take so much of a processor's time.
        :param max_megabytes: a rendering may take this much memory.
        :param variables: further tokens and variables for every rendering.
        """
        if not isinstance(source, str):
            raise UsageError(f"a chat template is Jinja source text, got {type(source).__name__}")
        if find_spec("jinja2") is None:
            raise UsageError("chat templates need Jinja2: pip install 'unspool[template]'")
        if len(source) > _MAX_SOURCE:
            raise ChatTemplateError(f"longer than {_MAX_SOURCE} characters", _UNUSUAL)
        self.source = source
        """The template's text."""
        tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self.variables = {name: token for name, token in tokens.items() if token is not None} | variables
        """What every rendering is given."""
        if not (0 < max_seconds <= _MAX_SECONDS and 0 < max_megabytes <= _MAX_MEGABYTES and max_length >= 0):
            raise UsageError(
                f"max_seconds={max_seconds!r}, max_megabytes={max_megabytes!r}, max_length={max_length!r}: "
                f"more than 0, at most {_MAX_SECONDS} seconds and {_MAX_MEGABYTES} megabytes"
            )
        self._bounds = max_length, max_seconds, max_megabytes
        self._wants: TemplateCapabilities | None = None
        self._spent = 0.0
        self._run(None)

    def _manner(self, *, probing: bool) -> Manner:
        return "probing" if probing else "plain"

    def render(
        self,
        messages: Iterable[object],
        tools: Iterable[object] | None = None,
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool | str = False,
        **kwargs: object,
    ) -> str:
        """The prompt for these messages, as ``apply_chat_template`` gives it.

        :param messages: dictionaries with ``role`` and ``content``, or objects
            that turn into them; ``normalise_history`` prepares them.
        :param tools: JSON schemas as in a request.
        :param add_generation_prompt: end with the header of the model's turn.
        :param continue_final_message: end inside the last message instead, so
            that the model continues it; True: its content, or the name of a field.
        :param kwargs: variables that the template reads: ``enable_thinking``,
            ``documents``, ``reasoning_effort`` and so on.
        """
        return self._render(messages, tools, add_generation_prompt, continue_final_message, kwargs)

    def _render(
        self,
        messages: Iterable[object],
        tools: Iterable[object] | None,
        add_generation_prompt: bool,
        continue_final_message: bool | str,
        kwargs: Mapping[str, object],
        *,
        marked: bool = False,
    ) -> str:
        chat = [_aliased(message) for message in as_chat(messages)]
        final = ""
        if continue_final_message:
            field = continue_final_message if isinstance(continue_final_message, str) else "content"
            final = self._mark_end(chat, field)
            add_generation_prompt = False
        schemas = None if tools is None else _shallow(list(tools), "tools")
        variables = _shallow({"documents": None, **self.variables, **kwargs}, "variables")
        variables |= {"messages": chat, "tools": schemas, "add_generation_prompt": add_generation_prompt}
        text = self._run(variables, marked=marked)
        return _cut_end(text, final) if continue_final_message else text

    def written(
        self,
        messages: Iterable[object],
        tools: Iterable[object] | None = None,
        *,
        add_generation_prompt: bool = True,
        **kwargs: object,
    ) -> tuple[str, list[tuple[int, int]]]:
        """A rendering, and the spans that ``{% generation %}`` says are the model's.

        Transformers makes its mask of assistant tokens from them, all zeros where there are none.
        """
        return _spans(self._render(messages, tools, add_generation_prompt, False, kwargs, marked=True))

    def _mark_end(self, chat: list[ChatMessage], field: str) -> str:
        """Mark where the last message ends; returns its text."""
        value = chat[-1].get(field) if chat else None
        if value is None:
            raise UsageError(f"continue_final_message: the last message has no {field!r} to continue")
        names = [field]
        if field in _ALIASED:
            names = [name for name in _ALIASED if chat[-1].get(name) == value]
        if not any(name in self.source for name in names):
            raise UsageError(f"continue_final_message: the template does not read {field!r}")
        if isinstance(value, str):
            for name in names:
                chat[-1][name] = value + _CONTINUE
            return value
        texts = [part for part in value if isinstance(part, dict) and "text" in part]
        if not texts:
            raise UsageError("continue_final_message: the last message has no text to continue")
        text = str(texts[-1]["text"])
        texts[-1]["text"] = text + _CONTINUE
        return text

    def _run(
        self,
        variables: dict[str, Any] | None,
        *,
        probing: bool = False,
        marked: bool = False,
        left: float = math.inf,
    ) -> str:
        """What the template writes for these variables; None: see whether it is a template.

        :param left: seconds that are left, if they are not all.
        """
        length, seconds, megabytes = self._bounds
        left = min(left, seconds)
        manner = self._manner(probing=probing)
        answer = render(Job(self.source, manner, variables, marked, length, seconds, megabytes, left))
        self._spent += answer.seconds
        if answer.kind != "text":
            raise _failure(answer)
        return answer.text

    @property
    def wants(self) -> TemplateCapabilities:
        """What the template reads, and in which form."""
        if self._wants is None:
            self._wants = self._ask()
        return self._wants

    def _ask(self) -> TemplateCapabilities:
        given = _shallow(self.variables, "variables")
        variables = THINKING_ON | given | {"documents": None, "add_generation_prompt": False}
        until = self._spent + _ASKING * self._bounds[1]

        def attempt(*messages: ChatMessage) -> str:
            for tools in ([PROBED_TOOL], None):
                told = variables | {"messages": list(messages), "tools": tools}
                try:
                    return self._run(told, probing=True, left=until - self._spent)
                except ChatTemplateLimit:
                    raise  # that is no answer
                except ChatTemplateError:
                    continue
            return ""

        return ask(attempt)


def _aliased(message: ChatMessage) -> ChatMessage:
    """Reasoning under the names that templates use, as Transformers gives it."""
    reasoning = next((message[key] for key in _ALIASED if message.get(key) is not None), None)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def _spans(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """A text without its marks, and what they were around."""
    begin, end = WRITTEN
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    length, start = 0, -1
    for piece in re.split(f"([{begin}{end}])", marked):
        if piece == begin:
            start = length if start < 0 else start
        elif piece != end:
            pieces.append(piece)
            length += len(piece)
        elif start >= 0:
            spans.append((start, length))
            start = -1
    return "".join(pieces), spans


def _cut_end(text: str, final: str) -> str:
    """The text up to the mark."""
    mark = _CONTINUE.strip()
    if final.strip() not in text or mark not in text:
        raise UsageError(
            "continue_final_message: the template changes or drops the text of the last message, "
            "so that it cannot be continued"
        )
    at = text.rindex(mark)
    # Where the template trims the message, its own white space at the end goes, too.
    return text[:at] if text[at : at + len(_CONTINUE)] == _CONTINUE else text[:at].rstrip()


_UNUSUAL: Final = "No model's template is like that: check the source."
_HINTS: Final = {
    "syntax": "This is not a Jinja template that Transformers could read; check where it was loaded from.",
    "refused": "The template refuses these messages: change what it names; "
    "normalise_history() settles ids, arguments, empty content and parallel calls.",
    "value": "The template cannot handle a value in these messages, tools or variables: "
    "pass the messages through normalise_history() first.",
}


def _failure(answer: Answer) -> ChatTemplateError:
    kind, reason, line, _ = answer
    if kind == "limit":
        bound = "Raise the bound if this template may cost that much."
        return ChatTemplateLimit(reason, bound if "(max_" in reason else _UNUSUAL, line)
    return ChatTemplateError(reason, _HINTS.get(kind) or _undefined_hint(reason), line)


def _undefined_hint(reason: str) -> str:
    name = re.fullmatch(r"'(\w+)' is undefined", reason)
    if name:
        return f"The template reads a variable that is not there: pass render(..., {name[1]}=...)."
    return (
        "A message or tool lacks what the template reads: add it, or pass the messages "
        "through normalise_history() first."
    )
