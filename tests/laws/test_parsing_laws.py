"""Each law for each registered dialect.

``unspool.testing`` states the laws; these tests apply them to the corpus, to broken variants of it, and to
invented messages. A dialect is tested because it is registered.

The broken texts are equal in every run, so that a failure points to the change; ``UNSPOOL_SEED`` selects
others. The slow tests try many more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_corpus import case_of, dialect_of

import corpus_cases
import standard_scenarios
from unspool import (
    CallArgs,
    CallEnd,
    CallStart,
    Diagnostic,
    Dialect,
    Event,
    Finish,
    Message,
    Parser,
    Policies,
    Text,
    ToolCall,
    UsageError,
    get_dialect,
    list_dialects,
    parse,
    render,
)
from unspool._core.compile_cache import compiled_dialect
from unspool._core.ledger import BLOCK
from unspool.dialects import Wrapper
from unspool.dialects.parse_templates import parse_header_field, text_around
from unspool.events import FinishReason
from unspool.testing import (
    POLICIES,
    ModelOutput,
    ParseRun,
    SampleMessage,
    assert_argument_prefixes,
    assert_chunking_invariant,
    assert_continuations,
    assert_cuts,
    assert_hold_bound,
    assert_laws,
    assert_never_raises,
    assert_order,
    assert_partial_arguments,
    assert_places,
    assert_policy,
    assert_quotations,
    assert_round_trip,
    assert_tiles,
    assert_wires,
    check_dialect,
    chunkings,
    comparable,
    markers,
    messages,
    mutate,
    run_parser,
)
from unspool.testing._every_policy_has_effect_law import SampleCall
from unspool.testing._quoted_prompt_laws import every_policy

SEED = os.environ.get("UNSPOOL_SEED", "0")
NAMES = [dialect.name for dialect in list_dialects()]
each_dialect = pytest.mark.parametrize("name", NAMES)
# The strategies are slow to build but quick to draw from.
patient = [HealthCheck.too_slow]


@cache
def cases(name: str) -> tuple[ModelOutput, ...]:
    """Return outputs of a dialect; for a dialect with few in the corpus, rendered messages."""
    dialect = get_dialect(name)
    vectors = [vector for vector in corpus_cases.load() if (of := dialect_of(vector)) and of.name == name]
    # The standard scenarios resemble each other and have their own laws in test_standard_scenarios.py.
    vectors = [vector for vector in vectors if not vector.file.endswith("/standard.md")]
    if len(vectors) <= 8:
        vectors = (vectors + standard_scenarios.vectors_of(name))[:20]
    if vectors:
        return tuple(case_of(vector, dialect) for vector in vectors)
    return tuple(ModelOutput(render(message, dialect)) for message in _plain_messages(dialect))


def _plain_messages(dialect: Dialect) -> Iterator[Message]:
    calls = (ToolCall("call_1", "get_weather", '{"city": "Paris"}'), ToolCall("call_2", "now", "{}"))
    for message in (
        Message(content="Hello there."),
        Message(reasoning="Let me see.", content="Hello."),
        Message(tool_calls=calls[:1]),
        Message(content="Let me check.", tool_calls=calls),
    ):
        try:
            render(message, dialect)
        except UsageError:
            continue  # some dialects cannot express this message
        yield message


def rng_for(what: str) -> Random:
    return Random(crc32(f"{what} {SEED}".encode()))  # noqa: S311 - reproducible, not secret


def splits(text: str, number: int) -> Iterator[list[str]]:
    """Yield the text in single characters, split at two random places, and in random chunks."""
    yield from chunkings(text, splits=0, random=1)
    rng = rng_for(text)
    for at in rng.sample(range(1, len(text)), min(number, len(text) - 1)) if text else ():
        yield [text[:at], text[at:]]


def some(name: str, number: int) -> list[ModelOutput]:
    """Return a sample of the cases of a dialect."""
    found = cases(name)
    return rng_for(f"some {name}").sample(found, min(number, len(found)))


def break_cases(name: str, number: int) -> Iterator[ModelOutput]:
    """Yield cases of a dialect with one to three faults, under any policy."""
    rng = rng_for(name)
    marks = markers(name)
    for _ in range(number):
        case = rng.choice(cases(name))
        text = case.text
        for _ in range(rng.randint(1, 3)):
            text = mutate(text, rng, marks)
        yield replace(
            case,
            text=text,
            policies=rng.choice((None, None, *POLICIES.values())),
            tools=rng.choice((case.tools, case.tools, None, ())),
            finish_reason=rng.choice((case.finish_reason, None, "stop", "length")),
        )


@cache
def invented(name: str) -> st.SearchStrategy[SampleMessage]:
    return messages(name)


# -- laws of texts


@each_dialect
def test_corpus_obeys_laws_in_pieces(name: str) -> None:
    for case in cases(name):
        assert_laws(name, case, splits(case.text, 12))


@each_dialect
def test_corpus_obeys_laws_under_policies(name: str) -> None:
    """Each case under two of the policies, with tools unknown or none; all policies over the corpus."""
    ways = list(product(POLICIES.values(), (None, ())))
    for number, case in enumerate(cases(name)):
        for policies, tools in (ways[number % len(ways)], ways[(number * 7 + 5) % len(ways)]):
            used_tools = case.tools if number % 3 else tools
            changed = replace(case, policies=policies, tools=used_tools)
            assert_laws(name, changed, chunkings(case.text, splits=0, random=1))


@pytest.mark.parametrize("name", ["hermes", "mistral", "qwen3_coder", "deepseek_v3_2", "harmony"])
def test_corpus_obeys_laws_for_every_split_in_two(name: str) -> None:
    """One dialect of each kind is cut at every place; the slow tests do so for the others."""
    for case in cases(name):
        assert_laws(name, case, chunkings(case.text, splits=10_000, random=0))


@pytest.mark.slow
@each_dialect
def test_corpus_obeys_laws_for_every_split_and_policy(name: str) -> None:
    for case in cases(name):
        assert_laws(name, case, chunkings(case.text, splits=10_000, random=30))
        for policies, tools in product(POLICIES.values(), (case.tools, None, ())):
            changed = replace(case, policies=policies, tools=tools)
            assert_laws(name, changed, splits(case.text, 20))


@each_dialect
def test_broken_text_obeys_laws(name: str) -> None:
    for case in break_cases(name, 50):
        assert_laws(name, case, chunkings(case.text, splits=0, random=2))


@pytest.mark.slow
@each_dialect
def test_much_broken_text_obeys_laws(name: str) -> None:
    for case in break_cases(name, 2000):
        assert_laws(name, case, chunkings(case.text, splits=40, random=3))


def check_wires(name: str, outputs: Iterable[ModelOutput]) -> None:
    """Check each case under another policy and with another finish reason."""
    for number, case in enumerate(outputs):
        policies = list(POLICIES.values())[number % len(POLICIES)]
        reason: FinishReason = ("stop", "length")[number // len(POLICIES) % 2]
        assert_wires(name, replace(case, policies=policies, finish_reason=reason), [[case.text]])


@each_dialect
def test_clients_run_only_calls_the_model_wrote(name: str) -> None:
    check_wires(name, break_cases(name, 20))
    for case in some(name, 12):
        assert_wires(name, case, [list(case.text)])
        check_wires(name, truncate(case, max(1, len(case.text) // 12)))


@pytest.mark.slow
@each_dialect
def test_clients_run_only_calls_the_model_wrote_however_broken(name: str) -> None:
    check_wires(name, break_cases(name, 1500))
    for case in cases(name):
        check_wires(name, truncate(case, 1))


def truncate(case: ModelOutput, step: int) -> Iterator[ModelOutput]:
    """Yield the case truncated in many places."""
    for end in range(len(case.text), 0, -step):
        yield replace(case, text=case.text[:end], finish_reason="length")


@each_dialect
def test_partial_arguments_grow_into_the_final_ones(name: str) -> None:
    policies = list(POLICIES.values())
    for case in cases(name):
        for chunks in chunkings(case.text, splits=0, random=2):
            assert_partial_arguments(run_parser(name, case, chunks))
    for number, case in enumerate(break_cases(name, 60)):
        changed = replace(case, policies=policies[number % len(policies)])
        assert_partial_arguments(run_parser(name, changed, list(case.text)))


@each_dialect
def test_parser_never_raises(name: str) -> None:
    for number, case in enumerate(break_cases(name, 6)):
        assert_never_raises(name, case, list(case.text) if number % 2 else None)


@each_dialect
@settings(max_examples=25, suppress_health_check=patient)
@given(data=st.data())
def test_random_markup_obeys_laws(name: str, data: st.DataObject) -> None:
    text = "".join(data.draw(_markup(name)))
    assert_laws(name, text, chunkings(text, splits=0, random=1))


@cache
def _markup(name: str) -> st.SearchStrategy[list[str]]:
    words = ("x", " ", "\n", '"', "get_weather", "{", "}", "[", "]", "(", ")", ":", ",", "=", "1", "`")
    return st.lists(st.sampled_from((*markers(name), *words)) | st.text(max_size=3), max_size=12)


@each_dialect
def test_cut_output_is_truncated(name: str) -> None:
    for case in some(name, 6):
        assert_cuts(name, case)


@pytest.mark.slow
@each_dialect
def test_any_cut_output_is_truncated(name: str) -> None:
    for case in cases(name):
        assert_cuts(name, case)


TAGGED = [dialect.name for dialect in list_dialects() if dialect.param and SampleCall(dialect).params]


@pytest.mark.parametrize("name", TAGGED)
@pytest.mark.parametrize("reason", ["length", "stop", None])
def test_unclosed_parameters_are_truncated(name: str, reason: FinishReason | None) -> None:
    """Values between tags do not say which is the last: an unclosed call may lack parameters."""
    wording = SampleCall(get_dialect(name))
    (tool,) = wording.tools(city="string", days="integer")
    parameters = {**tool["function"]["parameters"], "required": ["city", "days"]}  # type: ignore[index]
    tool = {"name": wording.call().name, "parameters": parameters}
    closers = {form.closers[-1] for form in compiled_dialect(wording.spec).forms.calls if form.closers}
    text = wording.write()
    unclosed = 0
    for at in range(len(text)):
        for end in ("", *wording.spec.stop) if reason != "length" else ("",):
            message = run_parser(
                name, ModelOutput(text[:at] + end, tools=(tool,), finish_reason=reason)
            ).message
            assert message is not None
            for call in message.tool_calls:
                assert json.loads(call.arguments) == {"city": "Oslo", "days": 3}, text[:at] + end
            diagnostics = [(diagnostic.kind, diagnostic.detail) for diagnostic in message.diagnostics]
            unclosed += any(("missing_closer", closer) in diagnostics for closer in closers)
    if reason == "length":
        assert not unclosed, "stopped output may be incomplete"
    elif closers:
        assert unclosed, "a turn that ends by itself must be complete"


IN_JSON = [
    dialect.name
    for dialect in list_dialects()
    if (dialect.call or dialect.frame) and SampleCall(dialect).notation == "json"
]


@pytest.mark.parametrize("name", IN_JSON)
def test_arguments_are_an_object(name: str) -> None:
    wording = SampleCall(get_dialect(name))
    text = wording.write()
    for value in ("[1]", "5", "true", '"Oslo"', '"[1]"', '[{"city": "Oslo"}]'):
        # Without a closing marker, a number at the end may be incomplete.
        policies = Policies(truncated_call="text")
        case = ModelOutput(
            text.replace(wording.arguments, value), wording.tools(city="string"), policies=policies
        )
        reading = assert_laws(name, case, chunkings(case.text, splits=0, random=1))
        assert reading.message is not None
        assert not reading.message.tool_calls
        assert value in (reading.message.content or "") + (reading.message.reasoning or "")
        for end in range(len(case.text)):
            sent = [event.json for event in Parser(name).feed(case.text[:end]) if isinstance(event, CallArgs)]
            assert not any(sent) or text[: text.index(wording.arguments)] + value in case.text[:end]


@pytest.mark.parametrize("name", IN_JSON)
@pytest.mark.parametrize("value", ["null", '""', '"{\\"city\\": \\"Oslo\\"}"'])
def test_missing_or_quoted_arguments_become_an_object(name: str, value: str) -> None:
    """Models write nothing at all, or an object in a string, and mean arguments."""
    wording = SampleCall(get_dialect(name))
    if wording.capabilities.payload != "envelope":
        return
    message = run_parser(name, wording.write().replace(wording.arguments, value)).message
    assert message is not None
    assert [call.arguments for call in message.tool_calls] == [
        '{"city": "Oslo"}' if "Oslo" in value else "{}"
    ]


@pytest.mark.parametrize("name", IN_JSON)
@pytest.mark.parametrize("policies", ["default", "repair", "strict"])
def test_brackets_after_a_call_are_framing(name: str, policies: str) -> None:
    wording = SampleCall(get_dialect(name))
    text = wording.write()
    end = (
        text.index(wording.arguments) + len(wording.arguments) + (wording.capabilities.payload == "envelope")
    )
    case = ModelOutput(text[:end] + "}" + text[end:], policies=POLICIES[policies])
    message = assert_laws(name, case, chunkings(case.text, splits=0, random=1)).message
    assert message is not None
    assert [json.loads(call.arguments) for call in message.tool_calls] == [json.loads(wording.arguments)]
    assert message.content is None
    assert {diagnostic.kind for diagnostic in message.diagnostics} & {"stray_closer", "trailing_data"}


VALUES = ("VALUE-A", "VALUE-B", "VALUE-C")


@pytest.mark.parametrize("name", TAGGED)
def test_present_argument_is_not_reported_missing(name: str) -> None:
    """However the markup is broken, the text inside a complete call is in its arguments."""
    wording = SampleCall(get_dialect(name))
    text = wording.write(wording.call(json.dumps(dict(zip(("city", "days", "unit"), VALUES, strict=True)))))
    tools = wording.tools(city="string", days="string", unit="string")
    rng = rng_for(name)
    pieces = (*markers(name), "<", "</", ">", "=", "\n")
    for number in range(150):
        broken_text = mutate(text, rng, pieces)
        reading = run_parser(
            name, ModelOutput(broken_text, tools=tools if number % 3 else None, finish_reason="stop")
        )
        begins = 0
        arguments = ""
        for event in reading.events:
            if isinstance(event, CallStart):
                begins, arguments = event.end, ""
            elif isinstance(event, CallArgs):
                arguments += event.json
            elif isinstance(event, CallEnd) and event.status == "complete":
                written = broken_text[begins : event.start]
                missing = [value for value in VALUES if value in written and value not in arguments]
                assert reading.message is not None
                twice = [p for p in reading.message.diagnostics if p.kind == "duplicate_argument"]
                assert not missing or twice, (broken_text, arguments)


# -- laws of messages


@each_dialect
@settings(max_examples=10, suppress_health_check=patient)
@given(data=st.data())
def test_invented_messages_round_trip(name: str, data: st.DataObject) -> None:
    assert_round_trip(name, data.draw(invented(name)))


@each_dialect
@settings(max_examples=4, suppress_health_check=patient)
@given(data=st.data())
def test_rendered_messages_obey_laws(name: str, data: st.DataObject) -> None:
    sample = data.draw(invented(name))
    text = render(sample.message, name, check=False)
    cut = text[: data.draw(st.integers(0, len(text)))]
    for case in (ModelOutput(text, sample.tools), ModelOutput(text), ModelOutput(cut, sample.tools)):
        assert_laws(name, case, chunkings(case.text, splits=0, random=2))


@pytest.mark.slow
@each_dialect
@settings(suppress_health_check=patient)
@given(data=st.data())
def test_many_invented_messages_round_trip(name: str, data: st.DataObject) -> None:
    sample = data.draw(invented(name))
    text = assert_round_trip(name, sample)
    assert_laws(name, ModelOutput(text, sample.tools), chunkings(text, splits=0, random=2))


@each_dialect
def test_reasoning_opened_by_the_prompt_continues(name: str) -> None:
    dialect = get_dialect(name)
    for template in dialect.reasoning:
        if isinstance(template, Wrapper) and template.only_at_start:
            continue
        opener, closer = text_around(template, "text")
        message = parse(f"Let me see.{closer}Hello.", dialect, prompt=f"Hi there.\n{opener}")
        assert (message.reasoning, message.content) == ("Let me see.", "Hello."), template


@each_dialect
def test_quoted_calls_in_a_prompt_have_no_effect(name: str) -> None:
    assert_quotations(name)


@pytest.mark.slow
@each_dialect
def test_quoted_calls_have_no_effect_under_any_policy(name: str) -> None:
    assert_quotations(name, policies=every_policy())


@each_dialect
def test_only_continued_turns_continue_a_call(name: str) -> None:
    assert_continuations(name)


@each_dialect
def test_prompt_may_end_anywhere(name: str) -> None:
    """A prefilled answer, reasoning or call: events cover only the output, whatever the prompt began."""
    rng = rng_for(name)
    for case in cases(name):
        at = rng.randint(0, len(case.text))
        prompt = (case.prompt or "") + case.text[:at]
        for policies, continues in product((case.policies, Policies(commit="call")), (True, False)):
            changed = replace(
                case, text=case.text[at:], prompt=prompt, policies=policies, continues=continues
            )
            assert_laws(name, changed, chunkings(changed.text, splits=0, random=1))


@pytest.mark.parametrize("long", [0, 300, 70_000])
@pytest.mark.parametrize("name", [dialect.name for dialect in list_dialects() if dialect.frame is not None])
def test_finished_framed_message_of_the_prompt_has_no_effect(name: str, long: int) -> None:
    """However long ago the message began, and whatever ended it, the output begins as without a prompt."""
    dialect = get_dialect(name)
    assert dialect.frame is not None
    written = [dialect.prompt.start + render(message, dialect) for message in _plain_messages(dialect)]
    for before in written:
        prompt = before.replace("Hello", "Hello" + " there" * (long // 6))
        # A message without an end marker ends with its turn.
        ends = (*dialect.stop, "<|im_end|>", "<|im_end|>\n<|im_start|>assistant\n")
        for end in ("", *ends) if dialect.frame.ends else ends:
            for text in (*written, *(text.removeprefix(dialect.prompt.start) for text in written), "Hello."):
                fresh = run_parser(name, ModelOutput(text, prompt=""))
                result = run_parser(name, ModelOutput(text, prompt=prompt + end))
                assert comparable(result.events, text) == comparable(fresh.events, text), (prompt[-80:], end)


@pytest.mark.parametrize("name", [dialect.name for dialect in list_dialects() if dialect.frame is not None])
def test_header_with_additional_fields_is_read(name: str) -> None:
    """Words or other fields anywhere in a call's header do not move name and arguments."""
    wording = SampleCall(get_dialect(name))
    frame = wording.spec.frame
    assert frame is not None
    text = wording.write()
    header = text[: text.index(frame.sep)]
    tools = wording.tools(city="string", days="integer")
    marks = [parse_header_field(field)[0].text for field in frame.fields]
    fields = [mark + wording.name for mark in marks]
    called = 0
    for piece in ("t", " t ", "to", *fields, *(f"t{mark}" for mark in marks)):
        for at in range(len(header) + 1):
            for known_tools in (tools, None):
                case = ModelOutput(text[:at] + piece + text[at:], known_tools)
                reading = assert_laws(name, case, [list(case.text)])
                assert reading.message is not None
                for call in reading.message.tool_calls:
                    called += 1
                    assert call.name != wording.name or "Oslo" in call.arguments, case.text
    assert called


def test_python_literals_that_are_json_keep_their_spelling() -> None:
    """Only their end shows that they are JSON, so nothing can be sent verbatim before it."""
    text = '<|tool_calls|>[{"name": "f", "arguments": {"a":[1,2], "b" :"é\\n"}}]'
    message = assert_laws("sarashina", text, chunkings(text)).message
    assert message is not None
    assert [call.arguments for call in message.tool_calls] == ['{"a": [1, 2], "b": "é\\n"}']


def test_contradicting_header_field_is_noted() -> None:
    for fields, kinds in (("to=functions.f to=functions.g", ["broken_header"]), ("to=functions.g", [])):
        text = f"<|channel|>commentary {fields}<|message|>{{}}<|call|>"
        message = parse(text, "harmony")
        assert [call.name for call in message.tool_calls] == ["g"]
        assert [diagnostic.kind for diagnostic in message.diagnostics] == kinds


@each_dialect
@pytest.mark.parametrize("policy", ["malformed_call", "truncated_call"])
def test_raw_text_of_a_malformed_call_is_complete(name: str, policy: str) -> None:
    """The raw text is kept in pieces, which are joined when there are many."""
    shown = assert_policy(name, policy)
    if shown is None:
        return  # the dialect has no calls
    for size in (BLOCK + 1, 3 * BLOCK + 7):
        value = "Oslo" * (size // 4)
        case = replace(shown, text=shown.text.replace("Oslo", value))
        for chunk in (size * 2, 50):
            text = case.text
            reading = run_parser(name, case, [text[at : at + chunk] for at in range(0, len(text), chunk)])
            assert_tiles(reading)
            ends = [event for event in reading.events if isinstance(event, CallEnd)]
            assert [f"{end.status}_call" for end in ends] == [policy]
            assert value in ends[0].raw


# -- tests of the laws


@each_dialect
def test_corpus_has_calls(name: str) -> None:
    """A dialect that can write calls must parse one in its corpus; otherwise the laws only cover prose."""
    dialect = get_dialect(name)
    if dialect.call or dialect.frame is not None:
        messages_ = [run_parser(name, case).message for case in cases(name)]
        assert any(message is not None and message.tool_calls for message in messages_)


def test_check_dialect_finds_violations() -> None:
    good = Dialect("good", call=("<c>{envelope}</c>",))
    check_dialect(good, ["Hi <c>", ModelOutput('<c>{"name": "f"}</c>', tools=())], examples=10, mutations=5)
    # Reasoning "H" is written as "<<HmH", in which "Hm" is dropped, so nothing closes it.
    ambiguous = Dialect("ambiguous", reasoning=("<<{text}mH",), drop=("Hm",))
    with pytest.raises(AssertionError, match="round trip"):
        check_dialect(ambiguous, examples=300)


HELLO = run_parser("hermes", "Hello")
CALLED = run_parser("hermes", '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>')


@pytest.mark.parametrize(
    ("law", "reading"),
    [
        (assert_tiles, replace(HELLO, events=HELLO.events[1:])),
        (assert_tiles, replace(HELLO, events=HELLO.events * 2)),
        (assert_tiles, replace(HELLO, events=[Text("content", "Hallo", 0, 5), Finish(None, 5)])),
        (assert_tiles, replace(HELLO, events=[*HELLO.events, Diagnostic("bad_id", "", 6, 6)])),
        (assert_tiles, replace(CALLED, events=[*CALLED.events[:-2], CallEnd(0, "malformed", "x", 47, 59)])),
        (assert_places, replace(CALLED, events=[CallStart(0, "f", "x", 0, 23, 19, 20)])),
        (assert_places, replace(CALLED, events=[CallStart(0, "f", "x", 0, 23, 21, 24)])),
        *(
            (assert_places, replace(CALLED, events=[CALLED.events[0], *CALLED.events[1:-2], end]))
            for end in (
                CallEnd(0, "complete", "", 47, 59, 38, 48),
                CallEnd(0, "complete", "", 47, 59, 37, 46),
                CallEnd(0, "complete", "", 47, 59, 21, 46),
                CallEnd(0, "complete", "", 47, 59, 46, 46),
            )
        ),
        (assert_order, replace(HELLO, events=HELLO.events[:-1])),
        (assert_order, replace(HELLO, events=[*HELLO.events, Finish(None, 5)])),
        (assert_order, replace(CALLED, events=CALLED.events[1:])),
        (assert_order, replace(CALLED, events=[*CALLED.events[:1], *CALLED.events])),
        (assert_order, replace(CALLED, events=[CallStart(1, "f", "x", 0, 5), Finish(None, 5)])),
        (assert_hold_bound, replace(HELLO, feeds=[replace(HELLO.feeds[0], pending=100)])),
        (assert_hold_bound, replace(HELLO, feeds=[replace(HELLO.feeds[0], covered=4)])),
        (
            assert_argument_prefixes,
            replace(CALLED, events=[CallArgs(0, "{", 0, 5), CallEnd(0, "complete", "", 5, 5)]),
        ),
    ],
)
def test_violated_laws_are_detected(law: Callable[[ParseRun], None], reading: ParseRun) -> None:
    for intact in (HELLO, CALLED):
        law(intact)
    with pytest.raises(AssertionError, match=reading.dialect.name):
        law(reading)


def test_chunking_difference_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Parser.feed

    def hasty(parser: Parser, text: str) -> list[Event]:
        return feed(parser, text.replace("<tool_call>", "<Tool_call>"))

    monkeypatch.setattr(Parser, "feed", hasty)
    with pytest.raises(AssertionError, match="chunking") as caught:
        assert_chunking_invariant("hermes", CALLED.case.text)
    assert "chunks:  ['<tool_call', '>{" in str(caught.value), (
        "the report must show a chunking with a single cut"
    )


def test_changed_arguments_are_not_a_prefix() -> None:
    other = run_parser("hermes", CALLED.case.text.replace("1", "2"))
    with pytest.raises(AssertionError, match="not a prefix"):
        assert_argument_prefixes(CALLED, other)


def test_policies_cover_every_choice() -> None:
    for field in Policies.__slots__:
        if field not in ("reasoning_field", "forced_finish_reason"):  # policies of the wire format
            assert len({getattr(policies, field) for policies in POLICIES.values()}) > 1, field
