"""The reference of the public names, read off the sources: signatures, docstrings, fields.

What is public is the table of ``docs/promises.md`` and the ``__all__`` of its modules.
Griffe reads the sources without importing them, so that nothing need be installed
that they need; what it finds is written as the directives that Sphinx has for Python,
whose references must lead somewhere.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import griffe

FOLDER: Final = "api"
PRIVATE: Final = "private.txt"
"""The private names that are shown, and need not lead anywhere: ``conf.py`` reads them."""
PROMISES: Final = re.compile(r"^\| `(unspool[\w.]*)` \| (.*?) \| (.*?) ?\|$", re.MULTILINE)
_ROLE: Final = re.compile(r":(class|func|meth|attr|data|exc|mod):`(?:([^`<]*?) <)?~?([\w.]+)>?`")
_PLUMBING: Final = {"i64": "int"}
"""What the compiler is told, and what users are."""

_STARS: Final = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}


class Reference:
    """Everything public, by the names that users import it by."""

    def __init__(self, source: Path, promises: str) -> None:
        self.modules = PROMISES.findall(promises)
        self.package: Any = griffe.load("unspool", search_paths=[str(source)], resolve_aliases=True)
        self.public: dict[str, str] = {}
        """Where things are defined, and the names that they are promised by."""
        self.private: set[str] = set()
        """Names that signatures mention, and that nobody can import."""
        for name, _, _ in reversed(self.modules):  # what several have, the first has
            module = self._module(name)
            for export in self._exports(module):
                self.public[_target(module, export).path] = f"{name}.{export}"
        self.short = {path.rpartition(".")[2]: path for path in self.public.values()}

    def write(self, target: Path) -> None:
        """Write a page for every module, and one that lists them."""
        folder = target / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.md").write_text("\n".join(self._list()), encoding="utf-8")
        for name, _, needs in self.modules:
            (folder / f"{name}.rst").write_text("\n".join(self.page(name, needs)), encoding="utf-8")
        (folder / PRIVATE).write_text("\n".join(sorted(self.private)), encoding="utf-8")

    def _list(self) -> Iterator[str]:
        yield "# API reference\n"
        yield "Every public name, module by module. How far to rely on them: [promises](../promises.md).\n"
        yield "All names at once: {ref}`genindex`.\n"
        yield "| module | what for | needs |\n|---|---|---|"
        for name, what, needs in self.modules:
            yield f"| [{name}]({name}.rst) | {what} | {needs} |"
        yield "\n```{toctree}\n:hidden:\n"
        yield from (name for name, _, _ in self.modules)
        yield "```"

    def page(self, name: str, needs: str) -> Iterator[str]:
        """Yield the lines of a module's page, with its names grouped as in the source."""
        module = self._module(name)
        yield from _heading(name, "=")
        yield f".. py:module:: {name}\n"
        yield self._text(_docstring(module))
        if needs:
            yield f"\nNeeds ``{needs.replace('`', '').partition(' for ')[0]}``.\n"
        groups = self._groups(module)
        for origin, names in groups.items():
            if len(groups) > 1:
                says = _docstring(self.package.modules_collection[origin])
                title, _, more = says.partition("\n")[0].partition(": ")
                yield from _heading(title.rstrip("."), "-")
                if more:
                    yield f"{more[0].upper()}{more[1:]}\n"
            for export in names:
                yield from self._object(export, _target(module, export))

    def _groups(self, module: griffe.Module) -> dict[str, list[str]]:
        """Names by the module that defines them, in the order in which those are imported."""
        groups: dict[str, list[str]] = {}
        for name in sorted(self._exports(module), key=list(module.members).index):
            origin = _target(module, name).module.path
            groups.setdefault(origin, []).append(name)
        return groups

    def _module(self, name: str) -> Any:
        found: Any = self.package
        for part in name.split(".")[1:]:
            found = found.modules[part]
        return found

    def _exports(self, module: griffe.Module) -> list[str]:
        return [str(name) for name in module.exports or () if name != "__version__"]

    # -- one name

    def _object(self, name: str, found: griffe.Object) -> Iterator[str]:
        if isinstance(found, griffe.Class):
            yield from self._class(name, found)
        elif isinstance(found, griffe.Function):
            yield from self._function("py:function", name, found, 0)
        else:
            yield from self._value(name, found)

    def _class(self, name: str, found: griffe.Class) -> Iterator[str]:
        bases = filter(None, map(self._public_base, found.bases))
        based = ", ".join(f":py:class:`{base}`" for base in bases)
        maker = found.all_members.get("__init__")
        parameters = [] if maker is None else list(_final(maker).parameters)[1:]
        closed = any(re.search("Protocol|Enum|TypedDict", str(base)) for base in found.bases) or any(
            parameter.name.startswith("_") for parameter in parameters
        )  # nobody calls it
        signature = "" if closed else f"({self._parameters(parameters)})"
        kind = "py:exception" if _is_error(found) else "py:class"
        yield f".. {kind}:: {name}{signature}\n"
        text = _docstring(found)
        if maker is not None and not closed and _docstring(_final(maker)):
            text += "\n\n" + _docstring(_final(maker))
        yield _indented(self._text(text), 1)
        if based:
            yield _indented(f"\nBases: {based}\n", 1)
        for member_name, member in found.all_members.items():
            if not member_name.startswith("_") and (inside := _final(member)):
                yield from self._member(member_name, inside)

    def _member(self, name: str, member: griffe.Object) -> Iterator[str]:
        if isinstance(member, griffe.Function):
            labels = member.labels
            kind = "py:method"
            options = [f":{word}:" for word in ("staticmethod", "classmethod", "async") if word in labels]
            yield from self._function(kind, name, member, 1, options)
        elif isinstance(member, griffe.Attribute):
            kind = "py:property" if "property" in member.labels else "py:attribute"
            annotation, said = self._annotated(member.annotation)
            yield f"\n   .. {kind}:: {name}"
            if annotation:
                yield f"      :type: {annotation}"
            yield ""
            yield _indented(self._text(_docstring(member) or said), 2)

    def _function(
        self, kind: str, name: str, found: griffe.Function, depth: int, options: Sequence[str] = ()
    ) -> Iterator[str]:
        given = list(found.parameters)
        if depth and "staticmethod" not in found.labels:
            given = given[1:]
        returns = f" -> {self._type(found.returns)}" if found.returns else ""
        yield _indented(f"\n.. {kind}:: {name}({self._parameters(given)}){returns}", depth)
        yield _indented("\n".join(options), depth + 1)
        yield _indented("\n" + self._text(_docstring(found)) + "\n", depth + 1)

    def _value(self, name: str, found: griffe.Object) -> Iterator[str]:
        assert isinstance(found, griffe.Attribute)  # noqa: S101 - all that is left
        annotation = str(found.annotation or "")
        if annotation == "TypeAlias":
            yield f".. py:type:: {name}"
            if not re.search(r"\b_\w", stands_for := self._type(found.value)):
                yield f"   :canonical: {stands_for}"
        else:
            kind, _ = self._annotated(found.annotation)
            yield f".. py:data:: {name}"
            kind = re.sub(r"^Final(\[(.*)\])?$", r"\2", kind)
            if kind:
                yield f"   :type: {kind}"
        yield ""
        yield _indented(self._text(_docstring(found)), 1)

    # -- types and texts

    def _parameters(self, parameters: Sequence[griffe.Parameter]) -> str:
        written: list[str] = []
        starred = False
        for parameter in parameters:
            kind = parameter.kind
            if kind is griffe.ParameterKind.keyword_only and not starred:
                written.append("*")
                starred = True
            stars = _STARS.get(parameter.kind or griffe.ParameterKind.keyword_only, "")
            starred = starred or stars == "*"
            text = stars + parameter.name
            if parameter.annotation is not None:
                text += f": {self._annotated(parameter.annotation)[0]}"
            if parameter.default is not None and not stars:
                text += f" = {parameter.default}"
            written.append(text)
        return ", ".join(written)

    def _annotated(self, annotation: Any) -> tuple[str, str]:
        """Return a type, and the description that ``Annotated`` adds to it."""
        said = ""
        if isinstance(annotation, griffe.ExprSubscript) and str(annotation.left) == "Annotated":
            assert isinstance(annotation.slice, griffe.ExprTuple)  # noqa: S101 - or it would be no type
            annotation, text = list(annotation.slice.elements)[:2]
            said = str(text).strip("\"'")
        return self._type(annotation), said

    def _type(self, annotation: Any) -> str:
        """Return a type with public names in place of private ones."""
        if annotation is None or isinstance(annotation, str):
            return annotation or ""
        if isinstance(annotation, griffe.ExprSubscript) and str(annotation.left) in ("Unchecked", "ClassVar"):
            return self._type(annotation.slice)
        written: list[str] = []
        for part in annotation.iterate(flat=False):
            if isinstance(part, str):
                written.append(part)
            elif isinstance(part, griffe.ExprName):
                written.append(self._name(part))
            else:
                written.append(self._type(part))
        return "".join(written)

    def _name(self, name: griffe.ExprName) -> str:
        path = _resolved(self.package, name.canonical_path)
        if str(name) in _PLUMBING:
            return _PLUMBING[str(name)]
        if path in self.public:
            return self.public[path]
        if path.startswith("unspool."):
            stands_for = self._type(_alias(self.package, path))
            if stands_for and not self.private.intersection(re.findall(r"\w+", stands_for)):
                return stands_for
            self.private.add(str(name))
        return str(name)

    def _public_base(self, base: Any) -> str:
        if isinstance(base, griffe.ExprName):
            return self.public.get(_resolved(self.package, base.canonical_path), "")
        return ""

    def _text(self, docstring: str) -> str:
        """Return a docstring whose references use public names."""

        def reference(found: re.Match[str]) -> str:
            role, shown, name = found.groups()
            first, _, rest = name.partition(".")
            if name in self.public.values() or name in {module for module, _, _ in self.modules}:
                path = name
            elif first in self.short:
                path = f"{self.short[first]}.{rest}" if rest else self.short[first]
            elif role in ("meth", "attr"):  # of the same class
                path = name
            else:
                return f"``{shown or name}``"
            return f":py:{role}:`{shown or name} <{path}>`"

        return _ROLE.sub(reference, docstring)


def _heading(text: str, line: str) -> Iterator[str]:
    yield f"\n{text}\n{line * len(text)}\n"


def _indented(text: str, depth: int) -> str:
    return textwrap.indent(text, "   " * depth)


def _docstring(found: griffe.Object | griffe.Alias) -> str:
    return found.docstring.value if found.docstring else ""


def _target(module: griffe.Module, name: str) -> Any:
    found = _final(module.members[name])
    # What is named as the module that it is from hides behind it.
    return _final(found.members[name]) if isinstance(found, griffe.Module) else found


def _final(found: griffe.Object | griffe.Alias) -> Any:
    return found.final_target if isinstance(found, griffe.Alias) else found


def _is_error(found: griffe.Class) -> bool:
    names = [str(base) for base in found.bases] + [base.name for base in found.mro()]
    return any(name.endswith(("Error", "Exception", "BaseException")) for name in names)


def _resolved(package: griffe.Module, path: str) -> str:
    """Return the path of the definition that an import refers to."""
    try:
        return str(_final(package.modules_collection[path]).path)
    except (KeyError, griffe.AliasResolutionError):
        return path


def _alias(package: griffe.Module, path: str) -> Any:
    """Return the type that a private alias stands for, if any."""
    try:
        found = _final(package.modules_collection[path])
    except (KeyError, griffe.AliasResolutionError):
        return None
    return found.value if isinstance(found, griffe.Attribute) else None
