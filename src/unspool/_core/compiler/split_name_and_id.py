"""Forms in which a model family writes the names of functions.

The text at the ``{name}`` placeholder of a template may contain more than the name, as in
``functions.now:0``.  The forms in ``Dialect.names`` describe how to split this text into the name and the id
of the call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..scan.short_text_cache_limits import has_room

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from ..schema.tools import Tools


class NameForms:
    """Forms of function names in one dialect."""

    __slots__ = ("_cache", "_dialect", "_patterns", "_uses_tools")

    def __init__(self, dialect: Dialect) -> None:
        self._dialect: Final = dialect
        self._patterns: Final = [_pattern(form) for form in dialect.names.forms if form != "{name}"]
        self._uses_tools: Final = any("(?P=name)" in pattern.pattern for pattern in self._patterns)
        self._cache: Final[dict[str, tuple[str, str]]] = {}

    def refine(self, caught: str, tools: Tools) -> tuple[str, str]:
        """Split the text at a ``{name}`` placeholder into the name and the native id.

        The result is cached, unless it depends on the tools.  For a short output, the cache saves 5 % of the
        time.
        """
        if not self._patterns:
            return caught, ""
        refined = self._cache.get(caught)
        if refined is None:
            refined = self._refine(caught, tools)
            if not self._uses_tools and has_room(len(self._cache), caught):
                self._cache[caught] = refined
        return refined

    def _refine(self, caught: str, tools: Tools) -> tuple[str, str]:
        for pattern in self._patterns:
            match = pattern.fullmatch(caught)
            if match is None:
                continue
            if "(?P=name)" not in pattern.pattern:
                return match["name"], self._native_id(match, caught)
            # Some models write a name twice in a row.  Such text is a repeated name only if half of it is the
            # name of a declared tool, and the whole text is not.
            if tools.declares(match["name"]) and not tools.declares(caught):
                return match["name"], ""
        return caught, ""

    def _native_id(self, match: re.Match[str], caught: str) -> str:
        """Return the call id that the text at a ``{name}`` placeholder contains.

        Text such as ``functions.now:0`` is itself an id.  Otherwise the id is made from the name and the
        index in the text, in the id format of the model family.
        """
        if ":" in caught or "index" not in match.re.groupindex:
            return caught
        pattern = self._dialect.id_format.pattern
        return pattern.replace("{index}", match["index"]).replace("{name}", match["name"])

    def could_become(self, partial: str, tools: Tools) -> bool:
        """Return whether the text of an incomplete name may still become the name of a tool."""
        if tools.could_become(partial):
            return True
        for form in self._dialect.names.forms:
            prefix, _, suffix = form.partition("{name}")
            if prefix and prefix.startswith(partial):
                return True
            if partial.startswith(prefix):
                rest = partial[len(prefix) :]
                if tools.could_become(rest) or (
                    suffix and any(rest.startswith(name) for name in tools.names)
                ):
                    return True
        return False


def _pattern(form: str) -> re.Pattern[str]:
    pattern = re.escape(form).replace(r"\{name\}", "(?P<name>.+)", 1).replace(r"\{name\}", "(?P=name)")
    return re.compile(pattern.replace(r"\{index\}", "(?P<index>[0-9]+)"))
