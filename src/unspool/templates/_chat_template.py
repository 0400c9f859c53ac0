"""Chat template of a model, rendered as in Hugging Face Transformers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from importlib.util import find_spec
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

from ..errors import UnspoolError, UsageError
from ._capabilities import PROBED_TOOL, THINKING_ON, ChatMessage, TemplateCapabilities, probe_capabilities
from ._jinja_environment import GENERATION_MARKS, RenderMode
from ._render_job import RenderJob, RenderResult
from ._render_limits import (
    DEFAULT_MAX_LENGTH,
    DEFAULT_MAX_MEGABYTES,
    DEFAULT_MAX_SECONDS,
    MAX_MEGABYTES,
    MAX_SECONDS,
    MAX_SOURCE,
    PROBING_RENDERINGS,
)
from ._render_pool import render

if TYPE_CHECKING:
    from ..models.sources import Source

_ALIASED: Final = ("reasoning_content", "thinking", "reasoning")
_CONTINUE: Final = "CONTINUE_FINAL_MESSAGE_TAG "


class ChatTemplateError(UnspoolError):
    """Raised if a chat template cannot be compiled, or cannot render the messages."""

    def __init__(self, reason: str, hint: str, line: int | None = None) -> None:
        self.reason = reason
        """The error message from the template or from Jinja."""
        self.hint = hint
        """Advice on how to fix the error."""
        self.line = line
        """The number of the template line that caused the error; None if unknown."""
        place = "" if line is None else f" (line {line})"
        super().__init__(f"chat template{place}: {reason.rstrip()}\n{hint}")


class ChatTemplateLimit(ChatTemplateError):
    """Raised if a rendering exceeds a limit on time, memory or output."""


def _plain(value: object) -> Any:
    """Return a copy of a value in plain JSON types, without methods that a template could misuse."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    # Convert instances of subclasses, such as enumeration members, to the plain type: a subclass may have
    # attributes that a template must not use.
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


def _to_json_types(value: object, what: str) -> Any:
    """Return a copy of a value in plain JSON types; raise an error if the value is nested too deeply.

    :param what: the name of the value, for error messages.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise UsageError(f"{what} are nested too deeply, or contain a reference to themselves") from None


def as_chat(messages: Iterable[object]) -> list[ChatMessage]:
    """Return the messages as new dictionaries."""
    if isinstance(messages, str | Mapping):
        raise UsageError(f"messages must be a list of messages, got {type(messages).__name__}")
    chat: list[ChatMessage] = _to_json_types(list(messages), "messages")
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
        max_length: int = DEFAULT_MAX_LENGTH,
        max_seconds: float = DEFAULT_MAX_SECONDS,
        max_megabytes: int = DEFAULT_MAX_MEGABYTES,
        **variables: object,
    ) -> None:
        """Compile a template.

        :param source: the text of the file ``chat_template.jinja``, or the field
            ``chat_template`` of ``tokenizer_config.json``.
        :param bos_token: the tokenizer's token for the beginning of a text; None if there is none.
        :param eos_token: the tokenizer's token for the end of a text; None if there is none.
        :param max_length: maximum length of a rendering, in characters.
        :param max_seconds: maximum processor time for a rendering, in seconds.
        :param max_megabytes: maximum memory for a rendering, in megabytes.
        :param variables: further special tokens, and other variables for every rendering.
        """
        if not isinstance(source, str):
            raise UsageError(f"a chat template is Jinja source text, got {type(source).__name__}")
        if find_spec("jinja2") is None:
            raise UsageError("chat templates need Jinja2: pip install 'unspool[template]'")
        if len(source) > MAX_SOURCE:
            raise ChatTemplateError(f"the template is longer than {MAX_SOURCE} characters", _UNUSUAL)
        self.source = source
        """The source text of the template."""
        tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self.variables = {name: token for name, token in tokens.items() if token is not None} | variables
        """The variables that are passed to every rendering."""
        if not (0 < max_seconds <= MAX_SECONDS and 0 < max_megabytes <= MAX_MEGABYTES and max_length >= 0):
            raise UsageError(
                f"max_seconds={max_seconds!r}, max_megabytes={max_megabytes!r}, max_length={max_length!r}: "
                f"choose values above 0, at most {MAX_SECONDS} seconds and {MAX_MEGABYTES} megabytes"
            )
        self._limits = max_length, max_seconds, max_megabytes
        self._capabilities: TemplateCapabilities | None = None
        self._spent = 0.0
        self._run(None)

    @classmethod
    def load(cls, source: str | PathLike[str] | Source, **options: Any) -> ChatTemplate:
        """Load the template of a model, together with its special tokens.

        Nothing is downloaded, and no server is contacted.  For the template of a running server, pass
        ``unspool.models.find_source(url)``.

        :param source: a model directory, a file with a template, a ``tokenizer_config.json``, a GGUF file, or
            the name of a model in the Hugging Face cache, such as ``Qwen/Qwen3-8B``; or a ``Source``.
        :param options: options of ``ChatTemplate``, such as ``max_length``, and variables for renderings.
        """
        from ..models.sources import Source, find_source
        from ..models.sources.running_server import is_url
        from ..models.sources.source import is_template

        if isinstance(source, Source):
            found = source
        else:
            name = fspath(source)
            if is_template(name):
                raise UsageError("this is the text of a template: pass it to ChatTemplate() itself")
            if is_url(name):
                raise UsageError(
                    f"{name} is a URL, not a file: to load a server's template, pass "
                    f"unspool.models.find_source({name!r})"
                )
            if name == "-":
                raise UsageError("- is not a file: pass a path, or the name of a downloaded model")
            found = find_source(name)
        if not found.template:
            raise UsageError(
                f"{found.origin} has no Jinja template: load the chat template of the original model instead"
            )
        return cls(found.template, **{**found.tokens, **options})

    def _mode(self, *, probing: bool) -> RenderMode:
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
        """Return the prompt for these messages, like ``apply_chat_template`` in Transformers.

        :param messages: dictionaries with ``role`` and ``content``, or objects that can be
            converted to such dictionaries; ``normalise_history`` prepares them.
        :param tools: the tools of the request.
        :param add_generation_prompt: whether to end the prompt with the header of the model's turn, such as
            ``<|im_start|>assistant``.
        :param continue_final_message: whether to end the prompt inside the last message, so that the model
            continues this message.  True means the field ``content``; a string names another field, such as
            ``reasoning_content``.
        :param kwargs: variables for the template, such as ``enable_thinking``,
            ``documents`` and ``reasoning_effort``.
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
        schemas = None if tools is None else _to_json_types(list(tools), "tools")
        variables = _to_json_types({"documents": None, **self.variables, **kwargs}, "variables")
        variables |= {"messages": chat, "tools": schemas, "add_generation_prompt": add_generation_prompt}
        text = self._run(variables, marked=marked)
        return _cut_end(text, final) if continue_final_message else text

    def render_with_spans(
        self,
        messages: Iterable[object],
        tools: Iterable[object] | None = None,
        *,
        add_generation_prompt: bool = True,
        **kwargs: object,
    ) -> tuple[str, list[tuple[int, int]]]:
        """Return a rendering and the spans of its ``{% generation %}`` blocks.

        These blocks contain the model's text, and Transformers builds its mask of assistant
        tokens from the spans.  The list is empty if the template has no such block.
        """
        return _spans(self._render(messages, tools, add_generation_prompt, False, kwargs, marked=True))

    def _mark_end(self, chat: list[ChatMessage], field: str) -> str:
        """Append a marker to the text of the last message; return the original text."""
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
        seconds_left: float = math.inf,
    ) -> str:
        """Render the template with these variables.

        :param variables: the template's variables; None to compile the template without rendering.
        :param seconds_left: the remaining seconds of the time limit, if earlier renderings have used a part
            of it.
        """
        length, seconds, megabytes = self._limits
        seconds_left = min(seconds_left, seconds)
        mode = self._mode(probing=probing)
        result = render(
            RenderJob(self.source, mode, variables, marked, length, seconds, megabytes, seconds_left)
        )
        self._spent += result.seconds
        if result.kind != "text":
            raise _failure(result)
        return result.text

    @property
    def capabilities(self) -> TemplateCapabilities:
        """The capabilities of the template, which determine the messages that it can read."""
        if self._capabilities is None:
            self._capabilities = self._probe()
        return self._capabilities

    def _probe(self) -> TemplateCapabilities:
        own = _to_json_types(self.variables, "variables")
        variables = THINKING_ON | own | {"documents": None, "add_generation_prompt": False}
        until = self._spent + PROBING_RENDERINGS * self._limits[1]

        def attempt(*messages: ChatMessage) -> str:
            for tools in ([PROBED_TOOL], None):
                probe = variables | {"messages": list(messages), "tools": tools}
                try:
                    return self._run(probe, probing=True, seconds_left=until - self._spent)
                except ChatTemplateLimit:
                    raise  # A failed probe does not prove that the capability is missing.
                except ChatTemplateError:
                    continue
            return ""

        return probe_capabilities(attempt)


def _aliased(message: ChatMessage) -> ChatMessage:
    """Return a message with its reasoning under both usual keys, as Transformers does."""
    reasoning = next((message[key] for key in _ALIASED if message.get(key) is not None), None)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def _spans(marked: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a rendering without ``{% generation %}`` marks, and the spans of the marked blocks."""
    begin, end = GENERATION_MARKS
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
    """Return a rendering up to the end of the last message's text."""
    mark = _CONTINUE.strip()
    if final.strip() not in text or mark not in text:
        raise UsageError(
            "continue_final_message: the template changes or omits the text of the last message, "
            "so the model cannot continue it"
        )
    at = text.rindex(mark)
    # The marker ends with a space. If the rendering lacks this space, the template trims messages, so trim
    # the text, too.
    return text[:at] if text[at : at + len(_CONTINUE)] == _CONTINUE else text[:at].rstrip()


_UNUSUAL: Final = "No known model has such a template: check its source."
_HINTS: Final = {
    "syntax": "Transformers could not read this Jinja template either: check where it was loaded from.",
    "refused": "The template refuses these messages: change them as its message says; "
    "normalise_history() fixes ids, arguments, empty content and parallel calls.",
    "value": "The template cannot handle a value in these messages, tools or variables: "
    "pass the messages through normalise_history() first.",
}


def _failure(result: RenderResult) -> ChatTemplateError:
    kind, reason, line, _ = result
    if kind == "limit":
        hint = "Raise the limit if this template needs more."
        return ChatTemplateLimit(reason, hint if "(max_" in reason else _UNUSUAL, line)
    return ChatTemplateError(reason, _HINTS.get(kind) or _undefined_hint(reason), line)


def _undefined_hint(reason: str) -> str:
    name = re.fullmatch(r"'(\w+)' is undefined", reason)
    if name:
        return f"The template needs a variable: pass render(..., {name[1]}=...)."
    return (
        "A message or tool lacks a field that the template reads: add the field, or pass the messages "
        "through normalise_history() first."
    )
