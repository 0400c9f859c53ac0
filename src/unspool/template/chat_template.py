"""A chat template, rendered the way Hugging Face Transformers does."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from .._core.values.errors import UnspoolError, UsageError
from .environment import WRITTEN, Limit, check_jinja, environment, generate, marking
from .wants import PROBED_TOOL, THINKING_ON, ChatMessage, Wants, ask

if TYPE_CHECKING:
    from types import CodeType

    from jinja2 import Environment, Template

_ALIASED: Final = ("reasoning_content", "thinking", "reasoning")
_CONTINUE: Final = "CONTINUE_FINAL_MESSAGE_TAG "


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


def as_chat(messages: Iterable[object]) -> list[ChatMessage]:
    """The messages as dictionaries of their own."""
    if isinstance(messages, str | Mapping):
        raise UsageError(f"messages must be a list of messages, got {type(messages).__name__}")
    try:
        chat = [_plain(message) for message in messages]
    except RecursionError:
        raise UsageError("messages must not be nested so deeply, or contain themselves") from None
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
        **variables: object,
    ) -> None:
        """Compile a template.

        :param source: the text of ``chat_template.jinja``, or the field
            ``chat_template`` of ``tokenizer_config.json``.
        :param bos_token: the tokenizer's special tokens, as in its
            ``special_tokens_map``; None: the tokenizer has none.
        :param max_length: a rendering may have this many characters.
        :param max_seconds: a rendering may take this long; looked at whenever
            the template writes or calls something.
        :param variables: further tokens and variables for every rendering.
        """
        if not isinstance(source, str):
            raise UsageError(f"a chat template is Jinja source text, got {type(source).__name__}")
        check_jinja()
        self.source = source
        """The template's text."""
        tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self.variables = {name: token for name, token in tokens.items() if token is not None} | variables
        """What every rendering is given."""
        self._max_length = max_length
        self._max_seconds = max_seconds
        self._code: CodeType | None = None
        self._template = self._compile(probing=False)

    def _environment(self, *, probing: bool) -> Environment:
        return environment(probing=probing)

    def _compile(self, *, probing: bool) -> Template:
        from jinja2 import exceptions

        found = self._environment(probing=probing)
        try:
            # What it is compiled to is the same in both environments, and takes longer than many renderings.
            code = self._code = self._code or found.compile(self.source)
            return found.template_class.from_code(found, code, found.make_globals(None))
        except RecursionError:
            raise ChatTemplateError(
                "nested too deeply", "No model's template is: check the source."
            ) from None
        except exceptions.TemplateSyntaxError as error:
            hint = (
                "This is not a Jinja template that Transformers could read; check where it was loaded from."
            )
            raise ChatTemplateError(error.message or "syntax error", hint, error.lineno) from None

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
        chat = [_aliased(message) for message in as_chat(messages)]
        final = ""
        if continue_final_message:
            field = continue_final_message if isinstance(continue_final_message, str) else "content"
            final = self._mark_end(chat, field)
            add_generation_prompt = False
        schemas = None if tools is None else [_plain(tool) for tool in tools]
        variables = {"documents": None} | self.variables | kwargs
        variables = {name: _plain(value) for name, value in variables.items()}
        variables |= {"messages": chat, "tools": schemas, "add_generation_prompt": add_generation_prompt}
        text = self._run(self._template, variables)
        return _cut_end(text, final) if continue_final_message else text

    def written(
        self, messages: Iterable[object], tools: Iterable[object] | None = None, **kwargs: Any
    ) -> tuple[str, list[tuple[int, int]]]:
        """A rendering, and the spans that ``{% generation %}`` says are the model's.

        Transformers makes its mask of assistant tokens from them, all zeros where there are none.
        """
        token = marking.set(True)
        try:
            marked = self.render(messages, tools, **kwargs)
        finally:
            marking.reset(token)
        text, spans = "", []
        for piece in re.split(f"({WRITTEN[0]}[^{WRITTEN[1]}]*{WRITTEN[1]})", marked):
            if piece.startswith(WRITTEN[0]):
                spans.append((len(text), len(text) + len(piece) - 2))
            text += piece.strip("".join(WRITTEN))
        return text, spans

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

    def _run(self, template: Template, variables: Mapping[str, object]) -> str:
        from jinja2 import exceptions

        try:
            return generate(template, variables, length=self._max_length, seconds=self._max_seconds)
        except exceptions.UndefinedError as error:
            raise _failure(error, error.message or "", _undefined_hint(error.message or "")) from error
        except Limit as error:
            raise _failure(
                error, str(error), "Raise the bound if this template may cost that much."
            ) from error
        except exceptions.TemplateError as error:
            hint = (
                "The template refuses these messages: change what it names; "
                "normalise_history() settles ids, arguments, empty content and parallel calls."
            )
            raise _failure(error, error.message or type(error).__name__, hint) from error
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            hint = (
                "The template cannot handle a value in these messages, tools or variables: "
                "pass the messages through normalise_history() first."
            )
            raise _failure(error, f"{type(error).__name__}: {error}", hint) from error

    @cached_property
    def wants(self) -> Wants:
        """What the template reads, and in which form."""
        compiled = self._compile(probing=True)
        variables = THINKING_ON | self.variables | {"documents": None, "add_generation_prompt": False}

        def attempt(*messages: ChatMessage) -> str:
            for tools in ([PROBED_TOOL], None):
                try:
                    return self._run(compiled, variables | {"messages": list(messages), "tools": tools})
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


def _failure(error: Exception, reason: str, hint: str) -> ChatTemplateError:
    line = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == "<template>":
            line = number
    return ChatTemplateError(reason, hint, line)


def _undefined_hint(reason: str) -> str:
    name = re.fullmatch(r"'(\w+)' is undefined", reason)
    if name:
        return f"The template reads a variable that is not there: pass render(..., {name[1]}=...)."
    return (
        "A message or tool lacks what the template reads: add it, or pass the messages "
        "through normalise_history() first."
    )
