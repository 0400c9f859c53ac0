"""Functions that examine a prompt's end: where the output begins, and whether the prompt fits the dialect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from .._core.compile_cache import compiled_dialect
from .._core.machine import OutputStart
from .._core.read_prompt_end import output_start, relevant_tail
from .._core.schema.tools import tool_name
from .._core.token_ids.detokenizer import Detokenizer
from .._core.token_ids.tokenizer_adapters import AnyTokenizer, as_tokenizer
from ..dialects import Dialect, RequestFacts, end_tokens, role_markers
from ..errors import UsageError
from .derived_dialects import closer, opener

_TOOLS_ADVICE: Final = "pass tools to the chat template, or describe them in the system message"
_MAX_COMPARED: Final = 65536
"""Maximum number of characters to compare at the end of a message and the end of the prompt."""


def start_state(dialect: Dialect, prompt: str, *, continues: bool = False) -> OutputStart:
    r"""Return where the output after this prompt begins.

    >>> from unspool import get_dialect
    >>> start_state(get_dialect("qwen3"), "<|im_start|>assistant\n<think>\n")
    'reasoning'
    """
    start = output_start(dialect, relevant(dialect, prompt, continues=continues))
    if start is not None:
        return start
    return "header" if dialect.prompt.start else "call"


def relevant(dialect: Dialect, prompt: str, *, continues: bool = False) -> str:
    """Return the last part of a prompt: all text that can affect the parser's initial state."""
    return relevant_tail(prompt, compiled_dialect(dialect), continues=continues)


def continued_turn(dialect: Dialect, prompt: str, prefill: str) -> str:
    """Return the end of a prompt, from the beginning of the turn that the output continues.

    In some families the header of a turn is ordinary text, not a marker.  In these families, only the text of
    the message shows where the turn begins.

    :param prefill: the text of the message that the output continues.
    """
    if dialect.frame is not None:
        # The header of a message is a marker, so the turn can be found without ``prefill``.
        return relevant(dialect, prompt, continues=True)
    at = _start_of_prefill(prompt, prefill)
    return relevant(dialect, prompt[:at]) + prompt[at:]


def _start_of_prefill(prompt: str, prefill: str) -> int:
    """Return the offset in the prompt of the message that the output continues.

    A template may change whitespace in the message, or remove the beginning of the message.  So the offset is
    the start of the longest common suffix of prompt and message; differences in whitespace are ignored.
    """
    prefill = prefill.strip()
    end = len(prompt.rstrip())
    if not prefill:
        return len(prompt)
    if prompt.endswith(prefill, 0, end):
        return end - len(prefill)
    prefill = prefill[-_MAX_COMPARED:]
    first, left, at = max(0, end - _MAX_COMPARED), len(prefill), len(prompt)
    while left and end > first and prompt[end - 1] == prefill[left - 1]:
        at = end = end - 1
        left -= 1
        while left and prefill[left - 1].isspace():
            left -= 1
        while end > first and prompt[end - 1].isspace():
            end -= 1
    return at


def prompt_text(prompt: str | Sequence[int] | None, tokenizer: AnyTokenizer | None) -> str | None:
    """Return a prompt as text, decoding token ids."""
    if prompt is None or isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, Sequence) or not all(isinstance(id, int) for id in prompt):
        raise UsageError(
            f"prompt is a {type(prompt).__name__}: pass the rendered prompt as text or token ids"
        )
    if tokenizer is None:
        raise UsageError("prompt consists of token ids: pass the model's tokenizer too, or pass text")
    return Detokenizer(as_tokenizer(tokenizer), {}).decode(map(int, prompt))


def tail(text: str) -> str:
    """Return the end of a text, for quotation in error messages."""
    return text if len(text) <= 30 else "…" + text[-30:]


def opens_content(dialect: Dialect, prompt: str) -> bool:
    """Return whether a prompt ends with the opening marker of the content."""
    openers = tuple(filter(None, map(opener, dialect.content)))
    return bool(openers) and prompt.rstrip().endswith(openers)


def closes_reasoning(dialect: Dialect, prompt: str) -> bool:
    """Return whether a prompt ends with the closing marker of reasoning."""
    closers = tuple(filter(None, map(closer, dialect.reasoning)))
    return bool(closers) and prompt.rstrip().endswith(closers)


def check_prompt(
    family: str, dialect: Dialect, facts: RequestFacts, prompt: str, *, continues: bool
) -> list[str]:
    """Return warnings about a prompt; raise an error if it cannot come from a template of the family."""
    text = prompt.rstrip()
    for eos in end_tokens(dialect, facts):
        if text.endswith(eos):
            raise UsageError(
                f"the prompt ends with {eos!r}, which ends a turn of {family}: render it with "
                "add_generation_prompt=True, or pass the end of the prompt exactly as the model receives it"
            )
    endings = dialect.prompt.ends
    expected = f"prompts of {family} end with {' or '.join(map(repr, endings))}"
    if endings:
        bare = _without_seed(text, dialect)
        other = [marker for marker in role_markers() if bare.endswith(marker)]
        if other and not bare.endswith(endings):
            raise UsageError(
                f"the prompt ends with {max(other, key=len)!r}, but {expected}: use the template of this "
                "family, or the dialect of that template"
            )
    if dialect.frame is not None and not relevant(dialect, prompt, continues=continues):
        raise UsageError(
            f"the prompt ends with {tail(prompt)!r}, outside any message, but output of {family} begins "
            f"after {dialect.prompt.start!r}: check the template, render with add_generation_prompt=True, "
            "or set continue_final_message if the output continues the last message"
        )
    if text.endswith("<think>") and not any(text.endswith(opener(each)) for each in dialect.reasoning):
        return [f"the prompt ends with '<think>', which is not a marker of {family}"]
    return []


def check_tools_shown(
    prompt: object, tools: Iterable[Mapping[str, object]], request: Mapping[str, object]
) -> list[str]:
    """Return a warning if the request has tools, but the prompt does not contain any tool name.

    Partial prompts are not checked.  A prompt counts as partial if it lacks the request's first message.
    """
    if not isinstance(prompt, str) or any(str(tool_name(tool)) in prompt for tool in tools):
        return []
    names = [str(tool_name(tool)) for tool in tools]
    messages = request.get("messages")
    contents = [
        message.get("content")
        for message in (messages if isinstance(messages, Sequence) else ())
        if isinstance(message, Mapping)
    ]
    first = next((text.strip() for text in contents if isinstance(text, str) and text.strip()), "")
    if not names or not first or first not in prompt:
        return []
    shown = ", ".join(names[:3])
    return [f"the prompt does not show the tools ({shown}): {_TOOLS_ADVICE}"]


def _without_seed(text: str, dialect: Dialect) -> str:
    """Remove reasoning and content markers from the end of a prompt."""
    markers = {"<think>", "</think>"}
    for template in dialect.reasoning:
        markers |= {opener(template), closer(template)}
    for template in dialect.content:
        markers.add(opener(template))
    markers.discard("")
    while text.endswith(tuple(markers)):
        longest = max((marker for marker in markers if text.endswith(marker)), key=len)
        text = text.removesuffix(longest).rstrip()
    return text
