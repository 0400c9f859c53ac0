"""Policies of the plug-ins: the engine's own behaviour, unless the environment says otherwise.

``UNSPOOL_POLICIES`` contains entries, separated by semicolons.  An entry is a preset, ``name=value`` pairs,
or both, separated by commas.  An entry that begins with a name and a colon applies only to models of this
name or with this dialect; ``*`` in the name stands for any text.  Later entries override earlier ones::

    UNSPOOL_POLICIES="vllm"
    UNSPOOL_POLICIES="truncated_call=text; Qwen/*: malformed_call=repair; hermes: commit=call"

What no entry names stays as in the engine.  The preset ``unspool`` selects unspool's own defaults instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

from ..errors import UsageError
from ..policies import DEFAULTS, Policies, choices_from_text, policy_choices, preset_choices

POLICIES: Final = "UNSPOOL_POLICIES"
"""Environment variable with policies for the plug-ins."""
OWN_DEFAULTS: Final = "unspool"
"""Name in ``UNSPOOL_POLICIES`` for unspool's default policies."""

Engine: TypeAlias = Literal["vllm", "sglang"]

ENGINE_DEFAULTS: Final[Mapping[Engine, Mapping[str, str]]] = {
    "vllm": {"no_tools": "drop", "whitespace_around_calls": "text"},
    "sglang": {"whitespace_around_calls": "text", "unknown_tool": "drop"},
}
"""Policies that give an engine's users what they are used to, where this loses nothing that was broken.

vLLM removes calls from answers to requests that forbid calls.  SGLang does not parse the outputs of such
requests, but drops calls of undeclared tools.  Both keep the whitespace between text and a call.
"""


def policies_for(engine: Engine, dialect: str, model: str = "") -> Policies:
    """Return the policies with which a plug-in parses the outputs of a model.

    :param dialect: the name of the model's dialect.
    :param model: the name or the path of the model; empty if it is unknown.
    :raises UsageError: if ``UNSPOOL_POLICIES`` is invalid.
    """
    choices = dict(ENGINE_DEFAULTS[engine])
    try:
        for pattern, entry in _entries(os.environ.get(POLICIES, "")):
            changes = choices_from_text(entry)
            preset = changes.pop("preset", None)
            base = {} if preset in (None, OWN_DEFAULTS) else dict(preset_choices(preset))
            Policies.from_mapping(changes)  # check entries for other models, too
            if _matches(pattern, dialect, model):
                if preset == OWN_DEFAULTS:
                    choices.clear()
                choices |= base | changes
        return Policies.from_mapping(choices)
    except UsageError as error:
        raise UsageError(
            f"{POLICIES}={os.environ.get(POLICIES, '')!r} is invalid: {error}; "
            f"write a preset or name=value, separated by commas, or MODEL: before them"
        ) from error


def describe(policies: Policies) -> str:
    """Return the policies that differ from unspool's defaults, for a log line."""
    chosen = [(name, getattr(policies, name)) for name in policy_choices()]
    differing = [f"{name}={value}" for name, value in chosen if value != getattr(DEFAULTS, name)]
    return ", ".join(differing) or "default"


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of the variable, each with the model or dialect to which it applies."""
    for entry in text.split(";"):
        pattern, _, choices = entry.rpartition(":")
        if entry.strip():
            yield pattern.strip(), choices


def _matches(pattern: str, dialect: str, model: str) -> bool:
    """Return whether an entry applies to a model; case and the folders of its path do not matter."""
    pattern, model = pattern.lower(), model.lower().rstrip("/")
    names = [model, model.rpartition("/")[2]]
    for name in (dialect, *dialect.split("+")):  # the dialects of calls and of reasoning may differ
        names += [name.lower(), name.lower().partition(":")[0]]
    return not pattern or any(fnmatchcase(name, pattern) for name in names)
