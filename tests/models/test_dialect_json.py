"""Dialects as JSON: all of them validate and round-trip."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from unspool import Dialect, SpecError, UsageError, list_dialects
from unspool.dialects import Section, dialect_from_json, dialect_schema, dialect_to_json

SCHEMA = dialect_schema()
FRAME: dict[str, Any] = {"open": ["<s>"], "sep": "<m>", "ends": ["<e>"], "fields": [" to={to}"]}
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("dialect", list_dialects(), ids=lambda dialect: dialect.name)
def test_dialect_round_trips(dialect: Dialect) -> None:
    written = json.loads(json.dumps(dialect_to_json(dialect)))
    VALIDATOR.validate([written])
    assert dialect_from_json(written) == dialect


def test_schema_is_valid_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_field_of_every_class_is_described() -> None:
    """A field added to a declaration is in the schema, with its docstring."""
    for name, defined in SCHEMA["$defs"].items():
        assert defined["description"], name
        for field, schema in defined["properties"].items():
            assert schema["description"], f"{name}.{field}"
    names = {each.name for each in fields(Dialect)}
    assert set(SCHEMA["$defs"]["Dialect"]["properties"]) == {*names, "version"}
    inner = {type(getattr(Dialect("x"), each.name)) for each in fields(Dialect)}
    assert {cls.__name__ for cls in inner if is_dataclass(cls)} <= set(SCHEMA["$defs"])


def test_exported_dialect_has_a_version() -> None:
    exported = dialect_to_json(Dialect("mine"))
    assert exported["version"] == 1
    assert dialect_from_json(exported) == Dialect("mine")
    assert "version" not in exported["family"]


def test_templates_with_places_are_objects() -> None:
    dialect = Dialect(
        "mine", section=(Section("[{calls}]", only_at_start=True), "{calls}"), call=("<c>{envelope}</c>",)
    )
    written = dialect_to_json(dialect)["section"]
    assert written == [
        {"text": "[{calls}]", "only_at_start": True, "declared_only": False, "ends_reasoning": False},
        "{calls}",
    ]


def test_missing_fields_have_defaults() -> None:
    assert dialect_from_json({"name": "mine"}) == Dialect("mine")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "missing field name"),
        ({"name": "mine", "cal": []}, "unknown field cal"),
        ({"name": 3}, "expected string, got 3"),
        ({"name": "mine", "call": "<call>"}, "dialect.call: expected an array, got '<call>'"),
        ({"name": "mine", "args": "yaml"}, "dialect.args: expected one of json, python, loose, bare"),
        ({"name": "mine", "version": 2}, "dialect.version: expected 1, got 2"),
        ({"name": "mine", "version": True}, "dialect.version: expected 1, got True"),
        ({"name": "mine", "section": [{"text": "{calls}", "anchored": True}]}, "unknown field anchored"),
        ({"name": "mine", "section": [5]}, r"dialect.section\[0\]: expected string or an object, got 5"),
        (
            {"name": "mine", "frame": {**FRAME, "routes": [{"when": {"to": 5}, "into": "content"}]}},
            r"routes\[0\].when: expected an object",
        ),
        ({"name": "mine", "keep_whitespace": 1}, "expected boolean"),
        ({"name": "mine", "family": "Qwen"}, "dialect.family: expected an object"),
        (
            {"name": "mine", "family": {"variants": [["a"]]}},
            r"dialect.family.variants\[0\]: expected 2 items",
        ),
        ({"name": "mine", "frame": 3}, "dialect.frame: expected"),
        ({"name": "mine", "id_format": {"pattern": "{random}", "length": True}}, "expected integer"),
    ],
)
def test_invalid_dialect_names_the_place(value: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dialect_from_json(value)
    assert not VALIDATOR.is_valid([value]), "the schema must agree"


def test_declaration_is_validated() -> None:
    with pytest.raises(SpecError):
        dialect_from_json({"name": "mine", "call": ["<call>{nonsense}</call>"]})
