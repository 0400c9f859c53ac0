"""Families whose reasoning has a format of its own, without calls."""

from .._dialect import Dialect
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
