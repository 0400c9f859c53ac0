"""Other parsers, each in an environment of its own, held against the same suite.

``make peers`` builds the environments below ``.peers``.  A program of this folder
runs in one of them, where unspool is not installed: it imports nothing of ours
but this folder, and speaks the protocol of ``conformance.stdio``.  What it must
know of our dialects it reads from a file, which :func:`command` writes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
_CONTROL: Final = re.compile(
    r'<\|[^<>|\s]*\|>|<｜[^<>｜\s]*｜>|\[/?[A-Z_]+\]|<\|[a-z_"]+\|?>|<[a-z_]+\|>|｜[A-Z]+｜'
    r"|</?(?:think|tool_calls?|tool_sep|arg_key|arg_value)(?::\w+)?>|</?(?:mm|seed):think>"
    r"|</?(?:minimax|seed):tool_call>|</?ifm\|\w+>|</?longcat_\w+>|<(?:start|end)_function_call>|<escape>"
)
"""What is one token in the vocabulary of its model: what looks like a control token, and tags that
vocabularies are known to have."""
_SUFFIX: Final = re.compile(r":\w+(?=｜?>)")
"""What every marker of some checkpoints ends with."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A parser of others, and where it lives."""

    name: str
    """Its name on the command line, of its environment and of its program."""
    package: str
    """The package that it is part of."""
    about: str
    """What of it is run."""
    vocabulary: bool = False
    """Whether it needs what ``make tokenizers`` fetches."""


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


def root() -> Path:
    """The folder of the environments: ``UNSPOOL_PEERS``, or ``.peers`` of this checkout."""
    given = os.environ.get("UNSPOOL_PEERS")
    return Path(given) if given else _HERE.parents[3] / ".peers"


def _vocabularies() -> Path:
    given = os.environ.get("UNSPOOL_TOKENIZERS")
    return (Path(given) if given else _HERE.parents[3] / ".tokenizers").resolve()


def python(name: str) -> Path:
    """The interpreter of a peer's environment, which need not exist."""
    return root() / name / "bin" / "python"


def available() -> list[str]:
    """The peers whose environments are there."""
    return [name for name in PEERS if python(name).exists()]


def command(name: str) -> list[str]:
    """The command that runs a peer's program.

    :raises UsageError: if there is no such peer, or no environment for it.
    """
    from ...errors import UsageError

    if name not in PEERS:
        raise UsageError(f"no peer is called {name!r}: choose one of {', '.join(PEERS)}")
    interpreter = python(name)
    if not interpreter.exists():
        raise UsageError(f"the environment of {name} is missing: make peer-{name}")
    if PEERS[name].vocabulary and not (_vocabularies() / "node_modules").exists():
        raise UsageError(f"{name} needs a vocabulary: make tokenizers")
    facts = root() / "dialects.json"
    # Programs may be started side by side: none may see half a file.
    draft = facts.with_suffix(f".{os.getpid()}")
    written = {"vocabularies": str(_vocabularies()), "dialects": dialects()}
    draft.write_text(json.dumps(written, ensure_ascii=False, indent=1), encoding="utf-8")
    draft.replace(facts)
    return [str(interpreter), str(_HERE), name, str(facts)]


def dialects() -> dict[str, object]:
    """What a peer's program must know of our dialects to put a case as its server would."""
    from ..._core.token_ids.reader import literals
    from ...dialects._registry import facts_of, list_dialects
    from ...dialects._request_facts import MODEL

    found: dict[str, object] = {}
    for dialect in list_dialects():
        facts = facts_of(dialect)
        wrappers = [template.lstrip("^").partition("{text}") for template in dialect.reasoning]
        marks = [mark for literal in literals(dialect) for mark in _CONTROL.findall(literal)]
        found[dialect.name] = {
            "openers": of_one([re.split(r"\{\w+\}", opener)[0].strip() for opener, _, _ in wrappers]),
            "closers": of_one([closer.strip() for _, _, closer in wrappers]),
            "seed": facts.thinking.seed if facts.thinking.inside else "",
            "always": facts.thinking.default == "always",
            "prompt": next((prompt for prompt in facts.prompts if prompt != "any"), ""),
            "stops": sorted(of_one({*dialect.stop, *(eos for eos in facts.eos if eos != MODEL)})),
            "controls": sorted(set(of_one(marks))),
        }
    return found


def of_one(marks: Collection[str]) -> list[str]:
    """Those of one checkpoint, where a dialect has the markers of several, told apart by a suffix.

    A vocabulary that has them all is that of no model, and parsers that look for the suffix in it
    find any of them.

    >>> of_one(["<think>", "<think:opensource>", "<seed:think>"])
    ['<think>', '<seed:think>']
    """
    known = set(marks)
    return [mark for mark in marks if (plain := _SUFFIX.sub("", mark)) == mark or plain not in known]
