"""The tools of ``/v1/responses``, as the functions that a model is shown.

A function is one.  A free-form tool is a function with one text.  The tools of a
namespace are functions whose names begin with the namespace's: the client runs them,
and calls of them go back under the namespace and the name that it knows.  Tools that
only their vendor can run are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ....wire._responses import CUSTOM_INPUT
from ...http.errors import Failure, invalid

_JOINT: Final = "__"
_UNOFFERED: Final = ("local_shell", "shell", "apply_patch", "computer", "computer_use_preview", "tool_search")
"""Tools that a client may run, in items of their own that we do not write."""


def model_name(name: str, namespace: object = None) -> str:
    """What the model calls a tool.

    >>> model_name("echo", "mcp__demo")
    'mcp__demo__echo'
    """
    if not isinstance(namespace, str) or not namespace:
        return name
    return f"{namespace.removesuffix(_JOINT)}{_JOINT}{name}"


def read_tools(given: Sequence[Mapping[str, Any]], hosted: str) -> ResponseTools:
    """The tools of a request.

    :param hosted: what to do with tools that only their vendor can run: ``ignore`` or ``reject``.
    """
    tools = ResponseTools(hosted)
    for at, tool in enumerate(given):
        tools.add(tool, f"tools[{at}]")
    return tools


class ResponseTools:
    """What a request offers."""

    def __init__(self, hosted: str) -> None:
        self.functions: list[dict[str, Any]] = []
        """As chat completions have them."""
        self.custom: list[str] = []
        """Names of those that are free-form."""
        self.namespaces: dict[str, tuple[str, str]] = {}
        """By the name that the model is shown, the namespace of a tool and its name there."""
        self.left_out: list[str] = []
        self._hosted = hosted
        self._names: set[str] = set()
        """Of the functions."""
        self._inside: dict[str, list[str]] = {}
        """By a name in a namespace, what the model calls the tools that have it."""
        self._spaces: dict[str, list[str]] = {}
        """By a namespace, what the model calls its tools."""

    def add(self, tool: Mapping[str, Any], place: str) -> None:
        """Another tool, or a namespace of them."""
        match tool.get("type"):
            case "function" | "custom":
                self._add(tool, place, "", "")
            case "namespace":
                self._add_namespace(tool, place)
            case str(kind) if self._hosted == "ignore":
                why = "offer a function in its place" if kind in _UNOFFERED else "only its vendor can run it"
                self.left_out.append(f"the tool {kind}: {why}")
            case kind:
                raise invalid(
                    f"{place}.type is {kind!r}; this gateway offers function and custom tools, also in "
                    "namespaces; the vendor's own tools run elsewhere",
                    f"{place}.type",
                )

    def _add_namespace(self, space: Mapping[str, Any], place: str) -> None:
        name, tools = space.get("name"), space.get("tools")
        if not isinstance(name, str) or not name:
            raise _required(f"{place}.name")
        if not isinstance(tools, list) or not all(isinstance(tool, Mapping) for tool in tools):
            raise invalid(f"{place}.tools is not a list of tools", f"{place}.tools", "invalid_type")
        about = str(space.get("description") or "").strip()
        for at, tool in enumerate(tools):
            if tool.get("type") not in ("function", "custom"):
                raise invalid(
                    f"{place}.tools[{at}].type is {tool.get('type')!r}; a namespace has function and custom "
                    "tools",
                    f"{place}.tools[{at}].type",
                )
            # Once is enough: the model reads all of them.
            self._add(tool, f"{place}.tools[{at}]", name, about if at == 0 else "")

    def _add(self, tool: Mapping[str, Any], place: str, namespace: str, about: str) -> None:
        given = tool.get("name")
        if not isinstance(given, str) or not given:
            raise _required(f"{place}.name")
        name = model_name(given, namespace)
        if name in self._names:
            raise invalid(f"{place}: there are two tools named {name!r}", f"{place}.name")
        self._names.add(name)
        if namespace:
            self.namespaces[name] = (namespace, given)
            self._inside.setdefault(given, []).append(name)
            self._spaces.setdefault(namespace, []).append(name)
        if tool["type"] == "custom":
            self.custom.append(name)
            function = _free_form(tool)
        else:
            kept = ("description", "parameters", "strict")
            function = {key: tool[key] for key in kept if tool.get(key) is not None}
        if not isinstance(function.get("parameters", {}), Mapping):
            raise invalid(f"{place}.parameters is not an object", f"{place}.parameters", "invalid_type")
        if about:
            own = function.get("description")
            function["description"] = f"{namespace}: {about}\n\n{own}" if own else f"{namespace}: {about}"
        self.functions.append({"type": "function", "function": {"name": name, **function}})

    # -- the choice among them

    def choice(self, given: str | Mapping[str, Any]) -> object:
        """``tool_choice`` as chat completions have it."""
        if isinstance(given, str):
            return given
        kind = given.get("type")
        if kind in ("function", "custom"):
            return _named(self._name_of(given))
        if kind != "allowed_tools":
            told = f"tool_choice.type is {kind!r}; choose function, custom or allowed_tools"
            raise invalid(told, "tool_choice.type")
        listed = given.get("tools")
        if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
            raise invalid("tool_choice.tools is not a list of tools", "tool_choice.tools")
        spaces = dict.fromkeys(str(one.get("name")) for one in listed if one.get("type") == "namespace")
        names: list[object] = [name for space in spaces for name in self._spaces.get(space, ())]
        names += [self._name_of(one) for one in listed if one.get("type") in (None, "function", "custom")]
        inner = {"mode": given.get("mode", "auto"), "tools": [_named(name) for name in names]}
        return {"type": "allowed_tools", "allowed_tools": inner}

    def _name_of(self, one: Mapping[str, Any]) -> object:
        """What the model calls the tool that is named; a name alone may be that of one in a namespace."""
        name = one.get("name")
        if one.get("namespace"):
            return model_name(str(name), one["namespace"])
        if not isinstance(name, str) or name in self._names:
            return name
        inside = self._inside.get(name, [])
        return inside[0] if len(inside) == 1 else name


def _named(name: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _required(place: str) -> Failure:
    return invalid(f"{place} is required", place, "missing_required_parameter")


def _free_form(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A free-form tool as a function, but for its name."""
    value: dict[str, Any] = {"type": "string"}
    description = str(tool.get("description") or "")
    form = tool.get("format")
    if isinstance(form, Mapping) and form.get("type") == "grammar":
        definition = str(form.get("definition", ""))
        if form.get("syntax") == "regex":
            value["pattern"] = f"^(?:{definition})$"
        else:
            description += f"\n\nThe input must follow this {form.get('syntax')} grammar:\n{definition}"
    return {
        "description": description.strip(),
        "parameters": {
            "type": "object",
            "properties": {CUSTOM_INPUT: value},
            "required": [CUSTOM_INPUT],
            "additionalProperties": False,
        },
    }
