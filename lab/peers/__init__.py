"""Peers: the parsers of other engines, each in its own environment, for comparison in the conformance suite.

Each peer has a program that runs in its environment. unspool is not installed there, so the program imports
only modules of ``lab``, and communicates with the protocol of ``unspool.conformance.external_program``. It
reads the facts about unspool's dialects from a file that :func:`command` writes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from lab import ROOT, environments

VOCABULARIES: Final = ROOT / ".tokenizers"
_CONTROL: Final = re.compile(
    r'<\|[^<>|\s]*\|>|<｜[^<>｜\s]*｜>|\[/?[A-Z_]+\]|<\|[a-z_"]+\|?>|<[a-z_]+\|>|｜[A-Z]+｜'
    r"|</?(?:think|tool_calls?|tool_sep|arg_key|arg_value)(?::\w+)?>|</?(?:mm|seed):think>"
    r"|</?(?:minimax|seed):tool_call>|</?ifm\|\w+>|</?longcat_\w+>|<(?:start|end)_function_call>|<escape>"
)
"""Pattern for markers that are a single token in the model's vocabulary: control tokens and known tags."""
_SUFFIX: Final = re.compile(r":\w+(?=｜?>)")
"""Pattern for the suffix that some checkpoints add to every marker."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Parser of another engine, with its environment."""

    name: str
    """Name of the peer, of its environment and of its program."""
    package: str
    """Package that contains the parser."""
    about: str
    """Description of the code that the program runs."""
    vocabulary: bool = False
    """True if the program needs the files from ``make tokenizers``."""


PEERS: Final = {
    peer.name: peer
    for peer in (
        Peer(
            "vllm",
            "vllm",
            "tool and reasoning parsers, called as its chat server calls them",
            vocabulary=True,
        ),
        Peer("sglang", "sglang", "detectors, called by its chat server's own code", vocabulary=True),
        Peer("transformers", "transformers", "ResponseParser with a response template for each dialect"),
        Peer("harmony", "openai-harmony", "StreamableParser, for gpt-oss"),
    )
}


def command(name: str) -> list[str]:
    """Return the command that runs a peer's program, and write the file with facts.

    :raises UsageError: if the peer is unknown or its environment is missing.
    """
    from unspool import UsageError

    if name not in PEERS:
        raise UsageError(f"unknown peer {name!r}; choose one of {', '.join(PEERS)}")
    interpreter = environments.python(name)
    if not interpreter.exists():
        raise UsageError(f"the environment of {name} is missing; run python -m lab.environments {name}")
    if PEERS[name].vocabulary and not (VOCABULARIES / "node_modules").exists():
        raise UsageError(f"{name} needs a vocabulary; run make tokenizers")
    facts = ROOT / ".peers" / "dialects.json"
    # Several programs may start at the same time, and must not read an incomplete file.
    temporary = facts.with_suffix(f".{os.getpid()}")
    contents = {"vocabularies": str(VOCABULARIES.resolve()), "dialects": dialects()}
    temporary.write_text(json.dumps(contents, ensure_ascii=False, indent=1), encoding="utf-8")
    temporary.replace(facts)
    return [str(interpreter), str(ROOT / "lab" / "peers" / "program.py"), name, str(facts)]


def dialects() -> dict[str, object]:
    """Return the facts about unspool's dialects with which a peer's program builds requests."""
    from unspool.dialects._registry import end_tokens, facts_of, list_dialects
    from unspool.dialects.list_templates_and_markers import dialect_texts
    from unspool.dialects.parse_templates import text_around

    facts_by_dialect: dict[str, object] = {}
    for dialect in list_dialects():
        facts = facts_of(dialect)
        wrappers = [text_around(template, "text") for template in dialect.reasoning]
        marks = [mark for literal in dialect_texts(dialect) for mark in _CONTROL.findall(literal)]
        facts_by_dialect[dialect.name] = {
            "openers": of_one_checkpoint([re.split(r"\{\w+\}", opener)[0].strip() for opener, _ in wrappers]),
            "closers": of_one_checkpoint([closer.strip() for _, closer in wrappers]),
            "seed": facts.thinking.seed if facts.thinking.inside else "",
            "always": facts.thinking.default == "always",
            "prompt": next(iter(dialect.prompt.ends), ""),
            "stops": sorted(of_one_checkpoint({*dialect.stop, *end_tokens(dialect, facts)})),
            "controls": sorted(set(of_one_checkpoint(marks))),
        }
    return facts_by_dialect


def of_one_checkpoint(marks: Collection[str]) -> list[str]:
    """Select the markers of a single checkpoint, if a dialect has checkpoints with different suffixes.

    A model's vocabulary contains only the markers of one checkpoint. A parser that looks for the suffix in
    the vocabulary must not find the suffix of another checkpoint.

    >>> of_one_checkpoint(["<think>", "<think:opensource>", "<seed:think>"])
    ['<think>', '<seed:think>']
    """
    unsuffixed = set(marks)
    return [mark for mark in marks if (plain := _SUFFIX.sub("", mark)) == mark or plain not in unsuffixed]
