"""Package attributes that are imported from their modules on first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import get_type_hints


def lazy_names(
    package: str, modules: Mapping[str, str], submodules: Collection[str] = ()
) -> Callable[[str], object]:
    """Return the function ``__getattr__`` of a package.

    :param package: name of the package.
    :param modules: map from each name to its module, relative to the package, such as ``._plan``.
    :param submodules: names of modules of the package that are imported on their first use.
    """

    def find(name: str) -> object:
        if name in submodules:
            return import_module(f"{package}.{name}")
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(module, package), name)
        if "._" in getattr(value, "__module__", ""):
            publish(value, package)
        vars(import_module(package))[name] = value
        return value

    return find


def publish(value: object, package: str) -> None:
    """Make tracebacks, pickles and ``help`` show a class under the name that users import."""
    if isinstance(value, type):
        # `get_type_hints` resolves names in the class's module, so call it before `__module__` changes.
        value.__annotations__ = get_type_hints(value, include_extras=True)
        value.__module__ = package
