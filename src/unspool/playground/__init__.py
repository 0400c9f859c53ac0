"""Playground: a page that shows how an output is parsed, and the functions behind it.

The page (``static/``) runs in two places.  The static page on the website calls the
library in the browser.  The gateway serves the same page, which then calls the
gateway.  In both cases :func:`answer` handles the request.  It uses only the data of
the request, and returns errors as answers, because users type anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from ..errors import UnspoolError, UsageError

__all__ = ["answer"]

_FUNCTIONS: Final = {
    "dialects": "page_choices.dialects",
    "examples": "page_choices.examples",
    "play": "playback.play",
    "detect": "detection.detect_dialect",
    "labels": "token_labels.labels",
    "case": "conformance_case.make_case",
}
"""Functions by the value of ``ask``.

They are imported at their first use, because importing takes seconds in a browser.
"""


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a request of the page; request and answer are JSON values.

    :param request: ``ask`` is one of ``dialects``, ``examples``, ``play``, ``detect``, ``labels``
        and ``case``; each function documents its other fields.
    :returns: the answer, or ``{"error": ..., "kind": ...}``.

    >>> answer({"ask": "play", "text": "Hello.", "dialect": "hermes"})["message"]["content"]
    'Hello.'
    >>> answer({"ask": "play", "text": "Hello.", "dialect": "hermez"})["error"]
    "no dialect 'hermez': did you mean hermes?"
    """
    try:
        ask = request.get("ask")
        if not isinstance(ask, str) or ask not in _FUNCTIONS:
            raise UsageError(f"ask={ask!r}: choose one of {', '.join(_FUNCTIONS)}")
        module, _, name = _FUNCTIONS[ask].partition(".")
        result: dict[str, Any] = getattr(import_module(f".{module}", __name__), name)(request)
    except UnspoolError as error:
        result = {"error": str(error), "kind": type(error).__name__}
    except RecursionError:
        result = {"error": "the input is nested too deeply", "kind": "RecursionError"}
    return result
