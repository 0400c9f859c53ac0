"""Cache of compiled dialects."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from .arguments.select_codec import envelope_factory
from .compiler.bare_calls import BARE_CALLS
from .compiler.compile import compile_dialect
from .compiler.compiled_dialect import CompiledDialect, CompileOptions

if TYPE_CHECKING:
    from ..dialects._declaration import Dialect

_DERIVED: Final = ("+", ":")
"""Characters that occur only in the names of dialects that were combined from other dialects for a
request."""


def compiled_dialect(
    dialect: Dialect,
    calls: bool = True,
    declared: bool = True,
    calls_in_reasoning: bool = True,
    repair: bool = False,
    bare_calls: str = "off",
) -> CompiledDialect:
    """Return the compiled form of a dialect.  The other arguments are the options of ``CompileOptions``.

    A compiled dialect takes hundreds of kilobytes, and requests may combine dialects in thousands of ways.
    Combined dialects therefore have a small cache of their own, so that they never evict other dialects.
    """
    derived = any(sign in dialect.name for sign in _DERIVED)
    compile_once = _compile_derived if derived else _compile_declared
    return compile_once(dialect, calls, declared, calls_in_reasoning, repair, bare_calls)


def _compile(
    dialect: Dialect,
    calls: bool,
    declared: bool,
    calls_in_reasoning: bool,
    repair: bool,
    bare_calls: str,
) -> CompiledDialect:
    options = CompileOptions(
        reads_calls=calls,
        has_declared_tools=declared,
        calls_in_reasoning=calls_in_reasoning,
        repair=repair,
    )
    accepted = [
        compile_dialect(
            replace(other, names=dialect.names, stop=dialect.stop),
            options,
            envelope_factory(other, repair),
            for_other=True,
        )
        for other in dialect.also_accepts
    ]
    # Only the name of a declared tool shows that an object without markers is a call.
    if bare_calls != "off" and calls and declared and (dialect.call or dialect.frame is not None):
        make_bare = envelope_factory(BARE_CALLS, repair, bare=True)
        accepted.append(
            compile_dialect(
                replace(BARE_CALLS, names=dialect.names, stop=dialect.stop),
                options,
                make_bare,
                for_other=True,
                bare=bare_calls,
            )
        )
    return compile_dialect(dialect, options, envelope_factory(dialect, repair), accepted)


_compile_declared: Final = lru_cache(maxsize=1024)(_compile)
_compile_derived: Final = lru_cache(maxsize=64)(_compile)
