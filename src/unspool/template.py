"""Chat templates: the prompt that an output follows.

``ChatTemplate`` renders a model's Jinja template the way Hugging Face
Transformers does: the same sandbox, the same filters, the same treatment of
the messages.  ``normalise_history`` makes messages as clients send them fit
for a template: what a template can read differs (arguments as objects or as
text, the key of the reasoning, one call or many, ...), and it does not say so.
So it is asked: ``Wants`` holds the answers, found by rendering probes once.

Needs Jinja2: ``pip install 'unspool[template]'``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias

from ._core.ends.render import render
from ._core.values.errors import UnspoolError, UsageError
from ._core.values.ids import OPENAI_ID, IdFormat
from ._core.values.message import Message, ToolCall
from ._core.words.template import parse_template, split_at, split_marks
from .dialects._registry import find

if TYPE_CHECKING:
    from jinja2 import Template, nodes
    from jinja2.parser import Parser
    from jinja2.runtime import Context, Macro
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    from ._core.words.dialect import Dialect

__all__ = ["MALFORMED_KEY", "ChatTemplate", "ChatTemplateError", "Wants", "normalise_history"]

ChatMessage: TypeAlias = dict[str, Any]

MALFORMED_KEY: Final = "malformed_arguments"
"""Arguments in the history that are not a JSON object are passed on as text under this key."""

REASONING_KEYS: Final = ("reasoning_content", "reasoning", "thinking", "thought")
"""What reasoning is called in a message; the first that a template reads is used."""

_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
"""Half a character: no prompt that holds one can be encoded."""
_MAX_DEPTH: Final = 64
"""Arguments that are nested deeper are malformed: templates recurse, too."""
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


# -- the environment of Transformers


class _Limit(Exception):
    """The bound on a rendering is reached."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What one rendering may cost."""

    length: int
    seconds: float
    deadline: float

    def check(self) -> None:
        if time.monotonic() > self.deadline:
            raise _Limit(f"rendering takes longer than {self.seconds:g} seconds (max_seconds)")

    def check_length(self, length: float) -> None:
        if length > self.length:
            raise _Limit(f"more than {self.length} characters of output (max_length)")


_bounds: ContextVar[_Bounds] = ContextVar("_bounds")


def _jinja() -> None:
    try:
        import jinja2.sandbox  # noqa: F401
    except ImportError as error:
        raise UsageError("chat templates need Jinja2: pip install 'unspool[template]'") from error


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes HTML; a prompt is not HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)  # noqa: DTZ005 - the local date, as Transformers gives it


@cache
def _environment(*, probing: bool) -> ImmutableSandboxedEnvironment:  # noqa: C901 - classes of an extra, in one place
    """The environment that templates run in.

    For probes time stands still, and a variable that nobody gave counts as
    an empty string.
    """
    import jinja2
    from jinja2 import ext, sandbox, utils
    from jinja2 import nodes as tree

    class Generation(ext.Extension):
        """``{% generation %}`` marks what the model wrote; it has no effect on the text."""

        tags = {"generation"}  # noqa: RUF012 - Jinja's own declaration

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return tree.CallBlock(self.call_method("_written"), [], [], body).set_lineno(line)

        def _written(self, caller: Macro) -> str:
            return caller()

    class TemplateDict:
        """``dict`` without the attributes of the type."""

        def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            return dict(*args, **kwargs)

        def fromkeys(self, *args: Any) -> dict[Any, Any]:
            return dict.fromkeys(*args)

    class TemplateNamespace(utils.Namespace):
        """Rejects names that reach into Python."""

        def __init__(*args: Any, **kwargs: Any) -> None:
            attributes = dict(*args[1:], **kwargs)
            for name in attributes:
                _checked(name)
            utils.Namespace.__init__(args[0], attributes)

        def __setitem__(self, name: str, value: Any) -> None:
            utils.Namespace.__setitem__(self, _checked(name), value)

    def _checked(name: str) -> str:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}: rename the attribute")
        return name

    class Sandbox(sandbox.ImmutableSandboxedEnvironment):
        """Looks at the bounds wherever the template calls something or multiplies."""

        intercepted_binops = frozenset(("*", "**"))

        def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
            _bounds.get().check()
            return super().call(context, obj, *args, **kwargs)

        def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
            for one, other in ((left, right), (right, left)):
                if isinstance(one, int) and isinstance(other, str | list | tuple):
                    _bounds.get().check_length(len(other) * one)
            if operator == "**" and isinstance(right, int | float) and abs(right) > 64:
                raise jinja2.exceptions.SecurityError(f"exponent too large: {right}")
            return super().call_binop(context, operator, left, right)

    class Given(jinja2.Undefined):
        """A variable that render() will be given, as a probe sees it."""

        def __add__(self, other: Any) -> Any:
            return other if self._undefined_obj is utils.missing else super().__add__(other)

        def __radd__(self, other: Any) -> Any:
            return other if self._undefined_obj is utils.missing else super().__radd__(other)

    def raise_exception(message: str) -> NoReturn:
        raise jinja2.exceptions.TemplateError(message)

    environment = Sandbox(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, ext.loopcontrols],
        undefined=Given if probing else jinja2.Undefined,
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = str if probing else _strftime_now
    environment.globals["dict"] = TemplateDict()
    environment.globals["namespace"] = TemplateNamespace
    return environment


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


def _chat(messages: Iterable[object]) -> list[ChatMessage]:
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
        _jinja()
        self.source = source
        """The template's text."""
        tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self.variables = {name: token for name, token in tokens.items() if token is not None} | variables
        """What every rendering is given."""
        self._max_length = max_length
        self._max_seconds = max_seconds
        self._template = self._compile(probing=False)

    def _compile(self, *, probing: bool) -> Template:
        from jinja2 import exceptions

        try:
            return _environment(probing=probing).from_string(self.source)
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
        chat = [_aliased(message) for message in _chat(messages)]
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

        bounds = _Bounds(self._max_length, self._max_seconds, time.monotonic() + self._max_seconds)
        token = _bounds.set(bounds)
        try:
            return "".join(_bounded(template.generate(variables), bounds))
        except exceptions.UndefinedError as error:
            raise _failure(error, error.message or "", _undefined_hint(error.message or "")) from error
        except _Limit as error:
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
        finally:
            _bounds.reset(token)

    @cached_property
    def wants(self) -> Wants:
        """What the template reads, and in which form."""
        return _probe(self)


def _bounded(pieces: Iterator[str], bounds: _Bounds) -> Iterator[str]:
    length = 0
    for piece in pieces:
        bounds.check()
        length += len(piece)
        bounds.check_length(length)
        yield piece


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


# -- what a template wants


@dataclass(frozen=True, slots=True)
class Wants:
    """What a template can read, found out by rendering probes."""

    calls: Literal["many", "one", "none"]
    """How many calls of an assistant message it writes."""
    arguments: Literal["object", "string", "either"]
    """How arguments must be given; either: both come out the same."""
    reasoning: str
    """The key it reads reasoning from; ``parts``: as a part of the content; empty: nowhere."""
    beside: bool
    """Content stays in one message with calls.  False: the template would refuse it, drop it or write
    it behind the calls, but not in a message of its own before them."""
    both: bool
    """Content and reasoning may stand in one message."""
    empty: str | None
    """The content of a message that has only calls."""
    parts: frozenset[str]
    """Roles whose content may be a list of parts."""


_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "unspool_tool",
        "description": "A probe.",
        "parameters": {
            "type": "object",
            "properties": {"unspool_key": {"type": "string", "description": "A probe."}},
            "required": ["unspool_key"],
        },
    },
}
_SWITCHES: Final = {"enable_thinking": True, "thinking": True, "add_thoughts": True}
"""What makes templates keep reasoning."""
_ARGUMENTS: Final = {"unspool_key": "unspool value"}
_TEXT: Final = "Unspool's text."
_THOUGHT: Final = "Unspool's thought."


def _part(text: str) -> list[ChatMessage]:
    return [{"type": "text", "text": text}]


def _probe_call(name: str, arguments: object) -> ChatMessage:
    # Nine characters, because some templates insist on that.
    return {"id": f"{name[-5:]}0000", "type": "function", "function": {"name": name, "arguments": arguments}}


def _probe(template: ChatTemplate) -> Wants:
    """Ask a template what it wants."""
    compiled = template._compile(probing=True)  # noqa: SLF001 - the other half of ChatTemplate

    def attempt(*messages: ChatMessage) -> str:
        variables = _SWITCHES | template.variables
        variables |= {"messages": list(messages), "documents": None, "add_generation_prompt": False}
        for tools in ([_TOOL], None):
            try:
                return template._run(compiled, variables | {"tools": tools})  # noqa: SLF001
            except ChatTemplateError:
                continue
        return ""

    def turn(content: object, *calls: ChatMessage, **extra: object) -> str:
        """A turn of the model, and the results of its calls."""
        message: ChatMessage = {"role": "assistant", "content": content, **extra}
        if calls:
            message["tool_calls"] = list(calls)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "Result."} for call in calls]
        return attempt(user, message, *results)

    def in_order(text: str) -> bool:
        """Whether the text stands where the model wrote it: before the call."""
        return -1 < text.find(_TEXT) < text.find("unspool_first")

    user = {"role": "user", "content": "Unspool's question."}
    forms = {"object": _ARGUMENTS, "string": json.dumps(_ARGUMENTS)}
    contents = ("", None)
    written = {
        (form, content): turn(content, _probe_call("unspool_first", arguments))
        for form, arguments in forms.items()
        for content in contents
    }
    written = {key: text for key, text in written.items() if "unspool_first" in text}
    arguments = _arguments_form(written)
    form = "string" if arguments == "string" else "object"
    empties = [content for content in contents if (form, content) in written]
    # Where both will do, the one that leaves no trace; `None` is written as a word by some.
    empty = min(empties, key=lambda content: len(written[form, content]), default="")
    first, second = (_probe_call(f"unspool_{name}", forms[form]) for name in ("first", "other"))
    calls = [first] if written else []
    said = {"role": "assistant", "content": _TEXT}
    call = {"role": "assistant", "content": empty, "tool_calls": [first]}
    apart = attempt(user, said, call, {"role": "tool", "tool_call_id": first["id"], "content": "Result."})
    return Wants(
        calls="none" if not calls else "many" if "unspool_other" in turn(empty, first, second) else "one",
        arguments=arguments,
        reasoning=_reasoning_key(lambda content, **extra: turn(content, *calls, **extra)),
        beside=not calls or in_order(turn(_TEXT, first)) or not in_order(apart),
        both=bool(turn(_TEXT, *calls, **dict.fromkeys(REASONING_KEYS, _THOUGHT))),
        empty=empty,
        parts=frozenset(
            role
            for role, messages in (
                ("system", [{"role": "system", "content": _part(_TEXT)}, user]),
                ("user", [{"role": "user", "content": _part(_TEXT)}]),
                ("assistant", [user, {"role": "assistant", "content": _part(_TEXT)}]),
                (
                    "tool",
                    [
                        user,
                        {"role": "assistant", "content": "", "tool_calls": [first]},
                        {"role": "tool", "tool_call_id": first["id"], "content": _part(_TEXT)},
                    ],
                ),
            )
            if _reads(attempt(*messages))
        ),
    )


def _arguments_form(written: Mapping[tuple[str, str | None], str]) -> Literal["object", "string", "either"]:
    """Which form of arguments a template takes, from what it wrote for each."""
    texts = {form: text for (form, _), text in reversed(tuple(written.items()))}
    objects, strings = texts.get("object", ""), texts.get("string", "")
    if objects and objects == strings:
        return "either"
    # A dictionary pasted into the text is no notation of any model.
    return "object" if objects and not (strings and str(_ARGUMENTS) in objects) else "string"


def _reasoning_key(turn: Callable[..., str]) -> str:
    """Where a template reads reasoning."""
    for key in REASONING_KEYS:
        if _THOUGHT in turn("", **{key: _THOUGHT}) or _THOUGHT in turn(None, **{key: _THOUGHT}):
            return key
    text = turn([{"type": "thinking", "thinking": _THOUGHT}, *_part(_TEXT)])
    return "parts" if _THOUGHT in text and _reads(text) else ""


def _reads(text: str) -> bool:
    """Whether a part of the content was read as such, not written out as a data structure."""
    return _TEXT in text and not re.search(r"""["']type["']: ["']text["']""", text)


# -- the history


def normalise_history(
    messages: Iterable[object], template: ChatTemplate, *, dialect: str | Dialect | None = None
) -> list[ChatMessage]:
    """The messages of a request in the form that the template reads.

    Nothing is lost that the template can express, the messages given stay as
    they are, and the same history always gives the same messages, so that the
    prompts of a conversation extend each other.

    * Arguments are objects, or text where the template wants text; what is not
      a JSON object goes under ``MALFORMED_KEY``.
    * Ids have the dialect's format, the same in a call and its result.
    * Reasoning stands under the key that the template reads.
    * Calls that the template would not write are written into the content, in
      the words of the dialect; several calls become several messages for a
      template that takes one.
    * Content is text where a template cannot read a list of parts, and absent
      content is what the template needs in its place.

    :param dialect: the family: it knows how ids look and how calls are written.
    """
    spec = None if dialect is None else find(dialect)
    ids = _Ids(OPENAI_ID if spec is None else spec.id_format)
    out: list[ChatMessage] = []
    for at, given in enumerate(_chat(messages)):
        message = {key: value for key, value in given.items() if value is not None or key == "content"}
        role = message.get("role")
        if not isinstance(role, str):
            raise UsageError(f"message {at} has no role: give it one of system, user, assistant, tool")
        if isinstance(message.get("content"), list) and role not in template.wants.parts:
            message["content"] = _flat(message["content"], at, role)
        if role == "assistant":
            message = _assistant(message, at, template, spec, ids)
            if "tool_calls" in message and message["content"] and not template.wants.beside:
                out.append({"role": role, "content": message["content"]})
                message["content"] = template.wants.empty
        elif role == "tool":
            message["tool_call_id"] = ids.result(message.get("tool_call_id"))
        if role != "assistant" and message.get("content") is None:
            message["content"] = ""
        out.append(message)
    return list(_one_by_one(out)) if template.wants.calls == "one" else out


def _flat(parts: Sequence[object], at: int, role: str) -> str:
    """Parts of text as one text."""
    texts = []
    for part in parts:
        text = part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise UsageError(
                f"message {at}: this template takes nothing but text from the role {role!r}; "
                f"leave out the part of type {kind!r}"
            )
        texts.append(text)
    return "\n".join(texts)


def _assistant(
    message: ChatMessage, at: int, template: ChatTemplate, dialect: Dialect | None, ids: _Ids
) -> ChatMessage:
    """A turn of the model as the template wants it."""
    wants = template.wants
    found = [message.pop(key, None) for key in REASONING_KEYS]
    reasoning = next((text for text in found if text and isinstance(text, str)), "")
    given = message.pop("tool_calls", None) or ()
    # Arguments that are fine as they are stay text: the very bytes that the model wrote.
    calls = [_call(call, at, ids, as_object=wants.arguments == "object") for call in given]
    content = message.get("content")
    if calls and wants.calls == "none" and dialect is not None:
        inline = reasoning if _closer(dialect) in template.source else ""
        content = render(dialect, _as_message(inline, content, calls))
    elif calls:
        message["tool_calls"] = calls
        if reasoning and content and isinstance(content, str) and not wants.both:
            reasoning, content = f"{reasoning}\n\n{content}", None
    if not content:
        content = wants.empty if "tool_calls" in message else ""
    if reasoning and wants.reasoning == "parts":
        parts = content if isinstance(content, list) else _part(content) if content else []
        content = [{"type": "thinking", "thinking": reasoning}, *parts]
    elif reasoning and wants.reasoning:
        message[wants.reasoning] = reasoning
    message["content"] = content
    return message


def _closer(dialect: Dialect) -> str:
    """What ends reasoning; a text that no template holds if nothing does."""
    if not dialect.reasoning:
        return "\0"
    _, _, after = split_at(parse_template(split_marks(dialect.reasoning[0])[1]), "text")
    return "".join(piece.text for piece in after).strip() or "\0"


def _as_message(reasoning: str, content: object, calls: Sequence[ChatMessage]) -> Message:
    called = []
    for call in calls:
        arguments = call["function"]["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        called.append(ToolCall(call["id"], call["function"]["name"], text))
    text = content if isinstance(content, str) else ""
    return Message(reasoning=reasoning or None, content=text or None, tool_calls=tuple(called))


def _call(call: object, at: int, ids: _Ids, *, as_object: bool) -> ChatMessage:
    """A call with nothing in it but what belongs there: some templates dump it as it is."""
    function = call.get("function", call) if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict) or not isinstance(name, str):
        raise UsageError(f"message {at}: a tool call needs a function with a name, got {call!r}")
    arguments = _arguments(function.get("arguments"), as_object=as_object)
    return {
        "id": ids.call(call.get("id"), name),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _arguments(given: object, *, as_object: bool) -> object:
    """Arguments as an object or as the text of one, whatever was given."""
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    value = _object(text)
    if value is None:
        value = {MALFORMED_KEY: _SURROGATE.sub("\ufffd", text)}
    elif value and not as_object:
        return _SURROGATE.sub("\ufffd", text)
    return value if as_object else json.dumps(value, ensure_ascii=False)


def _object(text: str) -> dict[str, Any] | None:
    """The object that a text holds; None if it holds something else, or what no template survives."""
    if text.strip() in ("", "null"):
        return {}
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
        spelt = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or _depth(value) > _MAX_DEPTH:
        return None
    whole: dict[str, Any] = json.loads(_SURROGATE.sub("\ufffd", spelt))
    return whole


def _depth(value: object) -> int:
    """How deep containers are nested."""
    depth = 0
    level = [value]
    while level:
        depth += 1
        containers = [item for item in level if isinstance(item, dict | list)]
        level = [x for item in containers for x in (item.values() if isinstance(item, dict) else item)]
    return depth


def _finite(text: str) -> float:
    """A number that JSON can write again."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


class _Ids:
    """Gives every call an id in the family's format, and its result the same one."""

    def __init__(self, form: IdFormat) -> None:
        self._form = form
        self._index = 0
        self._used: set[str] = set()
        self._names: dict[str, str] = {}
        """The id that a call has now, by the one it came with."""
        self._open: list[str] = []
        """Ids of calls that have no result yet, as they are now."""

    def call(self, given: object, name: str) -> str:
        """The id of the next call."""
        id = given if isinstance(given, str) and self._fits(given, name) else self._made(given, name)
        self._index += 1
        self._used.add(id)
        if isinstance(given, str):
            self._names[given] = id
        self._open.append(id)
        return id

    def result(self, given: object) -> str:
        """The id of a result: its call's; the first call without a result if it does not say."""
        id = self._names.get(given) if isinstance(given, str) else None
        if id is None:
            id = self._open[0] if self._open else self._made(given, "tool")
        if id in self._open:
            self._open.remove(id)
        return id

    def _fits(self, given: str, name: str) -> bool:
        pattern = re.escape(self._form.pattern)
        if not self._form.accepts(given) or given in self._used:
            return False
        if r"\{name\}" not in pattern and r"\{index\}" not in pattern:
            return True
        pattern = pattern.replace(r"\{name\}", re.escape(name)).replace(r"\{index\}", r"\d+")
        return re.fullmatch(pattern.replace(r"\{random\}", r"\w+"), given) is not None

    def _made(self, given: object, name: str) -> str:
        """An id that depends on the history only: prompts must not differ from request to request."""
        form = self._form
        for attempt in range(len(self._used) + 1):
            seed = f"{given}\0{name}\0{self._index}\0{attempt}"
            digits = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "replace")).digest())
            text = form.pattern.replace("{random}", _base36(digits, form.length))
            id = text.replace("{index}", str(self._index)).replace("{name}", name)
            if id not in self._used:
                break
        return id


def _base36(number: int, length: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    out = []
    for _ in range(length):
        number, digit = divmod(number, len(digits))
        out.append(digits[digit])
    return "".join(out)


def _one_by_one(messages: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """Each call in a message of its own, followed by its result."""
    done: set[int] = set()
    for at, message in enumerate(messages):
        calls = message.get("tool_calls", ())
        if at in done:
            continue
        if len(calls) < 2:
            yield message
            continue
        results = range(at + 1, len(messages))
        for number, call in enumerate(calls):
            alone = dict(message) if number == 0 else {"role": message["role"], "content": ""}
            yield alone | {"tool_calls": [call]}
            for i in results:
                if messages[i]["role"] != "tool":
                    break
                if messages[i].get("tool_call_id") == call["id"] and i not in done:
                    done.add(i)
                    yield messages[i]
