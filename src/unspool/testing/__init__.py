"""Testing: the laws that every dialect obeys, as functions.

For this project's own tests and for those of other packages that declare a
dialect.  Start with :func:`check_dialect`:

>>> from unspool import Dialect
>>> from unspool.testing import check_dialect
>>> mine = Dialect("mine", call=("<call>{envelope}</call>",))
>>> check_dialect(mine, ['Hi. <call>{"name": "now", "arguments": {}}</call>'], examples=5)

The laws::

    chunking    however an output is cut into pieces, the same events come out
    tiling      the spans of the events cover the input, in order, once
    places      a name and arguments stand where their call says, apart from each other
    order       calls start, get arguments and end, one at a time; ``Finish`` is last
    hold-back   what is held is never more than ``Parser.max_pending``
    cuts        where generation is stopped the output is cut, and no markup becomes text
    arguments   what was sent of a call's arguments is a prefix of all of them
    effort      however hostile an output is, the work for it grows with its length
    no error    whatever the model wrote, ``feed`` and ``finish`` do not raise
    quotations  what is quoted in the prompt, by anybody, says nothing about the output
    continuations  only a call that a continued turn of the model has begun goes on in the output
    wires       on every wire a client puts together what the whole response has, and can run only that
    policies    each value of a policy shows, where the dialect has what the policy is about
    round trip  ``parse(render(message))`` gives the message back

A law that is broken raises ``AssertionError`` with the input to repeat it.

:func:`messages` and what builds on it need `hypothesis`_, which this package
does not install.

.. _hypothesis: https://hypothesis.readthedocs.io
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from ..dialects._declaration import Dialect
from ..dialects._registry import find
from ._complexity import Hostile, assert_complexity, hostile
from ._outputs import (
    Case,
    Reading,
    as_case,
    chunkings,
    comparable,
    markers,
    mutate,
    read,
)
from ._parsing_laws import (
    POLICIES,
    assert_argument_prefixes,
    assert_chunking_invariant,
    assert_cuts,
    assert_hold_bound,
    assert_laws,
    assert_never_raises,
    assert_order,
    assert_places,
    assert_tiles,
)
from ._policy_laws import EFFECTS, assert_policy
from ._prompt_laws import assert_continuations, assert_quotations
from ._round_trip_law import Sample, assert_round_trip, messages
from ._wire_laws import assert_wires

__all__ = [
    "POLICIES",
    "Case",
    "Hostile",
    "Reading",
    "Sample",
    "assert_argument_prefixes",
    "assert_chunking_invariant",
    "assert_complexity",
    "assert_continuations",
    "assert_cuts",
    "assert_hold_bound",
    "assert_laws",
    "assert_never_raises",
    "assert_order",
    "assert_places",
    "assert_policy",
    "assert_quotations",
    "assert_round_trip",
    "assert_tiles",
    "assert_wires",
    "check_dialect",
    "chunkings",
    "comparable",
    "hostile",
    "markers",
    "messages",
    "mutate",
    "read",
]


def check_dialect(
    dialect: str | Dialect,
    texts: Iterable[str | Case] = (),
    *,
    examples: int = 50,
    mutations: int = 20,
    seed: int = 0,
) -> None:
    """Hold a dialect to every law.

    :param texts: outputs of its models, good and bad ones, to judge it by;
        :class:`Case` where the request matters.
    :param examples: how many messages to invent.
    :param mutations: how many broken variants of each text to try; and a tenth as many without end.
    """
    from hypothesis import Phase, given, settings

    spec = find(dialect)
    marks = markers(spec)
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    for text in texts:
        case = as_case(text)
        assert_laws(spec, case, chunkings(case.text, seed=seed, splits=1000))
        assert_never_raises(spec, case)
        _assert_wires_under_policies(spec, case)
        assert_cuts(spec, case)
        for _ in range(mutations):
            broken = replace(case, text=mutate(case.text, rng, marks))
            assert_laws(spec, broken, chunkings(broken.text, seed=seed, random=2, splits=0))
            assert_never_raises(spec, broken)
            _assert_wires_under_policies(spec, broken)

    for _ in range(mutations // 10):
        assert_complexity(hostile(spec, rng), 400)
    assert_quotations(spec)
    assert_continuations(spec)
    for policy in EFFECTS:
        assert_policy(spec, policy)

    phases = (Phase.generate, Phase.shrink)  # the report explains itself
    quiet = settings(max_examples=examples, phases=phases, database=None, deadline=None, derandomize=True)

    @quiet
    @given(messages(spec))
    def round_trips(sample: Sample) -> None:
        text = assert_round_trip(spec, sample)
        assert_laws(spec, Case(text, sample.tools), chunkings(text, seed=seed, splits=0))

    round_trips()


def _assert_wires_under_policies(dialect: Dialect, case: Case) -> None:
    for policies in POLICIES.values():
        assert_wires(dialect, replace(case, policies=policies), [[case.text]])
    assert_wires(dialect, case)
