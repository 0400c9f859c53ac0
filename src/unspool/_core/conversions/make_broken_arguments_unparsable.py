r"""*Poison*: characters that invalidate a broken call whose start a client has already received.

A chunk cannot be taken back, and clients run every call that they can read.  Many clients read missing
arguments as ``{}``, close open strings and brackets, or repair invalid JSON; few check the finish
reason.  A call that the model did not finish must never run, because its arguments are not what the
model meant: ``rm -rf /tmp/x`` may be truncated to ``rm -rf /``.

So the encoders append *poison*, a few characters, to the arguments of a broken call.  Poisoned
arguments are not JSON, and closing, trimming or repairing them does not yield JSON:

- An incomplete ``\u`` escape inside a string stops programs that repair JSON.
- A closing bracket that does not match the open bracket stops programs that complete JSON.

For a truncated call, at most three characters follow the ``\u``, so parsers of partial JSON still treat the
text as incomplete.  For a malformed call, these parsers report an error.  Only wire formats contain poison:
events and messages contain the model's own text, and the gateway removes poison from requests that send such
a call back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ...errors import MalformedOutput
from ..arguments.json_value import json_kind

MALFORMED: Final = "<malformed>"
"""Text in the poison of a malformed call, which shows people and programs what is wrong."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|(?P<open>\\?)\Z)|[\[\]{},:]|[^\s"\[\]{},:]++', re.DOTALL)
_POISON: Final = re.compile(r'(?:[,:{]?")?\\?u(?:<malformed>)?"[\]}]\Z')
_MAX_POISON: Final = 24
"""Upper bound for the length of poison, in characters."""


def make_poison(sent: str, status: str) -> str:
    r"""Return the poison to append to the arguments that a client has received.

    >>> make_poison('{"path": "a.p', "truncated")
    '\\u"]'
    >>> make_poison('{"paths": [1, ', "malformed")
    '"\\u<malformed>"}'
    >>> make_poison("", "truncated")
    '{"\\u"]'
    """
    # Find the state at the end of the text: the innermost open bracket, and whether a string is open.
    # open_string is None if no string is open, a backslash if the open string ends with an incomplete
    # escape, and an empty string for any other open string.
    brackets: list[str] = []
    last = ""  # the first character of the last token
    before_last = ""
    open_string: str | None = None
    for token in _TOKEN.finditer(sent):
        before_last, last = last, token[0][0]
        open_string = token["open"]
        if last in "[{":
            brackets.append(last)
        elif last in "]}" and brackets:
            brackets.pop()
    innermost = brackets[-1] if brackets else ""
    # Open a string if none is open, then start an escape in it.
    if open_string is not None:
        opening = "" if open_string else "\\"
    elif not last:
        opening = '{"\\'
    elif last in "[{,:":
        opening = '"\\'
    else:
        is_key = last == '"' and innermost == "{" and before_last in "{,"
        opening = ':"\\' if is_key else ',"\\'
    wrong_bracket = "}" if innermost == "[" else "]"
    return f'{opening}u{MALFORMED if status == "malformed" else ""}"{wrong_bracket}'


def is_poisoned(arguments: str) -> bool:
    """Return whether arguments end with poison."""
    return _strip_poison(arguments) is not None


def is_poisoned_as_malformed(arguments: str) -> bool:
    """Return whether arguments end with the poison of a malformed call."""
    return MALFORMED in arguments and is_poisoned(arguments)


def remove_poison(arguments: str) -> str:
    r"""Return arguments without poison, as the model wrote them.

    >>> remove_poison('{"path": "a.p\\u"]')
    '{"path": "a.p'
    >>> remove_poison('{"path": "a.py"}')
    '{"path": "a.py"}'
    """
    stripped = _strip_poison(arguments)
    return arguments if stripped is None else stripped


def _strip_poison(arguments: str) -> str | None:
    """Return the arguments without their poison, or None if they have none."""
    match = _POISON.search(arguments, max(0, len(arguments) - _MAX_POISON))
    if match is None:
        return None
    status = "malformed" if MALFORMED in match[0] else "truncated"
    # The first characters of the match may belong to the model's text, so try every start position.
    for end in range(match.start(), len(arguments)):
        if arguments[end:] == make_poison(arguments[:end], status):
            return arguments[:end]
    return None


RESPONSE_ADVICE: Final = (
    'Stream the response, or parse with Policies(commit="call") to get such calls as text.'
)
"""Advice for callers that encode a response."""


def unsendable_call(
    name: str, raw: str, start: int = 0, at: int = 0, advice: str = RESPONSE_ADVICE
) -> MalformedOutput:
    """Return the error for a malformed call where an API requires JSON objects as arguments.

    :param start: offset in the output at which ``raw`` begins.
    :param at: offset in the output of the fault.
    """
    return MalformedOutput(
        "malformed_call",
        f"the arguments of {name} are not a JSON object, and this API cannot carry anything else",
        start,
        start + len(raw),
        raw,
        max(start, at),
        advice,
    )


def load_object(
    name: str,
    arguments: str,
    load: Callable[[str], object],
    start: int = 0,
    advice: str = RESPONSE_ADVICE,
) -> object:
    """Convert the arguments of a call to an object with the function ``load``.

    :param start: offset of the arguments in the output, for the error.
    :raises MalformedOutput: if the arguments are not a JSON object that every client can read.
    """
    arguments = arguments or "{}"
    if json_kind(arguments) != "{":
        raise unsendable_call(name, arguments, start, start, advice)
    try:
        return load(arguments)
    except (ValueError, RecursionError) as error:
        raise unsendable_call(name, arguments, start, start, advice) from error
