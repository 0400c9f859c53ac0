"""Selection of the codec that reads the arguments of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compiler.split_templates import UNNAMED
from .bare_key_object import BareKeyObject
from .json_envelope import EnvelopeCodec, EnvelopeForm, UnnamedArguments
from .json_value import JsonArguments
from .nested_parameters import NestedParameters
from .python_literal import PythonArguments
from .raw_code import RawCode
from .tagged_parameters import TaggedParameters

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from ...policies import Policies
    from ..compiler.argument_codec_base import Codec, NamedPayload
    from ..compiler.compiled_dialect import CompiledDialect
    from ..compiler.match_program_types import EnvelopeFactory
    from ..compiler.split_templates import CallForm
    from ..schema.tools import Tools


def envelope_factory(dialect: Dialect, repair: bool) -> EnvelopeFactory:
    """Return a function that creates codecs for the envelopes of a dialect."""
    json = [EnvelopeForm(dialect, repair, False, unmarked) for unmarked in (False, True)]
    python = [EnvelopeForm(dialect, repair, True, unmarked) for unmarked in (False, True)]

    def make_envelope(notation: str, unmarked: bool) -> NamedPayload:
        if notation == UNNAMED:
            return UnnamedArguments(repair)
        forms = python if notation == "python" else json
        return EnvelopeCodec(forms[1 if unmarked else 0])

    return make_envelope


def make_codec(
    form: CallForm, compiled: CompiledDialect, tools: Tools, function: str, policies: Policies
) -> Codec:
    """Return the codec for the arguments of a call."""
    compiled = compiled.owner_of(form)
    if form.payload == "params":
        params = NestedParameters if compiled.dialect.habits.nested else TaggedParameters
        return params(compiled, tools, function, policies)
    if form.payload == "code":
        return RawCode(compiled.follow.code_ends)
    repair = policies.malformed_call == "repair"
    if form.notation == "bare":
        return BareKeyObject(
            compiled.dialect.values.quote,
            compiled.follow.after_params,
            kind=tools.parameters(function),
            repair=repair,
        )
    if form.notation == "json":
        return JsonArguments(repair)
    return PythonArguments(loose=form.notation == "loose", tools=tools, function=function)
