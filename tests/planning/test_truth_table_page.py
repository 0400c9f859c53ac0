"""The truth table: complete, as documented, and equal to the specification.

``SPECIFIED`` is that specification in our own form, one line per engine parser. ``RULED`` lists where we
decide otherwise, and why; an unneeded ruling fails.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from paths import ROOT
from unspool import Dialect, SpecError, get_dialect
from unspool.dialects import Prompt, RequestFacts, Thinking
from unspool.dialects._registry import built_in_dialects, checkpoint, facts_of, register
from unspool.dialects._validation import check_facts
from unspool.planning import plan
from unspool.planning._truth_table_page import COLUMNS, row, switch, truth_table

PAGE = ROOT / "docs" / "truth-table.md"
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
NAMED = {"type": "function", "function": {"name": "f"}}

# --- completeness of the table


@pytest.mark.parametrize("dialect", built_in_dialects(), ids=lambda dialect: dialect.name)
def test_every_dialect_has_its_own_facts(dialect: Dialect) -> None:
    facts = facts_of(dialect)
    assert facts is dialect.request
    check_facts(dialect, facts)


CHECKPOINTS = [
    (name, dialect.name, thinking)
    for dialect in built_in_dialects()
    for name, thinking in facts_of(dialect).checkpoints
]
NAMES = [*(dialect.name for dialect in built_in_dialects()), *(name for name, _, _ in CHECKPOINTS)]


def test_checkpoint_belongs_to_one_dialect() -> None:
    assert all(checkpoint(name) == (dialect, thinking) for name, dialect, thinking in CHECKPOINTS)
    assert checkpoint("hermes") is None


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_is_filled(name: str) -> None:
    cells = row(name)
    assert len(cells) == len(COLUMNS)
    assert all(cell.strip() for cell in cells)


REQUIRED = [f.name for f in dataclasses.fields(RequestFacts) if f.default is dataclasses.MISSING]


def test_deciding_cells_have_no_default() -> None:
    assert REQUIRED == ["calls_special", "forced", "thinking"]  # eos follows from stop
    required = [f.name for f in dataclasses.fields(Thinking) if f.default is dataclasses.MISSING]
    assert required == ["special", "default", "switches", "seed", "after_tool", "when_off", "strip"]


@pytest.mark.parametrize("missing", REQUIRED)
def test_row_with_a_missing_cell_is_refused(missing: str) -> None:
    facts = facts_of(get_dialect("hermes"))
    cells: dict[str, Any] = {
        field.name: getattr(facts, field.name) for field in dataclasses.fields(facts) if field.name != missing
    }
    with pytest.raises(TypeError, match=missing):
        RequestFacts(**cells)
    cells[missing] = ""
    with pytest.raises(SpecError, match=missing):
        RequestFacts(**cells)


def test_dialect_without_a_row_is_refused() -> None:
    newcomer = Dialect("newcomer", call=("<call>{envelope}</call>",))
    with pytest.raises(SpecError, match=r"declare request='hermes' to share .*request=RequestFacts"):
        register(newcomer)
    with pytest.raises(SpecError, match=r"request='hermse': no dialect .*did you mean hermes"):
        register(replace(newcomer, request="hermse"))


def test_facts_can_be_shared_by_name() -> None:
    call = ("<call>{envelope}</call>",)
    hermes = facts_of(get_dialect("hermes"))
    first = register(Dialect("first", call=call, request="hermes"))
    second = register(Dialect("second", call=call, request="first"))
    assert facts_of(first) is facts_of(second) is hermes
    pair = register(Dialect("pair", call=call, request="llama3_json+hermes"))
    assert facts_of(pair).thinking is hermes.thinking
    assert facts_of(pair).eos == facts_of(get_dialect("llama3_json")).eos
    with pytest.raises(SpecError, match="has no request facts"):
        register(replace(first, request="second"), replace=True)


@pytest.mark.parametrize(
    ("dialect", "wrong"),
    [
        (replace(get_dialect("hermes"), call=()), "write calls_special=None"),
        (replace(get_dialect("hermes"), reasoning=()), "it has no reasoning: .*llama3_json"),
        (replace(get_dialect("glm47"), reasoning=("<thought>{text}</thought>",)), "opens none"),
        (
            replace(get_dialect("harmony"), prompt=Prompt()),
            r"add prompt=Prompt\(ends=\(\.\.\.\), opens_message=True\)",
        ),
    ],
)
def test_row_that_contradicts_its_dialect_is_refused(dialect: Dialect, wrong: str) -> None:
    with pytest.raises(SpecError, match=wrong):
        register(dialect, replace=True)


def test_combination_takes_reasoning_from_the_second() -> None:
    combined = facts_of(get_dialect("llama3_json+minimax_m2"))
    assert combined.calls_special == facts_of(get_dialect("llama3_json")).calls_special
    assert combined.thinking is facts_of(get_dialect("minimax_m2")).thinking


def test_docs_table_matches_the_code() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == truth_table(), "run: python -m unspool.planning._truth_table_page > docs/truth-table.md"


# --- correctness of the table

Kind = Literal["tool", "reasoning", "both"]


@dataclass(frozen=True)
class Specified:
    """What the specification says about one engine parser."""

    name: str
    kind: Kind
    special: bool
    """PRE.1: special tokens must be kept."""
    gate: tuple[dict[str, Any], ...] = ()
    """PRE.2: requests that switch reasoning off."""
    on: dict[str, Any] | None = None
    """PRE.2: the request that switches reasoning on where it is off by default."""
    inside: bool = False
    """PRE.3: the output begins inside reasoning if that is on and no prompt is known."""
    forced: str = ""
    """PRE.4: the preferred mode, then others."""
    eos: tuple[str, ...] = ()
    """PRE.5, as far as names are given."""
    strip: str = ""
    """PRE.6."""


def tool(name: str, special: bool, forced: str, *eos: str) -> Specified:
    return Specified(name, "tool", special, forced=forced, eos=eos)


def both(
    name: str,
    special: bool,
    forced: str,
    *eos: str,
    off: tuple[dict[str, Any], ...] = (),
    on: dict[str, Any] | None = None,
    inside: bool = False,
    strip: str = "",
) -> Specified:
    return Specified(name, "both", special, off, on, inside, forced, eos, strip)


def reasoning(
    name: str,
    special: bool,
    *,
    off: tuple[dict[str, Any], ...] = (),
    on: dict[str, Any] | None = None,
    inside: bool = False,
    strip: str = "",
) -> Specified:
    return Specified(name, "reasoning", special, off, on, inside, strip=strip)


T: dict[str, Any] = {"thinking": False}
E: dict[str, Any] = {"enable_thinking": False}
CHAT: dict[str, Any] = {"thinking_mode": "chat"}
NO_EFFORT: dict[str, Any] = {"reasoning_effort": "none"}
HIGH: dict[str, Any] = {"reasoning_effort": "high"}
DEEPSEEK_EOS = "<｜end▁of▁sentence｜>"
GLM_EOS = ("<|endoftext|>", "<|user|>", "<|observation|>")

SPECIFIED = (
    # Parsers in the original table.
    tool("harmony", True, "native", "<|return|>", "<|call|>"),
    reasoning("gpt_oss", True),
    both("gemma4", True, "json", "<turn|>", "<eos>", "<|tool_response>", off=(T, E)),
    tool("kimi_k2", True, "native", "<|im_end|>", "[EOS]"),
    reasoning("kimi_k2", True, off=(T, E), inside=True),
    reasoning("kimi_k25", True, off=(T, E), inside=True),
    both("kimi_k3", True, "native", "<|end_of_msg|>", off=(T, E), inside=True),
    reasoning("kimi", False),
    tool("deepseek_v3", False, "native json", DEEPSEEK_EOS),
    reasoning("deepseek_v3", False, off=({},), on={"thinking": True}),
    both("deepseek_v3_1", False, "native json", DEEPSEEK_EOS, off=({},), on={"thinking_mode": "thinking"}),
    both("deepseek_v3_2", True, "native json", DEEPSEEK_EOS, off=(T, E, CHAT), inside=True),
    both("deepseek_v4", False, "native json", DEEPSEEK_EOS, off=(T, E, CHAT, NO_EFFORT), inside=True),
    reasoning("deepseek_r1", False, off=(T, CHAT), inside=True),
    tool("nemotron_deci", False, "json", "<|eot_id|>", "<SPECIAL_12>"),
    reasoning("nemotron_deci", False),
    reasoning("nemotron_nano", False, off=(T, E), inside=True, strip="<think>"),
    reasoning("nemotron3", False, off=(T, E), inside=True, strip="<think>"),
    both("nemotron_v3", False, "json", "<|im_end|>", off=(T, E), inside=True, strip="<think>"),
    tool("llama3_json", True, "native json", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
    tool("hermes", True, "native json", "<|im_end|>"),
    tool("qwen3_coder", False, "native json", "<|im_end|>", "<|endoftext|>"),
    tool("pythonic", False, "json", "<|eot|>", "<|eom|>"),
    tool("mistral_v11", True, "native json", "</s>"),
    tool("mistral_v3", True, "json", "</s>"),
    reasoning("mistral", True, off=({}, NO_EFFORT), on=HIGH),
    tool("phi4", False, "json", "<|end|>", "<|endoftext|>"),
    both("minimax_m2", False, "native json", "[e~[", off=(T, E, CHAT), inside=True),
    reasoning("minimax_append_think", False),
    tool("glm47", False, "native json", *GLM_EOS),
    both("glm45", False, "json", *GLM_EOS, off=(T, E)),
    tool("jamba", True, "json", "<|endoftext|>", "<|eom|>"),
    reasoning("qwen", False, off=(E,)),
    reasoning("qwen3", False, off=(E,)),
    reasoning("qwen3_thinking", False, inside=True),
    # Other families that peers support.
    both(
        "minimax_m3",
        True,
        "json",
        "[e~[",
        off=(T, E, {"thinking_mode": "disabled"}),
        strip="</mm:think>",
    ),
    tool("llama4_pythonic", False, "json", "<|eot|>", "<|eom|>"),
    tool("llama4_json", False, "json", "<|eot|>", "<|eom|>"),
    both("olmo3", False, "json"),
    tool("lfm2", True, "json", "<|im_end|>"),
    tool("functiongemma", True, "json", "<end_of_turn>", "<start_function_response>"),
    both("inkling", True, "native", "<|content_model_end_sampling|>", off=(NO_EFFORT,)),
    both("muse_glimmer", True, "native", "<|eot|>"),
    both("granite", False, "json", "<|end_of_text|>"),
    tool("granite4", False, "json", "<|end_of_text|>"),
    tool("granite_20b_fc", False, "json"),
    both("hunyuan_a13b", False, "json", "<|eos|>", off=(E,)),
    both(
        "hy_v3",
        False,
        "json",
        off=({}, NO_EFFORT, {"reasoning_effort": "no_think"}),
        on=HIGH,
        inside=True,
    ),
    both("ernie45", False, "json", "</s>", off=(E,), inside=True),
    both("seed_oss", False, "json", "<seed:eos>", off=({"thinking_budget": 0},)),
    both("step3", True, "json", inside=True),
    both("step3p5", False, "json", "<|im_end|>", inside=True),
    reasoning("holo2", False, off=(T, E), inside=True),
    both("poolside_v1", False, "native json", "</assistant>", off=({},), on={"enable_thinking": True}),
    both(
        "cohere_command4",
        True,
        "native json",
        "<|END_OF_TURN_TOKEN|>",
        off=({"reasoning": False}, NO_EFFORT),
        inside=True,
    ),
    both("apertus", True, "json", "<|assistant_end|>"),
    tool("internlm", True, "json", "<|im_end|>"),
    reasoning("interns1", False, off=(E,)),
    tool("xlam", False, "json"),
    tool("longcat", False, "json"),
    tool("dots", False, "native"),
    tool("gigachat3", True, "json"),
    both("ling3", False, "native", off=(T, E), inside=True),
    both("mimo", False, "json", off=(E,)),
    tool("minicpm5", True, "json"),
    reasoning("minicpm5", True, off=(E,)),
    tool("trinity", False, "json"),
    tool("qwen25", True, "native json"),
    both("deepseek_v41", True, "native json", DEEPSEEK_EOS, off=(T, E, NO_EFFORT), inside=True),
    both(
        "gigachat35",
        True,
        "json",
        "<|message_sep|>",
        "</s>",
        off=({}, {"reasoning": False}),
        on={"reasoning": True},
    ),
    both("iquest_q1", True, "json native", "<|iquest_end|>", off=(T, E), inside=True),
    tool("spark25", False, "native"),
    reasoning("spark25", False, off=(E,)),
    both("hy_v4:opensource", False, "native", off=(NO_EFFORT, {"reasoning_effort": "no_think"}), inside=True),
    both("beam", True, "native", "<|return|>", "<|call|>"),
    both("granite42", False, "json", "<|end_of_text|>", "<|im_end|>", off=(E,), inside=True),
    reasoning("granite_thinking_parser", False, off=(E,), inside=True),
    reasoning("minicpmv", False, off=(E,)),
    tool("nanbeige", False, "native json"),
    both("glm53", False, "native json", *GLM_EOS, inside=True),
    tool("sarashina", False, "json"),
    tool("functionary_v32", False, "native", "<|eot_id|>", "<|eom_id|>"),
    reasoning("basic", False),
    reasoning("identity", False),
)

SAFE = "its own page, or another engine, says to keep them; to keep one too many does no harm"
RULED: dict[tuple[str, Kind, str], tuple[object, str]] = {
    ("kimi_k2", "reasoning", "inside"): (
        False,
        "templates of K2 and K2-Thinking do not open reasoning; kimi_k25 is the row that does",
    ),
    ("granite4", "tool", "special"): (True, SAFE),
    ("longcat", "tool", "special"): (True, SAFE),
    ("trinity", "tool", "special"): (True, SAFE),
    ("poolside_v1", "both", "special"): (True, SAFE),
}


def ruled(spec: Specified, column: str, specified: object) -> object:
    """Return our ruling where we decide otherwise."""
    return RULED.get((spec.name, spec.kind, column), (specified,))[0]


def request(spec: Specified, **more: Any) -> dict[str, Any]:
    """Return a request that uses this parser."""
    tools = {"tools": TOOLS} if spec.kind != "reasoning" else {}
    return {**tools, "chat_template_kwargs": spec.on or {}, **more}


def on_request(spec: Specified) -> dict[str, Any]:
    """Return the request with reasoning switched on."""
    return {**request(spec), **(switch(plan(spec.name, {}).facts.thinking, on=True) or {})}


def each(*kinds: Kind) -> list[Any]:
    return [pytest.param(spec, id=f"{spec.name}-{spec.kind}") for spec in SPECIFIED if spec.kind in kinds]


@pytest.mark.parametrize("spec", each("tool", "reasoning", "both"))
def test_special_tokens_match_the_specification(spec: Specified) -> None:
    decided = plan(spec.name, request(spec))
    assert decided.skip_special_tokens is not ruled(spec, "special", spec.special)
    assert decided.spaces_between_special_tokens is decided.skip_special_tokens


@pytest.mark.parametrize("spec", each("reasoning", "both"))
def test_reasoning_switch_matches_the_specification(spec: Specified) -> None:
    thinking = plan(spec.name, {}).facts.thinking
    assert plan(spec.name, request(spec)).reasoning is (thinking.default is not None and not is_soft(spec))
    for kwargs in spec.gate:
        assert not plan(spec.name, {"chat_template_kwargs": kwargs}).reasoning, kwargs
    if not spec.gate and not is_soft(spec):
        assert thinking.off_when() == "never" or thinking.default == "on"


def is_soft(spec: Specified) -> bool:
    """Return whether reasoning is off by default but its markers are parsed all the same."""
    thinking = plan(spec.name, {}).facts.thinking
    return not spec.gate and thinking.default == "off" and thinking.when_off == "read"


@pytest.mark.parametrize("spec", each("reasoning", "both"))
def test_start_channel_matches_the_specification(spec: Specified) -> None:
    inside = ruled(spec, "inside", spec.inside)
    decided = plan(spec.name, on_request(spec) if inside else {})
    if decided.dialect.prompt.start:
        assert decided.start == "header"
        assert not inside
    else:
        assert (decided.start == "reasoning") is inside


@pytest.mark.parametrize("spec", each("tool", "both"))
def test_forced_calls_match_the_specification(spec: Specified) -> None:
    best, *others = spec.forced.split()
    for choice in ("required", NAMED):
        decided = plan(spec.name, {"tools": TOOLS, "tool_choice": choice})
        assert decided.constraint.kind == {"native": "native", "json": "guided_json"}[best]
        assert decided.forced
        only_json = plan(spec.name, {"tools": TOOLS, "tool_choice": choice}, constraints=("json",))
        if best == "json" or "json" in others:
            assert only_json.constraint.kind == "guided_json"
            assert only_json.constraint.json_schema()
        else:
            assert only_json.constraint.kind == "none"
            assert any("nothing enforces it" in warning for warning in only_json.warnings)


@pytest.mark.parametrize("spec", each("tool", "both"))
def test_end_of_turn_matches_the_specification(spec: Specified) -> None:
    assert set(spec.eos) <= set(plan(spec.name, {}).eos)


@pytest.mark.parametrize("spec", each("reasoning", "both"))
def test_stripped_markers_match_the_specification(spec: Specified) -> None:
    assert plan(spec.name, on_request(spec)).strip == ""
    off = switch(plan(spec.name, {}).facts.thinking, on=False)
    if off is not None:
        assert plan(spec.name, off).strip == spec.strip


@pytest.mark.parametrize("key", RULED, ids=lambda key: "-".join(key) if isinstance(key, tuple) else None)
def test_every_ruling_is_needed(key: tuple[str, Kind, str]) -> None:
    name, kind, column = key
    (spec,) = [spec for spec in SPECIFIED if (spec.name, spec.kind) == (name, kind)]
    assert getattr(spec, column) != RULED[key][0]
