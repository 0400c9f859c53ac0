"""Dialects as JSON: all of them validate and round-trip."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from unspool import Dialect, SpecError, UsageError, list_dialects
from unspool.dialects import dialect_from_json, dialect_schema, dialect_to_json

SCHEMA = dialect_schema()
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
    assert set(SCHEMA["$defs"]["Dialect"]["properties"]) == {each.name for each in fields(Dialect)}
    inner = {type(getattr(Dialect("x"), each.name)) for each in fields(Dialect)}
    assert {cls.__name__ for cls in inner if is_dataclass(cls)} <= set(SCHEMA["$defs"])


def test_missing_fields_have_defaults() -> None:
    assert dialect_from_json({"name": "mine"}) == Dialect("mine")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "missing field name"),
        ({"name": "mine", "cal": []}, "unknown field cal"),
        ({"name": 3}, "expected string, got 3"),
        ({"name": "mine", "call": "<call>"}, "dialect.call: expected tuple"),
        ({"name": "mine", "args": "yaml"}, "dialect.args"),
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
