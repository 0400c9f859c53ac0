"""Recorder of agents' requests for tests, with their structure but without their texts.

Every text becomes a placeholder, and equal texts get the same placeholder, so that a test can
check that a text arrives. The names and kinds of fields, blocks, tools and parameters are kept, as is
the output of the scripted model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from lab import ROOT
from lab.agents.agents import FILE, TASK, Agent, Place
from lab.agents.scripted_engine import COMMAND, FILE_TEXT, Exchange

FOLDER: Final = ROOT / "tests" / "gateway" / "recorded"
_KINDS: Final = frozenset(
    ("type", "role", "name", "model", "status", "effort", "display", "summary", "format", "tool_choice")
)
"""Fields whose values are keywords of an API."""
_LISTS: Final = frozenset(("required", "include"))
_IDS: Final = frozenset(("id", "call_id", "tool_call_id", "tool_use_id", "item_id"))
BILLING: Final = "x-anthropic-billing-header: "


class Shape:
    """Converter of one agent's requests."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._texts: dict[str, str] = {}
        self._ids: dict[str, str] = {}

    def of(self, value: Any, field: str = "") -> Any:
        """Convert the value of a field."""
        if isinstance(value, dict):
            ordered = sorted(value) if field == "client_metadata" else value  # Codex sends it in random order
            return {key: self.of(value[key], key) for key in ordered}
        if isinstance(value, list):
            return [self.of(inner, field) for inner in value]
        return self._text(value, field) if isinstance(value, str) else value

    def _text(self, text: str, field: str) -> str:
        if field in _IDS:
            return self._ids.setdefault(text, f"id-{len(self._ids) + 1}")
        if field in _KINDS or field in _LISTS or not text:
            return text
        ours = text.replace(str(self._place.folder), "/scratch")
        if ours in (TASK, FILE_TEXT, COMMAND, f"/scratch/{FILE}", FILE):
            return ours
        if field == "arguments":
            return json.dumps(self.of(json.loads(text)), ensure_ascii=False)
        words = self._texts.setdefault(text, f"words-{len(self._texts) + 1}")
        return BILLING + words if text.startswith(BILLING) else words


def record(agent: Agent, place: Place, seen: Sequence[Exchange]) -> None:
    """Store the last request with each set of fields, because it has the longest history."""
    shape = Shape(place)
    kinds: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in seen:
        fields = (one.path, *sorted(one.body))
        kinds[fields] = {"path": one.path, "body": shape.of(one.body)}
    made = {"agent": agent.name, "version": agent.version, "requests": list(kinds.values())}
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(made, ensure_ascii=False, indent=1)
    (FOLDER / f"{agent.folder}.json").write_text(text + "\n", encoding="utf-8")
