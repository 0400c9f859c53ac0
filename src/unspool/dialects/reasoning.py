"""Families whose reasoning has a format of its own, without calls."""

from .._core.words.dialect import Dialect
from ._shared import CHATML_STOPS

KIMI = Dialect(
    name="kimi",
    models="Kimi-VL-Thinking and other early Kimi models",
    reasoning=("◁think▷{text}◁/think▷",),
    stop=CHATML_STOPS,
)

PASSTHROUGH = Dialect(
    name="passthrough",
    models="any: everything is content, markup included",
    aliases=("identity", "plain"),
    reasoning=(),
)

MINIMAX_APPEND_THINK = Dialect(
    name="minimax_append_think",
    models="MiniMax-M2 for clients that parse reasoning themselves",
    aliases=("minimax_m2_append_think",),
    # The prompt already holds the opener; such clients want to see it.
    echo="<think>",
    reasoning=(),
)

HARMONY_STRIPPED = Dialect(
    name="harmony_stripped",
    models="gpt-oss behind a detokenizer that removed the control tokens",
    call=("assistantcommentary to=functions.{name} json{args}",),
    reasoning=("^analysis{text}assistantfinal",),
    drop=("assistantfinal",),
)
