"""What a source is: whatever tells what a model is told by, and how it ends its turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

SourceKind: TypeAlias = Literal["text", "file", "folder", "gguf", "hub", "ollama", "server"]
EngineName: TypeAlias = Literal["vllm", "sglang", "llamacpp", "ollama", "openai"]
"""Engines that a server may be; the last one is none that is known."""

_TOKENS: Final = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token")


class Vocabulary:
    """The tokens that are matched as a whole.

    Enough of a tokenizer to plan with, and it needs no package to be installed.
    """

    def __init__(self, origin: str, tokens: Mapping[int, str], special: Iterable[int]) -> None:
        self.origin = origin
        self._tokens = tokens
        self._special = frozenset(special)

    def token_bytes(self, id: int) -> bytes:
        """Ordinary tokens are not known."""
        raise KeyError(id)

    def special_tokens(self) -> Mapping[int, str]:
        return self._tokens

    def skipped_tokens(self) -> Mapping[int, str]:
        """What ``skip_special_tokens`` removes."""
        return {id: token for id, token in self._tokens.items() if id in self._special}


@dataclass(frozen=True, slots=True)
class Source:
    """What is known of a model, and from where."""

    template: str
    """The chat template; empty: none was found."""
    origin: str
    """Where it was found, for people."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Special tokens that the template is given."""
    config: Mapping[str, object] = field(default_factory=dict)
    """``tokenizer_config.json``."""
    model_type: str = ""
    """``model_type`` of ``config.json``, or the architecture that a GGUF names."""
    directory: Path | None = None
    """The directory that holds it all."""
    file: Path | None = None
    """The file that the template came from."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Other templates that were found, by where."""
    kind: SourceKind = "text"
    """What was given."""
    name: str = ""
    """What the model is called there."""
    vocabulary: Vocabulary | None = None
    """The tokens that are matched as a whole, where the source itself has them."""
    end_ids: tuple[int, ...] | None = None
    """Which tokens end generation; None: nothing says."""
    context_length: int | None = None
    """How many tokens the model takes."""
    cache_bytes: int | None = None
    """How much memory a token of context takes, in sixteen bits, by the header of a GGUF."""
    weights: Path | None = None
    """Its weights, where they are a GGUF file."""
    go_template: str = ""
    """Ollama's template, in the language of Go."""
    families: tuple[str, ...] = ()
    """Families of models that it is said to be of."""
    parser: str = ""
    """The parser of calls that its engine was told to use."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """What else is set for it, as Ollama calls it: ``stop``, ``num_ctx``."""
    url: str = ""
    """The server that runs it ..."""
    engine: EngineName | None = None
    """... and which engine that is."""

    def to_dict(self) -> dict[str, Any]:
        """What was found and where, as JSON values."""
        vocabulary = self.vocabulary
        skipped = {} if vocabulary is None else vocabulary.skipped_tokens()
        known = {} if vocabulary is None else vocabulary.special_tokens()
        return {
            "kind": self.kind,
            "name": self.name,
            "origin": self.origin,
            "template": bool(self.template),
            "other_templates": list(self.others),
            "model_type": self.model_type,
            "context_length": self.context_length,
            "cache_bytes": self.cache_bytes,
            "end_ids": None if self.end_ids is None else list(self.end_ids),
            "tokens": {
                str(id): {"text": text, "kind": "special" if id in skipped else "token"}
                for id, text in known.items()
            },
            "weights": "" if self.weights is None else str(self.weights),
            "go_template": bool(self.go_template),
            "families": list(self.families),
            "parser": self.parser,
            "parameters": dict(self.parameters),
            "url": self.url,
            "engine": self.engine,
        }


def is_template(text: str) -> bool:
    """Whether a text can be a chat template."""
    return "{{" in text or "{%" in text


def token_texts(config: Mapping[str, object]) -> dict[str, str]:
    """The special tokens that a tokenizer configuration names."""
    tokens: dict[str, str] = {}
    for name in _TOKENS:
        token = config.get(name)
        token = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(token, str):
            tokens[name] = token
    return tokens
