"""What the end of a prompt says: where the output begins, and whose prompt it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .._core.arguments.select import compile_dialect
from .._core.start_state import relevant_tail
from .._core.token_ids.detokenizer import Detokenizer
from .._core.token_ids.tokenizers import AnyTokenizer, as_tokenizer
from ..dialects._declaration import Dialect
from ..dialects._registry import role_markers
from ..dialects._request_facts import ANY, MODEL, RequestFacts
from ..errors import UsageError
from ..events import CallArgs, CallStart, Text
from ..parser import Parser
from ..policies import Policies
from ._derived_dialects import closer, opener
from ._plan import OutputStart

DEFAULTS: Final = Policies()
_LONGEST_CHANGED: Final = 65536
"""Characters of a message that are looked for where the template changed it."""


def start_state(dialect: Dialect, prompt: str, *, continues: bool = False) -> OutputStart:
    r"""Return where an output after this prompt begins: what the parser itself makes of it.

    >>> from unspool import get_dialect
    >>> start_state(get_dialect("qwen3"), "<|im_start|>assistant\n<think>\n")
    'reasoning'
    """
    prompt = relevant(dialect, prompt, continues=continues)
    parser = Parser(dialect, prompt=prompt, continues=continues, policies=DEFAULTS)
    open_head = parser.mode == "trial"
    for event in parser.feed("x"):
        if isinstance(event, (CallStart, CallArgs)):
            return "call"
        # The "x" may be what broke the head of a call.
        if isinstance(event, Text) and not (open_head and _begins_call(dialect, prompt)):
            return event.channel
    return "header" if dialect.prompt.start else "call"


def _begins_call(dialect: Dialect, text: str) -> bool:
    """Whether a text begins with the opener of a call or of a section."""
    syntax = compile_dialect(dialect)
    openers = [form.opener for form in syntax.forms] + [section.opener for section in syntax.sections]
    return text.startswith(tuple(filter(None, openers)))


def relevant(dialect: Dialect, prompt: str, *, continues: bool = False) -> str:
    """Return the part of a prompt that counts, however long the prompt is."""
    return relevant_tail(prompt, compile_dialect(dialect), continues=continues)


def continued_turn(dialect: Dialect, prompt: str, begun: str) -> str:
    """Return the end of a prompt that has the turn to be continued, without the messages before it.

    Where turns begin with plain words nothing else tells these messages from the turn.

    :param begun: the text of the message that is to be continued.
    """
    if dialect.frame is not None:
        return relevant(dialect, prompt, continues=True)  # a message begins with its own header
    at = _written_from(prompt, begun)
    return relevant(dialect, prompt[:at]) + prompt[at:]


def _written_from(prompt: str, begun: str) -> int:
    """Return where the text that a prompt ends with begins in it.

    A template may change whitespace, or drop the beginning. Only what both end with is that text.
    """
    begun = begun.strip()
    end = len(prompt.rstrip())
    if not begun:
        return len(prompt)
    if prompt.endswith(begun, 0, end):
        return end - len(begun)
    begun = begun[-_LONGEST_CHANGED:]
    first, left, at = max(0, end - _LONGEST_CHANGED), len(begun), len(prompt)
    while left and end > first and prompt[end - 1] == begun[left - 1]:
        at = end = end - 1
        left -= 1
        while left and begun[left - 1].isspace():
            left -= 1
        while end > first and prompt[end - 1].isspace():
            end -= 1
    return at


def prompt_text(prompt: str | Sequence[int] | None, tokenizer: AnyTokenizer | None) -> str | None:
    """A prompt as text, in whatever form it was given."""
    if prompt is None or isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, Sequence) or not all(isinstance(id, int) for id in prompt):
        raise UsageError(f"prompt is a {type(prompt).__name__}: pass the rendered prompt, as text or ids")
    if tokenizer is None:
        raise UsageError("the prompt is given as token ids: pass the model's tokenizer, or the text")
    return Detokenizer(as_tokenizer(tokenizer), {}).whole(map(int, prompt))


def tail(text: str) -> str:
    """The end of a prompt, for people."""
    return text if len(text) <= 30 else "…" + text[-30:]


def opens_content(dialect: Dialect, prompt: str) -> bool:
    """Whether the prompt ends with the opener of an answer."""
    openers = tuple(filter(None, map(opener, dialect.content)))
    return bool(openers) and prompt.rstrip().endswith(openers)


def closes_reasoning(dialect: Dialect, prompt: str) -> bool:
    """Whether the prompt ends with the end of reasoning."""
    closers = tuple(filter(None, map(closer, dialect.reasoning)))
    return bool(closers) and prompt.rstrip().endswith(closers)


def check_prompt(
    family: str, dialect: Dialect, facts: RequestFacts, prompt: str, *, continues: bool
) -> list[str]:
    """Refuse a prompt that this family's templates cannot have rendered; warn of odd ones."""
    text = prompt.rstrip()
    for eos in facts.eos:
        if eos != MODEL and text.endswith(eos):
            raise UsageError(
                f"the prompt ends with {eos!r}, which ends a turn of {family}: render it with "
                "add_generation_prompt=True, or pass its tail as the model sees it"
            )
    own = facts.prompts
    expected = f"prompts of {family} end with {' or '.join(map(repr, own))}"
    if ANY not in own:
        bare = _without_seed(text, dialect)
        foreign = [marker for marker in role_markers() if bare.endswith(marker)]
        if foreign and not bare.endswith(own):
            raise UsageError(
                f"the prompt ends with {max(foreign, key=len)!r}, but {expected}: it was rendered with "
                "another family's template, or the dialect is the wrong one"
            )
    if dialect.frame is not None and not relevant(dialect, prompt, continues=continues):
        raise UsageError(
            f"the prompt ends with {tail(prompt)!r}, outside of any message, but output of {family} begins "
            f"after {dialect.prompt.start!r}: check the template, render with add_generation_prompt=True, "
            "or set continue_final_message if the output continues the last message"
        )
    if text.endswith("<think>") and not any(text.endswith(opener(each)) for each in dialect.reasoning):
        return [f"the prompt ends with '<think>', which means nothing in {family}"]
    return []


def _without_seed(text: str, dialect: Dialect) -> str:
    """A prompt without the markers of reasoning that its template put behind the role."""
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
