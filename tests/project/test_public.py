"""The public names in `docs/promises.md` exist, are documented, and show no internal types."""

from __future__ import annotations

import doctest
import inspect
import pickle
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import unspool
import unspool.planning
import unspool.tokens
from paths import ROOT
from unspool._core.scan.character_runs import COMPILED

PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (`unspool[^|]*) \|", PAGE, re.MULTILINE)
MODULES = [module for row in ROWS for module in re.findall(r"`(unspool[\w.]*)`", row)]
NAMES = [(module, name) for module in MODULES for name in import_module(module).__all__]
PUBLIC = [getattr(unspool, name) for name in unspool.__all__]
CLASSES = [value for value in PUBLIC if isinstance(value, type)]
PLUMBING = re.compile(r"\b(i64|Unchecked|COMPILING|mypyc\w*|_Event)\b")


def test_docs_name_every_public_module() -> None:
    files = {path.stem if path.stem != "__init__" else path.parent.name for path in _modules()}
    private = {
        "__main__",
        "cli",
        "integrations",
        "playground",
        "sample_outputs",
    }  # these are run, or loaded by name
    assert {f"unspool.{name}" for name in files - private} | NESTED == set(MODULES)


NESTED = {"unspool", "unspool.batch.ray", "unspool.integrations.httpx", "unspool.integrations.httpx2"}
"""The package, and public modules inside its packages."""


def test_reference_lists_every_public_module() -> None:
    reference = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    assert re.findall(r"^   (unspool[\w.]*)$", reference, re.MULTILINE) == MODULES


def _modules() -> Iterable[Any]:
    source = ROOT / "src" / "unspool"
    yield from (path for path in source.glob("[!_]*.py"))
    yield from source.glob("[!_]*/__init__.py")


@pytest.mark.parametrize(("module", "name"), NAMES, ids=str)
def test_every_public_name_exists_and_is_documented(module: str, name: str) -> None:
    value = getattr(import_module(module), name)
    assert name in dir(import_module(module))
    # The compiler drops docstrings, so the documentation is built from the pure build.
    if not COMPILED and (inspect.isclass(value) or inspect.isroutine(value)):
        assert value.__doc__, "no docstring"
        assert not value.__doc__.startswith(f"{name}("), "this is the docstring that dataclasses generate"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_public_class_names_its_public_module(cls: type) -> None:
    assert (cls.__module__, cls.__qualname__) == ("unspool", cls.__name__)
    assert pickle.loads(pickle.dumps(cls)) is cls  # noqa: S301 - our own


def test_missing_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'get_parser'"):
        unspool.get_parser  # type: ignore[attr-defined]  # noqa: B018 - the point


def test_submodules_need_no_import_of_their_own() -> None:
    code = "import unspool; print(*(getattr(unspool, name).__name__ for name in unspool._SUBMODULES))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {module for module in MODULES if module.count(".") == 1}
    assert set(done.stdout.split()) == loaded - {"unspool.batch", "unspool.gateway"} - IMPORTED
    assert set(dir(unspool)) >= {module.partition(".")[2] for module in loaded} - {"batch", "gateway"}


IMPORTED = {
    "unspool.dialects",
    "unspool.errors",
    "unspool.events",
    "unspool.message",
    "unspool.parser",
    "unspool.policies",
    "unspool.streaming",
}
"""Submodules that parsing needs."""


def test_star_import_gives_every_name() -> None:
    space: dict[str, Any] = {}
    exec("from unspool import *", space)  # noqa: S102 - our own
    assert set(unspool.__all__) <= set(space)


# -- signatures


def functions(value: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions that a user of ``value`` calls: itself, or its public methods and properties."""
    if not isinstance(value, type):
        if inspect.isroutine(value):
            yield value.__name__, value
        return
    for name, member in vars(value).items():
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, cached_property):
            member = property(member.func)  # noqa: PLW2901
        member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)  # noqa: PLW2901
        if inspect.isroutine(member):
            yield f"{value.__name__}.{name}", member


FUNCTIONS = {name: function for value in PUBLIC for name, function in functions(value)}


@pytest.mark.skipif(COMPILED, reason="compiled functions have no annotations to show")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_shows_no_internal_types(name: str) -> None:
    assert not PLUMBING.search(str(inspect.signature(FUNCTIONS[name])))


@pytest.mark.skipif(COMPILED, reason="compiled functions have no annotations to show")
def test_signature_shows_parameter_types() -> None:
    assert str(inspect.signature(unspool.Parser.feed)) == "(self, text: str) -> 'list[Event]'"
    text = inspect.signature(unspool.Text)
    assert [one.annotation for one in text.parameters.values()][1:] == [str, int, int]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_help_shows_no_internal_types(cls: type) -> None:
    import pydoc

    page = pydoc.plain(pydoc.render_doc(cls))
    assert not PLUMBING.search(page.replace("builtins.object", "").replace("_Event", "", _bases(cls)))


def _bases(cls: type) -> int:
    """Return how often the private base class of events is named, which help may show."""
    return sys.maxsize if cls in typing.get_args(unspool.Event) else 0


# -- types in public signatures

FOREIGN = {
    part for part in typing.get_args(unspool.tokens.AnyTokenizer) if part is not unspool.tokens.Tokenizer
}
"""Types of other packages' tokenizers."""
OPAQUE = {
    "unspool.grammar._nodes": "rules of a grammar, which programs only pass on",
    "unspool.models.doctor.report": "parts of a diagnosis, which programs only read",
    "unspool.models.doctor.server_flags": "parts of a diagnosis",
    "unspool.models.doctor.training_checks": "parts of a diagnosis",
    "unspool.gateway.generation.served_models": "`build` creates the gateway's models",
}
"""Modules whose types users need not name, with the reason."""


def hints(value: Any) -> dict[str, Any]:
    space = {name: getattr(import_module(module), name) for module, name in NAMES}
    space |= {**vars(unspool), "SearchStrategy": Iterable}
    return typing.get_type_hints(value, localns=space, include_extras=True)


def mentioned(hint: Any) -> Iterator[type]:
    """Yield the classes in a type."""
    if isinstance(hint, type):
        yield hint
    for part in typing.get_args(hint):
        for one in part if isinstance(part, list) else [part]:
            yield from mentioned(one)


def shown(value: Any) -> Iterator[type]:
    for _, function in functions(value):
        for name, hint in hints(function).items():
            if not name.startswith("_"):
                yield from mentioned(hint)
    if isinstance(value, type):
        for name, hint in hints(value).items():
            if not name.startswith("_"):
                yield from mentioned(hint)


@pytest.mark.parametrize(("module", "name"), [("unspool", name) for name in unspool.__all__] + NAMES, ids=str)
def test_every_type_in_a_public_signature_is_public(module: str, name: str) -> None:
    public = {id(getattr(module, one)) for module in map(import_module, MODULES) for one in module.__all__}
    for cls in shown(getattr(import_module(module), name)):
        if cls.__module__.partition(".")[0] == "unspool" and cls not in FOREIGN:
            if cls.__module__ in OPAQUE:
                continue
            assert id(cls) in public, f"{cls.__module__}.{cls.__qualname__} in the signature of {name}"


def test_signature_check_sees_types() -> None:
    assert {unspool.Dialect, unspool.Policies, unspool.Text} <= set(shown(unspool.Parser)) or COMPILED
    assert unspool.dialects.RequestFacts in set(shown(unspool.planning.Plan))


# -- examples


@pytest.mark.parametrize(("module", "name"), [("unspool", ""), *NAMES], ids=str)
def test_docstring_examples_pass(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    space: ModuleType = import_module(module)
    value = getattr(space, name) if name else space
    if not isinstance(value, ModuleType) and not inspect.isclass(value) and not inspect.isroutine(value):
        pytest.skip("not a class, function or module")
    finder = doctest.DocTestFinder(recurse=inspect.isclass(value))
    # Otherwise doctest skips objects whose `__module__` differs.
    monkeypatch.setattr(finder, "_from_module", lambda *_: True)
    globs = {one: getattr(space, one) for one in space.__all__}
    globs |= {one: getattr(unspool, one) for one in unspool.__all__ if one not in globs}
    runner = doctest.DocTestRunner(verbose=False)
    for test in finder.find(value, name or module, globs=globs):
        assert runner.run(test).failed == 0, test.name
