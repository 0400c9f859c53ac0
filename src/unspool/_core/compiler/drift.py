"""Drift: changes that models and proxies make to the markers of any dialect.

Models misspell markers, and proxies and detokenizers rewrite them.  The same few changes occur in all
families, so they are declared once, in the table ``DRIFTS``.  ``drifted_templates`` applies them to the
templates of a dialect.  The compiler adds the results as further ways to write a call.  These restrictions
keep prose untouched:

* A call with drifted markers counts only if the request declares its function, and if no quotation mark
  precedes the call.
* A change does not apply if it leaves no marker to search for.  A ``<`` alone is not such a marker.

Every such call has a diagnostic of the kind ``slip`` that names the change.  The changes concern the markup
around calls and parameters, never reasoning or content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ...dialects.parse_templates import Literal, parse_template, template_text, with_text

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from ...dialects._placed_templates import Section


class Drift(NamedTuple):
    """Change to all templates of a dialect."""

    note: str
    """Description of the change, for the diagnostic."""
    change: Callable[[str], str]
    """Function that applies the change to a template; it returns other templates unchanged."""
    calls_only: bool = False
    """True if the change concerns only the templates of calls."""


_BARS: Final = "[|｜]"
_BETWEEN_WORDS: Final = re.compile(rf"(?<=\w)({_BARS}+)(?=\w)")
_EVERY_BAR: Final = re.compile(rf"{_BARS}+")
_AFTER_BRACKET: Final = re.compile(rf"(?<=<)({_BARS}+)(?=\w)|(?<=\w)({_BARS}+)(?=>)")
_TOKEN_IN_TAG: Final = re.compile(rf"(?<=<)(/?)(?:{_BARS}\w+{_BARS}|[\ud800-\udfff]) ?(?=\w)")
_WORD_BEFORE_NAME: Final = re.compile(r"(?:^|(?<=[>\]]))\w*:(?=\{name\})")


def _double_bars(text: str) -> str:
    return re.sub(_BARS, r"\g<0>\g<0>", text)


def _to_ascii(text: str) -> str:
    return text.replace("｜", "|").replace("▁", "_")


def _put_blank_between(text: str) -> str:
    return _BETWEEN_WORDS.sub(r"\1 ", text)


def _put_blanks_around(text: str) -> str:
    return _EVERY_BAR.sub(r" \g<0> ", text)


def _put_blanks_inside(text: str) -> str:
    return _AFTER_BRACKET.sub(lambda bars: f"{bars[1]} " if bars[1] else f" {bars[2]}", text)


def _lose_tokens_in_tags(text: str) -> str:
    return _TOKEN_IN_TAG.sub(r"\1", text)


def _separate_arguments(text: str) -> str:
    return text.replace("{name}{args}", "{name} {args}")


def _lose_word(text: str) -> str:
    return _WORD_BEFORE_NAME.sub("", text)


def _lose_role(text: str) -> str:
    return re.sub(r"^assistant(?=[a-z])", "", text)


LOST_ROLE: Final = Drift("the role before the call is lost", _lose_role)
DRIFTS: Final = (
    Drift("the bars of the markers are doubled", _double_bars),
    Drift("the bars of the markers are doubled, with blanks", lambda t: _put_blank_between(_double_bars(t))),
    Drift("the markers are in ASCII", _to_ascii),
    Drift("the markers are in ASCII, with blanks", lambda t: _put_blanks_around(_to_ascii(t))),
    Drift("there is a blank in the markers", _put_blank_between),
    Drift("there are blanks around the bars of the markers", _put_blanks_around),
    Drift("there are blanks in the markers", _put_blanks_inside),
    Drift("the special token in the tags is lost", _lose_tokens_in_tags),
    LOST_ROLE,
    Drift("there is a blank between the name and the arguments", _separate_arguments, calls_only=True),
    Drift("the word before the name is lost", _lose_word, calls_only=True),
)
"""Changes to the markers of a dialect.  Within a call, the same change affects all markers."""
LOST_OPENER: Final = "the opening marker of the section is lost"
TEXT_BEFORE_CALL: Final = "text after {}"
NEIGHBOURS_CLOSER: Final = "{} in place of the end of the call"


class DriftedTemplates(NamedTuple):
    """Templates of a dialect after one change."""

    note: str
    sections: tuple[str | Section, ...]
    calls: tuple[str, ...]
    params: tuple[str, ...]


def drifted_templates(dialect: Dialect) -> Iterator[DriftedTemplates]:
    """Yield the templates of a dialect after each change that applies to it."""
    if dialect.frame is not None:
        return  # markers of headers also surround ordinary text
    known = {*dialect.section, *dialect.call}
    for drift in DRIFTS:
        templates = _change_calls(dialect, drift) if drift.calls_only else _change_all(dialect, drift)
        new = {*templates.sections, *templates.calls} - known
        if new and templates.sections and templates.calls:
            known |= new
            yield templates
    bodies = [template_text(section).strip() for section in dialect.section]
    if dialect.call and "{calls}" not in bodies and _is_opener(dialect.call[0]):
        yield DriftedTemplates(LOST_OPENER, ("{calls}",), dialect.call, dialect.param)


def _change_all(dialect: Dialect, drift: Drift) -> DriftedTemplates:
    """Return the templates after a change; return no templates if a tag would have no letters left."""
    # Raw code contains no tags that show where the code ends, so only its declared marker is accepted.
    calls = tuple(call for call in dialect.call if "{code}" not in call)
    for template in (*map(template_text, dialect.section), *calls, *dialect.param):
        if _begins_with_marker(template) and not _begins_with_marker(drift.change(template)):
            return DriftedTemplates(drift.note, (), (), ())
    sections = [with_text(section, drift.change(template_text(section))) for section in dialect.section]
    return DriftedTemplates(
        drift.note,
        tuple(dict.fromkeys(sections)),
        tuple(dict.fromkeys(map(drift.change, calls))),
        tuple(dict.fromkeys(map(drift.change, dialect.param))),
    )


def _change_calls(dialect: Dialect, drift: Drift) -> DriftedTemplates:
    """Return the templates after a change to the calls, if a marker still precedes each call."""
    calls = tuple(call for call in map(drift.change, dialect.call) if call not in dialect.call)
    if dialect.args not in ("json", "bare"):
        calls = ()  # in Python notation, prose could match the result: `[search (see below)]`
    # Either the call or its section must begin with a marker.
    marked = all(map(_is_opener, calls))
    sections = dialect.section if marked else tuple(filter(_is_opener, dialect.section))
    return DriftedTemplates(drift.note, sections, calls, dialect.param)


def _begins_with_marker(template: str | Section) -> bool:
    text = _first_literal(template)
    return any(character.isalnum() or "\ud800" <= character <= "\udfff" for character in text)


def _first_literal(template: str | Section) -> str:
    """Return the text before the first placeholder of a template."""
    pieces = parse_template(template_text(template).lstrip())
    return pieces[0].text if pieces and isinstance(pieces[0], Literal) else ""


def _is_opener(template: str | Section) -> bool:
    """Return whether a template begins with a marker that ordinary text does not contain."""
    text = _first_literal(template)
    return len(text) > 2 and text[0] in "<[]" and _begins_with_marker(template)
