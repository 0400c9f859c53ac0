"""Command lines that start a server of each engine with the right parsers for a model."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from .engine_parser_table import CAVEATS, DEFECTS, PARSERS, EngineName, LlamaCppSupport, parsers_for


class ServerFlags(NamedTuple):
    """Commands that start a server of one engine."""

    command: str
    """The command with the engine's own parsers."""
    notes: tuple[str, ...] = ()
    """Notes on the engine's own parsers."""
    instead: str = ""
    """The command with unspool's parsers.

    It is empty if the engine's own parsers have no known faults, or if the dialect is not built in.
    """
    because: tuple[str, ...] = ()
    """The known faults of the engine's own parsers."""


class ServerModel(NamedTuple):
    """Properties of a model that determine the command lines."""

    dialect: str
    model: str
    """The model's directory."""
    template: str
    """The chat template."""
    template_file: str
    """The file of the chat template to pass to engines; empty if they use this template by default."""
    has_calls: bool
    """True if the dialect has tool calls."""
    has_reasoning: bool
    """True if the template renders reasoning, opens it in prompts, or has an option for it."""
    weights: str = "MODEL.gguf"
    """The GGUF file, for llama.cpp."""


def server_flags(model: ServerModel) -> dict[EngineName, ServerFlags]:
    """Return the commands that start a server for a model, keyed by engine."""
    parsers = parsers_for(model.dialect, model.template)
    path = shlex.quote(model.model)
    vllm = [f"vllm serve {path}"]
    vllm += [f"--enable-auto-tool-choice --tool-call-parser {parsers.vllm}"] if parsers.vllm else []
    sglang = [f"sglang serve --model-path {path}"]
    sglang += [f"--tool-call-parser {parsers.sglang}"] if parsers.sglang else []
    return {
        "vllm": _server_command("vllm", vllm, parsers.vllm, parsers.vllm_reasoning, model),
        "sglang": _server_command("sglang", sglang, parsers.sglang, parsers.sglang_reasoning, model),
        "llama.cpp": _llama_cpp(parsers.llama_cpp, model),
    }


def _server_command(
    engine: EngineName, parts: list[str], tool: str, reasoning: str, model: ServerModel
) -> ServerFlags:
    notes: list[str] = []
    no_tool_parser = model.has_calls and not tool
    if model.has_reasoning and reasoning and not no_tool_parser:
        parts.append(f"--reasoning-parser {reasoning}")
    if model.template_file:
        parts.append(f"--chat-template {shlex.quote(model.template_file)}")
    if no_tool_parser:
        notes.append(
            "It has no parser for these calls: start it without one, send requests to /v1/completions with "
            "skip_special_tokens=false, and parse the output with unspool"
        )
    elif model.has_reasoning and not reasoning:
        notes.append(
            "It has no parser for this reasoning, so reasoning stays in the content: parse the output "
            "with unspool"
        )
    notes += _caveats(engine, tool, model)
    because = (*notes, *_defects(engine, model))
    instead = _unspool_command(engine, model) if because else ""
    return ServerFlags(" ".join(parts), tuple(notes), instead, because if instead else ())


def _unspool_command(engine: EngineName, model: ServerModel) -> str:
    """Return the command that runs unspool's parsers in the engine; empty if the dialect is not built in."""
    calls, _, reasoning = model.dialect.partition("+")
    if calls not in PARSERS or calls == "response_template" or not model.has_calls:
        return ""
    path = shlex.quote(model.model)
    start = (
        f"vllm serve {path} --enable-auto-tool-choice"
        if engine == "vllm"
        else f"sglang serve --model-path {path}"
    )
    parts = [start, f"--tool-call-parser unspool_{calls}"]
    if model.has_reasoning:
        parts.append(f"--reasoning-parser unspool_{reasoning or calls}")
    if model.template_file:
        parts.append(f"--chat-template {shlex.quote(model.template_file)}")
    return " ".join(parts)


def _defects(engine: EngineName, model: ServerModel) -> Iterator[str]:
    dialect = model.dialect.partition("+")[0]
    for defect in DEFECTS:
        where = defect.where(dialect)
        if defect.engine == engine and where:
            yield defect.text if where == "always" else f"{defect.text} ({where})"


def _llama_cpp(reads: LlamaCppSupport, model: ServerModel) -> ServerFlags:
    # --jinja comes first, because llama-server accepts a custom template only after this flag.
    parts = [f"llama-server -m {shlex.quote(model.weights)} --jinja"]
    notes: list[str] = []
    if model.template_file:
        parts.append(f"--chat-template-file {shlex.quote(model.template_file)}")
    if reads == "none":
        parts.append("--skip-chat-parsing --special")
        notes.append(
            "It does not read these calls: with these flags it sends them as text, which unspool parses"
        )
    elif reads == "untried":
        notes.append("It derives its parser from the template, which was not tested for this family")
    return ServerFlags(" ".join(parts), (*notes, *_caveats("llama.cpp", "", model)))


def _caveats(engine: EngineName, parser: str, model: ServerModel) -> list[str]:
    calls = model.dialect.partition("+")[0]
    return [
        caveat.text
        for caveat in CAVEATS
        if (caveat.engine, caveat.parser) == (engine, parser)
        and caveat.dialect in ("", calls)
        and caveat.marker in model.template
        and (model.has_reasoning or not caveat.reasoning)
    ]
