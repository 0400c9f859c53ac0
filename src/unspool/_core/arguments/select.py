"""Selection of the codec for a payload, and compilation of dialects with these codecs."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ..compiler.compiled_dialect import CompiledDialect
from ..compiler.forms import UNNAMED
from .bare_key_object import BareKeyObject
from .envelope import EnvelopeCodec, EnvelopeForm, UnnamedArguments
from .json_value import JsonArguments
from .nested_parameters import NestedParameters
from .python_literal import PythonArguments
from .raw_code import RawCode
from .tagged_parameters import TaggedParameters

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from ...policies import Policies
    from ..compiler.codec import Codec, NamedPayload
    from ..compiler.forms import CallForm
    from ..compiler.programs import Embed
    from ..schema.tools import Tools


_DERIVED: Final = ("+", ":")
"""Signs in the names of dialects that requests combine from others; there may be thousands of these."""


def compile_dialect(
    dialect: Dialect,
    calls: bool = True,
    declared: bool = True,
    calls_in_reasoning: bool = True,
    repair: bool = False,
) -> CompiledDialect:
    """Compile a dialect, with codecs for the payloads inside its call heads; results are cached.

    A compiled dialect takes hundreds of kilobytes.  Dialects that requests combine have a small cache
    of their own, so that they do not evict the registered ones.
    """
    derived = any(sign in dialect.name for sign in _DERIVED)
    compiled = _of_derived if derived else _of_declared
    return compiled(dialect, calls, declared, calls_in_reasoning, repair)


def _compile(
    dialect: Dialect, calls: bool, declared: bool, calls_in_reasoning: bool, repair: bool
) -> CompiledDialect:
    return CompiledDialect(
        dialect,
        calls=calls,
        declared=declared,
        calls_in_reasoning=calls_in_reasoning,
        repair=repair,
        embed=_embed(dialect, repair),
        guests=[
            CompiledDialect(
                replace(foreign, names=dialect.names, stop=dialect.stop),
                calls=calls,
                declared=declared,
                calls_in_reasoning=calls_in_reasoning,
                repair=repair,
                embed=_embed(foreign, repair),
                guest=True,
            )
            for foreign in dialect.also_accepts
        ],
    )


_of_declared: Final = lru_cache(maxsize=1024)(_compile)
_of_derived: Final = lru_cache(maxsize=64)(_compile)


def _embed(dialect: Dialect, repair: bool) -> Embed:
    """Return a factory of codecs for payloads that hold the name of the call."""
    json = [EnvelopeForm(dialect, repair, False, unmarked) for unmarked in (False, True)]
    python = [EnvelopeForm(dialect, repair, True, unmarked) for unmarked in (False, True)]

    def embed(notation: str, unmarked: bool) -> NamedPayload:
        if notation == UNNAMED:
            return UnnamedArguments(repair)
        forms = python if notation == "python" else json
        return EnvelopeCodec(forms[1 if unmarked else 0])

    return embed


def make_codec(
    form: CallForm, syntax: CompiledDialect, tools: Tools, function: str, policies: Policies
) -> Codec:
    """Return a codec for the payload of a call."""
    syntax = syntax.of(form)
    if form.payload == "params":
        codec = NestedParameters if syntax.dialect.values.nested else TaggedParameters
        return codec(syntax, tools, function, policies)
    if form.payload == "code":
        return RawCode(syntax.follow.code_ends)
    repair = policies.malformed_call == "repair"
    if form.notation == "bare":
        return BareKeyObject(
            syntax.dialect.values.quote,
            syntax.follow.after_params,
            kind=tools.parameters(function),
            repair=repair,
        )
    if form.notation == "json":
        return JsonArguments(repair)
    return PythonArguments(loose=form.notation == "loose", tools=tools, function=function)
