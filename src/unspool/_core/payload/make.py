"""Which codec reads, and which function writes, a payload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .bare import BareObject, encode_bare
from .code import RawText, encode_code
from .json import JsonValue
from .python import PythonArguments, encode_python
from .tagged import Tagged
from .tree import Tree

if TYPE_CHECKING:
    from ..schema.schema import Tools
    from ..syntax.forms import CallForm
    from ..syntax.syntax import Syntax
    from ..values.policies import Policies
    from ..words.dialect import Dialect
    from .base import Codec


def make_codec(form: CallForm, syntax: Syntax, tools: Tools, function: str, policies: Policies) -> Codec:
    """The codec for the payload of a call."""
    if form.payload == "params":
        params = Tree if syntax.dialect.values.nested else Tagged
        return params(syntax, tools, function, policies)
    if form.payload == "code":
        return RawText(syntax.code_ends)
    repair = policies.malformed_call == "repair"
    if form.notation == "bare":
        return BareObject(
            syntax.dialect.values.quote, syntax.after_params, kind=tools.parameters(function), repair=repair
        )
    if form.notation == "json":
        return JsonValue(repair)
    return PythonArguments(loose=form.notation == "loose", tools=tools, function=function)


def encode_arguments(notation: str, arguments: str, dialect: Dialect) -> str:
    """Arguments, given as JSON text, in a notation."""
    if notation == "bare":
        return encode_bare(arguments, dialect.values.quote)
    if notation == "code":
        return encode_code(arguments)
    return arguments if notation == "json" else encode_python(arguments)
