"""Conversion of the tools in Responses requests to functions that any model can call.

A free-form (custom) tool becomes a function with one string parameter.  A tool in a namespace becomes a
function whose name starts with the namespace.  In the response, a call of this function has the tool's
original namespace and name.  Tools that only their vendor can run are ignored or rejected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ....wire import CUSTOM_INPUT
from ...http.failure import Failure, invalid

_SEPARATOR: Final = "__"
_UNSUPPORTED_CLIENT_TOOLS: Final = (
    "local_shell",
    "shell",
    "apply_patch",
    "computer",
    "computer_use_preview",
    "tool_search",
)
"""Types of tools that a client could run, but whose calls the gateway cannot put into a response."""


def join_name(name: str, namespace: object = None) -> str:
    """Return the name under which the model sees a tool.

    >>> join_name("echo", "mcp__demo")
    'mcp__demo__echo'
    """
    if not isinstance(namespace, str) or not namespace:
        return name
    return f"{namespace.removesuffix(_SEPARATOR)}{_SEPARATOR}{name}"


def read_tools(tools: Sequence[Mapping[str, Any]], hosted: str) -> ResponseTools:
    """Convert the tools in a request.

    :param hosted: how to treat tools that only their vendor can run: ``ignore`` or ``reject``.
    """
    out = ResponseTools(hosted)
    for at, tool in enumerate(tools):
        out.add(tool, f"tools[{at}]")
    return out


class ResponseTools:
    """Tools of one request, indexed by every name that can refer to them."""

    def __init__(self, hosted: str) -> None:
        self.functions: list[dict[str, Any]] = []
        """Tools in the format of Chat Completions."""
        self.custom: list[str] = []
        """Names of free-form tools."""
        self.namespaces: dict[str, tuple[str, str]] = {}
        """Namespace and short name of each namespaced tool, keyed by the name that the model sees."""
        self.ignored: list[str] = []
        """Log entries for ignored tools, each with the reason."""
        self._hosted = hosted
        self._names: set[str] = set()
        """Names of all functions."""
        self._by_short_name: dict[str, list[str]] = {}
        """Names that the model sees, keyed by short name (the tool's name within its namespace)."""
        self._by_namespace: dict[str, list[str]] = {}
        """Names that the model sees, keyed by namespace."""

    def add(self, tool: Mapping[str, Any], place: str) -> None:
        """Add a tool or a namespace of tools."""
        match tool.get("type"):
            case "function" | "custom":
                self._add(tool, place, "", "")
            case "namespace":
                self._add_namespace(tool, place)
            case str(kind) if self._hosted == "ignore":
                unsupported = kind in _UNSUPPORTED_CLIENT_TOOLS
                why = "offer a function instead" if unsupported else "only its vendor can run it"
                self.ignored.append(f"the tool {kind}: {why}")
            case kind:
                raise invalid(
                    f"{place}.type is {kind!r}, a tool that the gateway does not support; use function or "
                    "custom tools, alone or in a namespace",
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
                    f"{place}.tools[{at}].type is {tool.get('type')!r}; a namespace can contain only "
                    "function and custom tools",
                    f"{place}.tools[{at}].type",
                )
            # Functions have no namespaces, so add the namespace's description to its first function.
            self._add(tool, f"{place}.tools[{at}]", name, about if at == 0 else "")

    def _add(self, tool: Mapping[str, Any], place: str, namespace: str, about: str) -> None:
        short_name = tool.get("name")
        if not isinstance(short_name, str) or not short_name:
            raise _required(f"{place}.name")
        name = join_name(short_name, namespace)
        if name in self._names:
            raise invalid(f"{place}: duplicate tool name {name!r}", f"{place}.name")
        self._names.add(name)
        if namespace:
            self.namespaces[name] = (namespace, short_name)
            self._by_short_name.setdefault(short_name, []).append(name)
            self._by_namespace.setdefault(namespace, []).append(name)
        if tool["type"] == "custom":
            self.custom.append(name)
            function = _free_form_function(tool)
        else:
            keys = ("description", "parameters", "strict")
            function = {key: tool[key] for key in keys if tool.get(key) is not None}
        if not isinstance(function.get("parameters", {}), Mapping):
            raise invalid(f"{place}.parameters is not an object", f"{place}.parameters", "invalid_type")
        if about:
            text = function.get("description")
            function["description"] = f"{namespace}: {about}\n\n{text}" if text else f"{namespace}: {about}"
        self.functions.append({"type": "function", "function": {"name": name, **function}})

    # -- tool_choice

    def convert_choice(self, choice: str | Mapping[str, Any]) -> object:
        """Return ``tool_choice`` in the format of Chat Completions."""
        if isinstance(choice, str):
            return choice
        kind = choice.get("type")
        if kind in ("function", "custom"):
            return _named(self._find_name(choice))
        if kind != "allowed_tools":
            message = f"tool_choice.type is {kind!r}; choose function, custom or allowed_tools"
            raise invalid(message, "tool_choice.type")
        listed = choice.get("tools")
        if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
            raise invalid("tool_choice.tools is not a list of tools", "tool_choice.tools")
        spaces = dict.fromkeys(str(one.get("name")) for one in listed if one.get("type") == "namespace")
        names: list[object] = [name for space in spaces for name in self._by_namespace.get(space, ())]
        names += [self._find_name(one) for one in listed if one.get("type") in (None, "function", "custom")]
        inner = {"mode": choice.get("mode", "auto"), "tools": [_named(name) for name in names]}
        return {"type": "allowed_tools", "allowed_tools": inner}

    def _find_name(self, reference: Mapping[str, Any]) -> object:
        """Return the name under which the model sees a tool; the reference may omit the tool's namespace."""
        name = reference.get("name")
        if reference.get("namespace"):
            return join_name(str(name), reference["namespace"])
        if not isinstance(name, str) or name in self._names:
            return name
        names = self._by_short_name.get(name, [])
        return names[0] if len(names) == 1 else name


def _named(name: object) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _required(place: str) -> Failure:
    return invalid(f"{place} is required", place, "missing_required_parameter")


def _free_form_function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a free-form tool to a function without a name; the caller adds the name."""
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
