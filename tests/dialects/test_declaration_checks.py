"""Checks of declarations: every mistake is refused where it is made, with its place and what to write."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from unspool import Dialect, SpecError, register
from unspool.dialects import (
    Envelope,
    Family,
    Frame,
    Habits,
    IdFormat,
    Names,
    Opener,
    Prompt,
    RequestFacts,
    Route,
    Section,
    Thinking,
    Values,
    Wrapper,
    Writing,
)
from unspool.dialects._check_field_types import check_fields, find_fault

CALL = ("<c>{name}{args}</c>",)
PARAMS: dict[str, Any] = {"call": ("<c {name}>{params}</c>",), "param": ("<p {key}>{value}</p>",)}
FRAME: dict[str, Any] = {"open": ("<|s|>",), "sep": "<|m|>", "ends": ("<|e|>",), "fields": (" to={to}",)}

REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    # mistake: the fields, the place in the message, and what to write
    "a bare quote that is empty": (
        {"call": CALL, "args": "bare", "values": Values(quote="")},
        "values.quote=''",
        "write the text that delimits strings",
    ),
    "two values in a parameter": (
        {**PARAMS, "param": ("<p {key}>{value}</p>", "<p {key}>{value}|{value}</p>")},
        "param[1]=",
        "{value} exactly once",
    ),
    "an unknown member of an envelope": (
        {"call": ("<c>{envelope}</c>",), "envelope": Envelope(order=("name", "foo"))},  # type: ignore[arg-type]
        "envelope.order[1]='foo'",
        "choose one of name, args, id",
    ),
    "an envelope without arguments": (
        {"call": ("<c>{envelope}</c>",), "envelope": Envelope(order=("name",))},
        "envelope.order",
        "'name' and 'args' once each",
    ),
    "a key with two meanings": (
        {"call": ("<c>{envelope}</c>",), "envelope": Envelope(name_keys=("f",), args_keys=("a", "f"))},
        "'f' twice",
        "one meaning",
    ),
    "a word in place of a boolean": (
        {"call": CALL, "keep_whitespace": "no"},
        "keep_whitespace='no'",
        "write True or False",
    ),
    "a name in place of a tuple of names": (
        {"call": CALL, "family": Family(model_names="Foo")},  # type: ignore[arg-type]
        "family.model_names='Foo'",
        "a tuple of one needs a comma",
    ),
    "a dialect in place of a tuple": (
        {"call": CALL, "also_accepts": Dialect("other", call=CALL)},
        "also_accepts=Dialect('other'",
        "a tuple of Dialect(...)",
    ),
    "a route in place of a tuple": (
        {"frame": Frame(**FRAME, routes=Route({}, "content"))},  # type: ignore[arg-type]
        "frame.routes=Route(",
        "a tuple of Route(...)",
    ),
    "a dictionary in place of a frame": ({"call": CALL, "frame": {}}, "frame={}", "write Frame(...) or None"),
    "a list of templates": ({"call": [*CALL]}, "call=['<c>", "it must be a tuple of strings"),
    "a number among the sections": (
        {"call": CALL, "section": ("{calls}", 5)},
        "section[1]=5",
        "write a string or Section(...)",
    ),
    "a wrong flag of a section": (
        {"call": CALL, "section": (Section("<s>{calls}</s>", only_at_start="yes"),)},  # type: ignore[arg-type]
        "section[0].only_at_start='yes'",
        "write True or False",
    ),
    "a section that ends reasoning without a marker": (
        {"call": CALL, "section": (Section("{calls}", ends_reasoning=True),)},
        "section[0]=Section(",
        "needs text before {calls}",
    ),
    "a wrapper that begins with a placeholder": (
        {"call": CALL, "content": ("<a>{text}</a>", "{_}<a>{text}</a>")},
        "content[1]='{_}<a>",
        "a marker before it, which begins with text",
    ),
    "a wrapper around content": (
        {"call": CALL, "content": (Wrapper("<a>{text}</a>"),)},
        "content[0]=Wrapper(",
        "write a string",
    ),
    "a wrong variant": (
        {"call": CALL, "family": Family(variants=(("<x>",),))},  # type: ignore[arg-type]
        "family.variants[0]",
        "a tuple of 2 values: a string, a string",
    ),
    "an opener without text": (
        {"frame": Frame(**{**FRAME, "open": (Opener(""),)}, routes=(Route({}, "content"),))},
        "frame.open",
        "the markers that begin a header",
    ),
    "a header field without text": (
        {"frame": Frame(**{**FRAME, "fields": ("{to}",)}, routes=(Route({}, "content"),))},
        "frame.fields[0]='{to}'",
        "' to={to}'",
    ),
    "a route that compares an unknown field": (
        {"frame": Frame(**FRAME, routes=(Route({}, "content"), Route({"channel": "x"}, "drop")))},
        "frame.routes[1].when",
        "frame.fields are to",
    ),
    "a route into nothing": (
        {"frame": Frame(**FRAME, routes=(Route({}, "thoughts"),))},  # type: ignore[arg-type]
        "frame.routes[0].into='thoughts'",
        "choose one of reasoning, content, drop",
    ),
    "a route with a number": (
        {"frame": Frame(**FRAME, routes=(Route({"to": 5}, "content"),))},  # type: ignore[dict-item]
        "frame.routes[0].when['to']=5",
        "write a string",
    ),
    "a newline in front of a section": (
        {"call": CALL, "section": ("\n<s>{calls}</s>",)},
        "section[0]=",
        "writing=Writing(before_calls='\\n')",
    ),
    "text in front of calls": (
        {"call": CALL, "writing": Writing(before_calls="Calls:\n")},
        "writing.before_calls='Calls:",
        "write newlines only",
    ),
    "dropped text among the markers": (
        {"call": CALL, "drop": ("<d>", "<r>{text}</r>")},
        "drop[1]=",
        "Habits(drop_text=(",
    ),
    "repeated calls among the markers": (
        {"call": CALL, "drop": ("{calls}</r>",)},
        "drop[0]=",
        "Habits(repeated_calls=(",
    ),
    "repeated calls without a marker": (
        {"call": CALL, "habits": Habits(repeated_calls=("<r>{calls}",))},
        "habits.repeated_calls[0]=",
        "needs a marker after it",
    ),
    "facts in place of a name": ({"call": CALL, "request": Thinking}, "request=", "request='hermes'"),
}


@pytest.mark.parametrize(("declaration", "place", "write"), REFUSED.values(), ids=list(REFUSED))
def test_mistake_is_refused_with_its_place(declaration: dict[str, Any], place: str, write: str) -> None:
    with pytest.raises(SpecError) as caught:
        Dialect("mine", **declaration)
    message = str(caught.value)
    assert message.startswith("dialect 'mine': ")
    assert place in message
    assert write in message


def test_name_with_a_plus_is_refused_by_register() -> None:
    with pytest.raises(SpecError, match=r"'a\+b'.*choose another name"):
        register(Dialect("a+b", call=CALL, request="hermes"))


def test_wrong_request_facts_name_their_field() -> None:
    facts: dict[str, Any] = {"calls_special": True, "forced": ("native",), "eos": ()}
    thinking = Dialect("x").request
    assert thinking is None
    with pytest.raises(SpecError, match=r"RequestFacts, thinking=None: write Thinking\(\.\.\.\)"):
        RequestFacts(**facts, thinking=None)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"IdFormat, length='9': write an integer"):
        IdFormat("{random}", length="9")  # type: ignore[arg-type]


CLASSES = (
    *(Dialect, Envelope, Family, Frame, Habits, Names, Opener, Prompt, Route, Section, Values),
    *(Wrapper, Writing),
)
SAMPLES = (
    Dialect("x", call=CALL, frame=Frame(**FRAME, routes=(Route({"to": "me"}, "content"),))),
    *(
        Envelope(),
        Family(),
        Habits(),
        Writing(),
        Names(),
        Opener("<o>"),
        Prompt(),
        Section("{calls}"),
        Values(),
    ),
    *(Wrapper("<t>{text}</t>"), Route({}, "content"), Frame(**FRAME, routes=(Route({}, "content"),))),
)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_every_field_is_checked_against_its_annotation(sample: Any) -> None:
    """Each field of each class refuses a value of a type that no field has."""
    assert is_dataclass(sample)
    assert find_fault(sample) is None
    for field in fields(sample):
        wrong = object.__new__(type(sample))
        for each in fields(sample):
            object.__setattr__(wrong, each.name, getattr(sample, each.name))
        object.__setattr__(wrong, field.name, 1j)
        with pytest.raises(
            SpecError, match=rf"{type(sample).__name__}, {field.name}=1j: .*(write|it must be|choose)"
        ):
            check_fields(wrong)


def test_samples_cover_all_classes() -> None:
    assert {type(sample) for sample in SAMPLES} == set(CLASSES)
