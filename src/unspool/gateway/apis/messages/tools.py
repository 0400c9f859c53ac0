"""Conversion of the tools in Messages requests to functions that any model can call.

Anthropic defines some tools that the client runs, for example a shell and a text editor.  A request contains
only the type of such a tool and no schema, because Anthropic's own models know the schema.  Other models
receive the schema that Anthropic documents.  Tools that only the vendor can run are ignored or rejected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ...http.failure import invalid

_CLIENT_TOOL_TYPE: Final = re.compile(r"(bash|text_editor|memory|computer)_(\d{8})")
_STRING: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer"}
_PAIR: Final = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}


class MessageTool(msgspec.Struct):
    """Tool in a Messages request."""

    name: str | None = None
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None
    display_width_px: int | None = None
    display_height_px: int | None = None
    enable_zoom: bool | None = None


def read_tools(tools: Sequence[MessageTool], hosted: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the tools as functions, and a log entry for each ignored tool.

    :param hosted: how to treat tools that only their vendor can run: ``ignore`` or ``reject``.
    """
    out: list[dict[str, Any]] = []
    ignored: list[str] = []
    names: set[str] = set()
    for at, tool in enumerate(tools):
        match = _CLIENT_TOOL_TYPE.fullmatch(tool.type or "")
        if match is not None:
            function = _CLIENT_TOOLS[match[1]](tool, match[2])
        elif tool.type in (None, "custom"):
            function = _read_custom(tool, f"tools[{at}]")
        elif hosted == "ignore":
            ignored.append(f"the tool {tool.type}: only its vendor can run it")
            continue
        else:
            raise invalid(
                f"tools[{at}].type is {tool.type!r}, a tool that only its vendor can run; use custom tools "
                "or tools that the client runs",
                f"tools[{at}].type",
            )
        if function["name"] in names:
            message = f"tools[{at}]: duplicate tool name {function['name']!r}"
            raise invalid(message, f"tools[{at}].name")
        names.add(function["name"])
        if tool.strict is not None:
            function["strict"] = tool.strict
        out.append({"type": "function", "function": function})
    return out, ignored


def _read_custom(tool: MessageTool, place: str) -> dict[str, Any]:
    if not tool.name:
        raise invalid(f"{place}.name is required", f"{place}.name", "missing_required_parameter")
    if tool.input_schema is None:
        field = f"{place}.input_schema"
        raise invalid(f"{field} is required", field, "missing_required_parameter")
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description is not None:
        function["description"] = tool.description
    return function


# -- tools that the client runs; each type ends with a date, which is the version of the tool


def _function(name: str, description: str, required: Sequence[str], **properties: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "parameters": schema}


def _describe(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with a description added."""
    return {**schema, "description": text}


def _bash(tool: MessageTool, date: str) -> dict[str, Any]:
    del date
    return _function(
        tool.name or "bash",
        "Run a command in a bash session that stays open between calls.",
        (),
        command=_describe("The command to run; required unless restart is true.", _STRING),
        restart=_describe("True to restart the session.", {"type": "boolean"}),
    )


_EDITS: Final = {
    "view_range": _describe("For view: first and last line to show; -1 means to the end.", _PAIR),
    "file_text": _describe("For create: content of the file.", _STRING),
    "old_str": _describe("For str_replace: text to replace, with its white space.", _STRING),
    "new_str": _describe("Replacement text.", _STRING),
    "insert_line": _describe("For insert: line after which to insert; 0 is the beginning.", _INTEGER),
}
"""Parameters that the editor and memory tools share."""
_INSERT: Final = {"insert_text": _describe("For insert: text to insert.", _STRING)}


def _editor(tool: MessageTool, date: str) -> dict[str, Any]:
    commands = ["view", "create", "str_replace", "insert"]
    if date < "20250429":
        commands.append("undo_edit")
    insert = {} if date < "20250728" else _INSERT
    return _function(
        tool.name or "str_replace_based_edit_tool",
        "View, create and edit files. view shows a file with line numbers, or lists a directory; create "
        "writes file_text; str_replace replaces old_str, which must occur exactly once, by new_str; insert "
        f"puts {'insert_text' if insert else 'new_str'} after the line insert_line"
        f"{'; undo_edit reverts the last edit of the file.' if 'undo_edit' in commands else '.'}",
        ("command", "path"),
        command={"type": "string", "enum": commands},
        path=_describe("File or directory.", _STRING),
        **_EDITS,
        **insert,
    )


def _memory(tool: MessageTool, date: str) -> dict[str, Any]:
    del date
    return _function(
        tool.name or "memory",
        "Keep files under /memories beyond this conversation. view shows a file or lists a directory; "
        "create writes file_text; str_replace replaces old_str by new_str; insert puts insert_text at "
        "insert_line; delete removes path; rename moves old_path to new_path.",
        ("command",),
        command={
            "type": "string",
            "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
        },
        path=_describe("File or directory; for all commands except rename.", _STRING),
        **_EDITS,
        **_INSERT,
        old_path=_describe("For rename: current path.", _STRING),
        new_path=_describe("For rename: new path.", _STRING),
    )


_ACTIONS: Final = (
    "key",
    "type",
    "mouse_move",
    "left_click",
    "left_click_drag",
    "right_click",
    "middle_click",
    "double_click",
    "screenshot",
    "cursor_position",
)
_LATER_ACTIONS: Final = (
    "left_mouse_down",
    "left_mouse_up",
    "triple_click",
    "hold_key",
    "scroll",
    "wait",
)


def _computer(tool: MessageTool, date: str) -> dict[str, Any]:
    actions = list(_ACTIONS)
    extra: dict[str, Any] = {}
    if date >= "20250124":
        actions += _LATER_ACTIONS
        extra = {
            "start_coordinate": _describe("For left_click_drag: start of the drag.", _PAIR),
            "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
            "scroll_amount": _describe("For scroll: number of wheel clicks.", _INTEGER),
            "duration": _describe("For hold_key and wait: seconds.", {"type": "number"}),
        }
    if date >= "20251124" and tool.enable_zoom:
        actions.append("zoom")
        region = {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4}
        extra["region"] = _describe("For zoom: left, top, right and bottom of the region.", region)
    size = ""
    if tool.display_width_px and tool.display_height_px:
        size = f" The screen is {tool.display_width_px} pixels wide and {tool.display_height_px} high."
    return _function(
        tool.name or "computer",
        f"Control a computer by screen, mouse and keyboard.{size} Take screenshots to see results.",
        ("action",),
        action={"type": "string", "enum": actions},
        coordinate=_describe("Pixels from the left edge and from the top edge.", _PAIR),
        text=_describe("For type: the text; for key and hold_key: keys such as ctrl+s.", _STRING),
        **extra,
    )


_CLIENT_TOOLS: Final = {"bash": _bash, "text_editor": _editor, "memory": _memory, "computer": _computer}
