"""Registry of dialects by name.

Built-in dialects and those of other packages (entry points of the group ``unspool.dialects``) are
loaded in the same way: from a module or an object that provides ``Dialect`` values.  Nothing is
imported before the first lookup.

The registry is thread-safe.  Each of the two sources has a lock: the first thread holds the lock while it
imports the source, and other threads wait.  Another lock protects the tables.  No thread holds this lock
during an import, because the import may call :func:`register` itself.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as changed
from functools import lru_cache
from threading import RLock

from .._core.compile_cache import compiled_dialect
from .._core.token_ids.tokenizer_adapters import AnyTokenizer, as_tokenizer, facts_of_tokenizer
from ..errors import SpecError, UnknownDialect, UsageError
from ._declaration import Dialect
from ._family_request_facts import RequestFacts, Thinking
from ._validation import check_facts

GROUP = "unspool.dialects"

_dialects: dict[str, Dialect] = {}
_aliases: dict[str, str] = {}
_reasoning: dict[str, str] = {}
_checkpoints: dict[str, tuple[str, Thinking]] = {}
_built_in: set[str] = set()
_changes = 0
"""Number of changes to the tables.  Cache keys contain this number, so that a change invalidates caches."""
_tables = RLock()


class _RunOnce:
    """Wrapper that runs a function only once; concurrent callers wait until the first call has finished."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = RLock()
        self._started = False
        self._done = False

    def __call__(self) -> None:
        if self._done:
            return
        with self._lock:
            # Another thread has finished the work, or the work calls this function itself (the lock is
            # reentrant).
            if self._started:
                return
            self._started = True
            try:
                self._work()
            except BaseException:
                self._started = False  # the next caller runs the function again
                raise
            self._done = True


def plain_name(name: str) -> str:
    """Return a name in the form for comparisons: in lower case, with ``_`` in place of ``-`` and spaces."""
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def register(dialect: Dialect, *, replace: bool = False) -> Dialect:
    """Register a dialect under its name and aliases.

    >>> _ = register(Dialect("my_model", call=("<call>{envelope}</call>",), request="hermes"))
    >>> get_dialect("my-model").name
    'my_model'
    """
    if not isinstance(dialect, Dialect):
        raise UsageError(f"register() takes a Dialect value, got {type(dialect).__name__}")
    # Built-in dialects are registered first, so that their aliases take precedence.
    _load_built_ins()
    # A declaration that cannot be compiled must fail here, not in the first parser.
    compiled_dialect(dialect)
    return _register(dialect, replace=replace)


def check_declaration(dialect: Dialect) -> None:
    """Raise ``SpecError`` if a dialect cannot be registered, because of its name or its request facts."""
    if "+" in dialect.name:
        raise SpecError(
            f"dialect {dialect.name!r}: a name must not contain '+', which combines two dialects, as in "
            "'hermes+kimi': choose another name"
        )
    check_facts(dialect, facts_of(dialect))


def _register(dialect: Dialect, *, replace: bool = False) -> Dialect:
    check_declaration(dialect)
    facts = facts_of(dialect)
    name = plain_name(dialect.name)
    global _changes  # noqa: PLW0603 - one registry per process
    with _tables:
        if name in _dialects and not replace and _dialects[name] != dialect:
            raise SpecError(
                f"another dialect with the name {dialect.name!r} is already registered: "
                "pass replace=True to replace it"
            )
        _dialects[name] = dialect
        for alias in dialect.family.aliases:
            _aliases.setdefault(plain_name(alias), name)
        for alias in dialect.family.reasoning_aliases:
            _reasoning.setdefault(plain_name(alias), name)
        if facts is dialect.request:
            for checkpoint, thinking in facts.checkpoints:
                _checkpoints.setdefault(plain_name(checkpoint), (name, thinking))
        _changes += 1
    return dialect


@_RunOnce
def _load_built_ins() -> None:
    from . import families

    for module in pkgutil.iter_modules(families.__path__):
        if not module.name.startswith("_"):
            found = _register_all(
                importlib.import_module(f"{families.__name__}.{module.name}"), module.name, _register
            )
            _built_in.update(plain_name(dialect.name) for dialect in found)


@_RunOnce
def _load_entry_points() -> None:
    """Load the dialects of other packages, and warn about each entry point that cannot be loaded."""
    from importlib.metadata import entry_points  # imported here, because the import is slow and rarely needed

    for point in entry_points(group=GROUP):
        try:
            _register_all(point.load(), point.name, register)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - code of other packages may even exit
            package = point.dist.name if point.dist is not None else "an unknown package"
            warnings.warn(
                f"the dialect {point.name!r} ({point.value}) of {package} cannot be loaded: "
                f"{type(error).__name__}: {_first_line(error)}. Update or uninstall {package}",
                RuntimeWarning,
                stacklevel=5,
            )


def _first_line(error: BaseException) -> str:
    try:
        return str(error).partition("\n")[0]
    except Exception:  # noqa: BLE001 - the error class belongs to another package, too
        return "no reason given"


def _register_all(source: object, name: str, add: Callable[[Dialect], Dialect]) -> list[Dialect]:
    """Register and return the dialects in a module, or in the object of an entry point.

    :param add: function that registers one dialect; built-in dialects are not compiled before they are used.
    """
    if isinstance(source, Dialect):
        return [add(source)]
    if callable(source):
        source = source()
    values: Iterable[object] = source if isinstance(source, Iterable) else vars(source).values()
    found = [value for value in values if isinstance(value, Dialect)]
    if not found:
        raise SpecError(
            f"entry point {name!r} of group {GROUP!r} provides no Dialect: refer to a Dialect, or to a "
            "module that contains one"
        )
    return [add(dialect) for dialect in found]


def get_dialect(name: str, *, tokenizer: AnyTokenizer | None = None) -> Dialect:
    r"""Return the dialect that has this name or alias, or the dialect of the model with this name.

    If the dialect has variants for different vocabularies, ``tokenizer`` selects the variant.  A name of the
    form ``tools+reasoning`` combines the calls of one dialect with the reasoning of another, like the two
    parser options of inference engines.

    >>> get_dialect("qwen25").name
    'hermes'
    >>> get_dialect("Qwen/Qwen3-8B").name
    'hermes'
    >>> get_dialect("llama3_json+deepseek_r1").reasoning[0]
    '<think>\n{text}\n</think>\n\n'
    """
    if not isinstance(name, str):
        raise UsageError(f"a dialect name must be a string, got {type(name).__name__}")
    return registered_dialect(name, tokenizer) if "+" in name else find(name, tokenizer)


def registered_dialect(name: str, tokenizer: AnyTokenizer | None = None) -> Dialect:
    """Return the dialect with this name, as ``get_dialect`` does, but without looking for names of models."""
    calls, plus, reasoning = name.partition("+")
    found = _named(calls, (_dialects, _aliases, _reasoning))
    if plus:
        other = _named(reasoning, (_reasoning, _dialects, _aliases))
        return combined(find(found, tokenizer), other)
    return found if tokenizer is None else find(found, tokenizer)


def _named(name: str, tables: tuple[Mapping[str, object], ...]) -> Dialect:
    """Return the dialect with this name, from the first table that contains the name."""
    plain = plain_name(name)
    if plain in ("hf", "response_template"):
        raise UsageError(
            f"{name!r} is not a dialect, but means the tokenizer's own response template: "
            "convert that template with unspool.models.from_response_template(template)"
        )
    for load in (_load_built_ins, _load_entry_points):
        load()
        for table in tables:
            found = table.get(plain)
            if isinstance(found, str):
                found = _dialects[found]
            if isinstance(found, Dialect):
                return found
    near = difflib.get_close_matches(plain, [*_dialects, *_aliases, *_reasoning], n=4, cutoff=0.5)
    hint = (
        f"did you mean {', '.join(dict.fromkeys(near))}?" if near else "`unspool dialects` lists all of them"
    )
    raise UnknownDialect(f"no dialect {name!r}: {hint}")


_MODEL_NAME = re.compile(r"[\w./:-]{1,100}")
"""Pattern of texts that may be the name of a model, and not an output passed by mistake."""


@lru_cache(maxsize=1024)
def _found(name: str, changes: int) -> Dialect:
    """Return the dialect with this name, or of the model with this name.

    The result is cached, because every new parser needs it.
    """
    del changes
    try:
        return registered_dialect(name)
    except UnknownDialect:
        names = [*_dialects, *_aliases, *_reasoning]
        if not _MODEL_NAME.fullmatch(name) or difflib.get_close_matches(plain_name(name), names, 1, 0.9):
            raise  # an output that was passed by mistake, or a misspelt name
        from .model_names import known_model

        known = known_model(name)
        if known is None:
            raise
        return known.dialect


def list_dialects() -> tuple[Dialect, ...]:
    """Return all registered dialects, sorted by name."""
    _load_built_ins()
    _load_entry_points()
    return tuple(_dialects[name] for name in sorted(_dialects))


def is_dialect(name: str) -> bool:
    """Return whether a text is the name of a dialect, and not a model's output."""
    try:
        find(name)
    except (UnknownDialect, UsageError):
        return False
    return True


def find(dialect: str | Dialect, tokenizer: object | None = None) -> Dialect:
    """Return the given dialect, or the one with the given name; ``tokenizer`` selects the variant."""
    found = _found(dialect, _changes) if isinstance(dialect, str) else dialect
    if not isinstance(found, Dialect):
        raise UsageError(f"a dialect must be a Dialect value or a name, got {type(found).__name__}")
    variants = found.family.variants
    if tokenizer is not None and variants:
        tokens = facts_of_tokenizer(as_tokenizer(tokenizer)).literals
        for token, variant in variants:
            if token in tokens:
                return get_dialect(variant)
    return found


def built_in_dialects() -> tuple[Dialect, ...]:
    """Return the dialects of this package, sorted by name."""
    _load_built_ins()
    return tuple(_dialects[name] for name in sorted(_built_in))


def combined(calls: Dialect, reasoning: Dialect) -> Dialect:
    """Return a dialect that writes calls like one dialect, and reasoning like another."""
    facts = calls.request
    if facts is not None and reasoning.request is not None:  # unregistered dialects may have no facts
        facts = changed(facts_of(calls), thinking=facts_of(reasoning).thinking, checkpoints=())
    return changed(
        calls,
        name=f"{calls.name}+{reasoning.name}",
        family=changed(calls.family, variants=()),
        reasoning=reasoning.reasoning,
        habits=changed(calls.habits, echo=reasoning.habits.echo),
        request=facts,
    )


# -- facts for requests


def facts_of(dialect: Dialect) -> RequestFacts:
    """Return the request facts of a dialect, or those of the dialect that its ``request`` names."""
    own = dialect.request
    seen = [plain_name(dialect.name)]
    while isinstance(own, str) and plain_name(own) not in seen:
        seen.append(plain_name(own))
        try:
            own = get_dialect(own).request
        except UnknownDialect as error:
            raise SpecError(f"dialect {dialect.name!r}, request={own!r}: {error}") from error
    if isinstance(own, RequestFacts):
        return own
    raise SpecError(
        f"dialect {dialect.name!r} has no request facts: declare request='hermes' to share those of another "
        "dialect, or request=RequestFacts(...) with facts about its special tokens, its end-of-turn tokens "
        "and its options for reasoning"
    )


@lru_cache(maxsize=256)
def ends_of_turn(dialect: Dialect) -> frozenset[str]:
    """Return the markers that end the model's turn in a dialect."""
    eos = end_tokens(dialect, facts_of(dialect)) if dialect.request is not None else ()
    return frozenset((*dialect.stop, *eos))


def end_tokens(dialect: Dialect, facts: RequestFacts) -> tuple[str, ...]:
    """Return the tokens that end a turn, according to the request facts of a dialect."""
    return dialect.stop if facts.eos is None else facts.eos


def checkpoint(name: str) -> tuple[str, Thinking] | None:
    """Return the dialect name and reasoning options of a checkpoint; None if it has no special options."""
    plain = plain_name(name)
    _load_built_ins()
    if not any(plain in table for table in (_checkpoints, _dialects, _aliases, _reasoning)):
        _load_entry_points()
    return _checkpoints.get(plain)


def role_markers() -> frozenset[str]:
    """Return all texts with which a prompt of any family may end."""
    return _role_markers(_changes)


@lru_cache(maxsize=1)
def _role_markers(changes: int) -> frozenset[str]:
    del changes
    known = {marker for dialect in list_dialects() for marker in dialect.prompt.ends}
    return frozenset(known).union(
        ("<|im_start|>assistant", "<|start_header_id|>assistant<|end_header_id|>", "[/INST]")
    )
