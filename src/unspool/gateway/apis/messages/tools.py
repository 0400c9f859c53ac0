"""The tools of ``/v1/messages``, as the functions that a model is shown.

Some tools of the vendor's are run by the client, and named by a type instead of a
schema: a shell, an editor, a memory, a screen.  The vendor's own models know them by
heart; others are shown the schema that the vendor documents.  Tools that only the
vendor can run are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ...http.errors import invalid

_CLIENT_RUN: Final = re.compile(r"(bash|text_editor|memory|computer)_(\d{8})")
_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer"}
_POINT: Final = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}


class MessageTool(msgspec.Struct):
    """A tool as this API has it."""

    name: str | None = None
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None
    display_width_px: int | None = None
    display_height_px: int | None = None
    enable_zoom: bool | None = None


def read_tools(given: Sequence[MessageTool], hosted: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The tools as functions, and what is left out of them.

    :param hosted: what to do with tools that only their vendor can run: ``ignore`` or ``reject``.
    """
    out: list[dict[str, Any]] = []
    left_out: list[str] = []
    names: set[str] = set()
    for at, tool in enumerate(given):
        known = _CLIENT_RUN.fullmatch(tool.type or "")
        if known is not None:
            function = _CLIENT_TOOLS[known[1]](tool, known[2])
        elif tool.type in (None, "custom"):
            function = _custom(tool, f"tools[{at}]")
        elif hosted == "ignore":
            left_out.append(f"the tool {tool.type}: only its vendor can run it")
            continue
        else:
            raise invalid(
                f"tools[{at}].type is {tool.type!r}; this gateway offers custom tools and those that clients "
                "run, the vendor's own tools run elsewhere",
                f"tools[{at}].type",
            )
        if function["name"] in names:
            told = f"tools[{at}]: there are two tools named {function['name']!r}"
            raise invalid(told, f"tools[{at}].name")
        names.add(function["name"])
        if tool.strict is not None:
            function["strict"] = tool.strict
        out.append({"type": "function", "function": function})
    return out, left_out


def _custom(tool: MessageTool, place: str) -> dict[str, Any]:
    if not tool.name:
        raise invalid(f"{place}.name is required", f"{place}.name", "missing_required_parameter")
    if tool.input_schema is None:
        field = f"{place}.input_schema"
        raise invalid(f"{field} is required", field, "missing_required_parameter")
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description is not None:
        function["description"] = tool.description
    return function


# -- what clients run


def _function(name: str, description: str, required: Sequence[str], **properties: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "parameters": schema}


def _about(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "description": text}


def _bash(tool: MessageTool, date: str) -> dict[str, Any]:
    del date
    return _function(
        tool.name or "bash",
        "Run a command in a bash session that stays open between calls.",
        (),
        command=_about("The command to run; required unless restart is true.", _TEXT),
        restart=_about("True to start the session anew.", {"type": "boolean"}),
    )


_EDITS: Final = {
    "view_range": _about("For view: the first and the last line to show; -1: to the end.", _POINT),
    "file_text": _about("For create: the file's content.", _TEXT),
    "old_str": _about("For str_replace: what to replace, with its white space.", _TEXT),
    "new_str": _about("What takes its place.", _TEXT),
    "insert_line": _about("For insert: the line after which to insert; 0 is the beginning.", _WHOLE),
}
"""What both tools that edit files take."""
_INSERTED: Final = {"insert_text": _about("What insert puts there.", _TEXT)}


def _editor(tool: MessageTool, date: str) -> dict[str, Any]:
    commands = ["view", "create", "str_replace", "insert"]
    if date < "20250429":
        commands.append("undo_edit")
    inserted = {} if date < "20250728" else _INSERTED
    return _function(
        tool.name or "str_replace_based_edit_tool",
        "View, create and edit files. view shows a file with line numbers, or lists a directory; create "
        "writes file_text; str_replace replaces old_str, which must occur exactly once, by new_str; insert "
        f"puts {'insert_text' if inserted else 'new_str'} after the line insert_line"
        f"{'; undo_edit takes back the last edit of the file.' if 'undo_edit' in commands else '.'}",
        ("command", "path"),
        command={"type": "string", "enum": commands},
        path=_about("The file or directory.", _TEXT),
        **_EDITS,
        **inserted,
    )


def _memory(tool: MessageTool, date: str) -> dict[str, Any]:
    del date
    return _function(
        tool.name or "memory",
        "Keep files under /memories that outlive this conversation. view shows a file or lists a directory; "
        "create writes file_text; str_replace replaces old_str by new_str; insert puts insert_text at "
        "insert_line; delete removes path; rename moves old_path to new_path.",
        ("command",),
        command={
            "type": "string",
            "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
        },
        path=_about("The file or directory; for all commands but rename.", _TEXT),
        **_EDITS,
        **_INSERTED,
        old_path=_about("For rename: where it is.", _TEXT),
        new_path=_about("For rename: where it goes.", _TEXT),
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
    more: dict[str, Any] = {}
    if date >= "20250124":
        actions += _LATER_ACTIONS
        more = {
            "start_coordinate": _about("For left_click_drag: where it begins.", _POINT),
            "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
            "scroll_amount": _about("For scroll: how many clicks of the wheel.", _WHOLE),
            "duration": _about("For hold_key and wait: seconds.", {"type": "number"}),
        }
    if date >= "20251124" and tool.enable_zoom:
        actions.append("zoom")
        region = {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4}
        more["region"] = _about("For zoom: left, top, right and bottom of what to look at.", region)
    size = ""
    if tool.display_width_px and tool.display_height_px:
        size = f" The screen is {tool.display_width_px} pixels wide and {tool.display_height_px} high."
    return _function(
        tool.name or "computer",
        f"Use a computer by its screen, mouse and keyboard.{size} Take screenshots to see what actions did.",
        ("action",),
        action={"type": "string", "enum": actions},
        coordinate=_about("Pixels from the left edge and from the top edge.", _POINT),
        text=_about("For type: the text; for key and hold_key: the keys, as ctrl+s.", _TEXT),
        **more,
    )


_CLIENT_TOOLS: Final = {"bash": _bash, "text_editor": _editor, "memory": _memory, "computer": _computer}
