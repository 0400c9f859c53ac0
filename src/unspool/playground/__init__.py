"""The playground: one page that shows how an output is read, and the questions that it asks.

The page (``static/``) is the same wherever it runs.  As a static page it asks the
library in the browser, from the gateway it asks the gateway; both call
:func:`answer`.  Nothing here reads anything but its request, and what users type
is never an exception: errors are answers, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from ..errors import UnspoolError, UsageError

__all__ = ["answer"]

_ASKS: Final = {
    "dialects": "examples.dialects",
    "examples": "examples.examples",
    "play": "playback.play",
    "detect": "detection.find",
    "labels": "token_labels.labels",
    "case": "conformance_case.case",
}
"""The question and who answers it, imported when it is first asked: in a browser that takes seconds."""


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a question of the page, JSON values in and out.

    :param request: ``ask`` is the question: ``dialects``, ``examples``, ``play``, ``detect``, ``labels``
        or ``case``; what else belongs to it says the function that answers it.
    :returns: the answer, or ``{"error": ..., "kind": ...}``.

    >>> answer({"ask": "play", "text": "Hello.", "dialect": "hermes"})["message"]["content"]
    'Hello.'
    >>> answer({"ask": "play", "text": "Hello.", "dialect": "hermez"})["error"]
    "no dialect 'hermez': did you mean hermes?"
    """
    try:
        asked = request.get("ask")
        if not isinstance(asked, str) or asked not in _ASKS:
            raise UsageError(f"ask={asked!r}: choose one of {', '.join(_ASKS)}")
        module, _, name = _ASKS[asked].partition(".")
        found: dict[str, Any] = getattr(import_module(f".{module}", __name__), name)(request)
    except UnspoolError as error:
        found = {"error": str(error), "kind": type(error).__name__}
    except RecursionError:
        found = {"error": "this is nested too deeply to be read", "kind": "RecursionError"}
    return found
