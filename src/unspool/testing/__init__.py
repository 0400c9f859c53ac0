"""Property tests for dialects: functions that assert laws, which are properties of every dialect.

The functions are for this project's own tests and for packages that declare a dialect. The main function is
:func:`check_dialect`:

>>> from unspool import Dialect
>>> from unspool.testing import check_dialect
>>> mine = Dialect("mine", call=("<call>{envelope}</call>",))
>>> check_dialect(mine, ['Hi. <call>{"name": "now", "arguments": {}}</call>'], examples=5)

The laws::

    chunking       all ways to split an output into chunks lead to equal events
    tiling         the spans of the events cover the input in order, without gaps or overlaps
    places         the spans of a call's name and arguments contain the name and the arguments
    order          calls start, receive arguments and end, one at a time; ``Finish`` is last
    hold-back      the parser delays events for at most ``Parser.max_pending`` characters
    cuts           if an output stops inside a call, the call is truncated; no marker becomes text
    arguments      the arguments sent so far are a prefix of the final arguments
    partial        ``PartialArguments`` shows only what the final arguments contain
    complexity     the work for an output grows linearly with its length, even for hostile outputs
    no error       ``feed`` and ``finish`` never raise an error, whatever the model wrote
    quotations     text that the prompt quotes does not change how the output is parsed
    continuations  the output continues a call from the prompt only if the request continues the
                   turn in which the call began
    wires          in every API format, a streaming client gets the complete response, and can
                   run only the calls in that response
    policies       each value of a policy has an effect, in every dialect to which it applies
    round trip     ``parse(render(message))`` returns the message

If a dialect breaks a law, the law's function raises ``AssertionError`` with the input that shows the fault.

:func:`messages` and :func:`check_dialect` need hypothesis, which the extra ``testing`` installs:
``pip install 'unspool[testing]'``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from ..dialects import Dialect, find
from ._every_policy_has_effect_law import EFFECTS, assert_policy
from ._grammar_can_be_built_law import assert_grammar
from ._linear_time_law import HostileText, assert_complexity, hostile
from ._parser_runs import (
    Feed,
    ModelOutput,
    ParseRun,
    as_model_output,
    chunkings,
    comparable,
    markers,
    mutate,
    run_parser,
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
    assert_partial_arguments,
    assert_places,
    assert_tiles,
)
from ._quoted_prompt_laws import assert_continuations, assert_quotations
from ._render_labelled_pieces import RenderedPiece, render_pieces
from ._round_trip_law import SampleMessage, assert_round_trip, messages, require_hypothesis
from ._streamed_equals_whole_law import assert_wires

__all__ = [
    "POLICIES",
    "Feed",
    "HostileText",
    "ModelOutput",
    "ParseRun",
    "RenderedPiece",
    "SampleMessage",
    "assert_argument_prefixes",
    "assert_chunking_invariant",
    "assert_complexity",
    "assert_continuations",
    "assert_cuts",
    "assert_grammar",
    "assert_hold_bound",
    "assert_laws",
    "assert_never_raises",
    "assert_order",
    "assert_partial_arguments",
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
    "render_pieces",
    "run_parser",
]


def check_dialect(
    dialect: str | Dialect,
    texts: Iterable[str | ModelOutput] = (),
    *,
    examples: int = 50,
    mutations: int = 20,
    seed: int = 0,
) -> None:
    """Check a dialect against every law.

    :param texts: valid and broken outputs in this dialect; a :class:`ModelOutput` also contains parts of the
        request.
    :param examples: number of messages to generate.
    :param mutations: number of broken variants per text; there are a tenth as many hostile texts.
    :raises UsageError: if hypothesis is not installed.
    """
    require_hypothesis()
    from hypothesis import Phase, given, settings

    spec = find(dialect)
    dialect_markers = markers(spec)
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    for text in texts:
        case = as_model_output(text)
        assert_laws(spec, case, chunkings(case.text, seed=seed, splits=1000))
        assert_never_raises(spec, case)
        _assert_wires_under_policies(spec, case)
        assert_cuts(spec, case)
        for chunks in chunkings(case.text, seed=seed, splits=0):
            assert_partial_arguments(run_parser(spec, case, chunks))
        for _ in range(mutations):
            broken = replace(case, text=mutate(case.text, rng, dialect_markers))
            assert_laws(spec, broken, chunkings(broken.text, seed=seed, random=2, splits=0))
            assert_never_raises(spec, broken)
            _assert_wires_under_policies(spec, broken)

    for _ in range(mutations // 10):
        assert_complexity(hostile(spec, rng), 400)
    assert_grammar(spec)
    assert_quotations(spec)
    assert_continuations(spec)
    for policy in EFFECTS:
        assert_policy(spec, policy)

    # Hypothesis's phase "explain" is left out, because the error itself contains all details.
    phases = (Phase.generate, Phase.shrink)
    example_settings = settings(
        max_examples=examples, phases=phases, database=None, deadline=None, derandomize=True
    )

    @example_settings
    @given(messages(spec))
    def round_trips(sample: SampleMessage) -> None:
        text = assert_round_trip(spec, sample)
        assert_laws(spec, ModelOutput(text, sample.tools), chunkings(text, seed=seed, splits=0))

    round_trips()


def _assert_wires_under_policies(dialect: Dialect, case: ModelOutput) -> None:
    for policies in POLICIES.values():
        assert_wires(dialect, replace(case, policies=policies), [[case.text]])
    assert_wires(dialect, case)
