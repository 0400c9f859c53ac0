"""Invalid bodies are refused with the name of the field on every API."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("msgspec")

from unspool.gateway.apis.ollama.request import read_ollama_chat_request
from unspool.gateway.http.failure import Failure

ASK = [{"role": "user", "content": "?"}]


@pytest.mark.parametrize("function", [{}, {"name": ""}, {"name": 3}, {"name": None}], ids=str)
def test_tool_without_a_name_is_refused(function: dict[str, Any]) -> None:
    tools = [{"type": "function", "function": function}]
    with pytest.raises(Failure, match="required") as caught:
        read_ollama_chat_request({"messages": ASK, "tools": tools})
    assert caught.value.param == "tools[0].function.name"


@pytest.mark.parametrize(
    ("name", "value"), [("stop", 1), ("stop", [1]), ("stop", {}), ("num_predict", "many")], ids=str
)
def test_option_of_another_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(Failure, match="is not") as caught:
        read_ollama_chat_request({"messages": ASK, "options": {name: value}})
    assert caught.value.param == f"options.{name}"
