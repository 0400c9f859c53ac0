"""Playground: a page that shows how an output is parsed, and the functions behind it.

The page (``static/``) can be opened in two places:

* On the website, the page runs the library in the browser.
* The gateway also serves the page, which then sends its requests to the gateway.

In both cases :func:`answer` handles the page's requests.  This function uses only the data in the request.
Users may type anything, so the function returns errors as answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from ..errors import UnspoolError, UsageError

__all__ = ["answer"]

_FUNCTIONS: Final = {
    "dialects": "page_menus.dialects",
    "examples": "page_menus.examples",
    "play": "playback.play",
    "detect": "detection.detect_dialect",
    "labels": "token_labels.labels",
    "case": "export_case.make_case",
}
"""Import paths of the functions, keyed by the value of ``ask``.

A function is imported when it is first needed, because importing all of them takes seconds in a browser.
"""


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request from the page, as a JSON object.

    :param request: a JSON object with ``ask``, which is ``dialects``, ``examples``, ``play``,
        ``detect``, ``labels`` or ``case``; the function for each value documents the other fields.
    :returns: the answer, or ``{"error": ..., "kind": ...}``.

    >>> answer({"ask": "play", "text": "Hello.", "dialect": "hermes"})["message"]["content"]
    'Hello.'
    >>> answer({"ask": "play", "text": "Hello.", "dialect": "hermez"})["error"]
    "no dialect 'hermez': did you mean hermes, cohere, cohere_cmd?"
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
