"""``Source``: all available information about a model, such as its chat template and special tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

SourceKind: TypeAlias = Literal["text", "file", "folder", "gguf", "hub", "ollama", "server"]
EngineName: TypeAlias = Literal["vllm", "sglang", "llamacpp", "ollama", "unspool", "openai"]
"""Engines that serve models: ``unspool`` is the gateway, ``openai`` is any other engine with an
OpenAI-compatible API."""

_TOKENS: Final = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token")


class Vocabulary:
    """The tokens that a tokenizer matches as a whole, such as special tokens, but no ordinary tokens.

    These tokens are sufficient for planning a request, so no tokenizer package is needed.
    """

    def __init__(self, origin: str, tokens: Mapping[int, str], special: Iterable[int]) -> None:
        self.origin = origin
        self._tokens = tokens
        self._special = frozenset(special)

    def token_bytes(self, id: int) -> bytes:
        """Raise ``KeyError``, because this vocabulary does not contain the bytes of ordinary tokens."""
        raise KeyError(id)

    def special_tokens(self) -> Mapping[int, str]:
        return self._tokens

    def skipped_tokens(self) -> Mapping[int, str]:
        """Return the tokens that ``skip_special_tokens`` removes."""
        return {id: token for id, token in self._tokens.items() if id in self._special}


@dataclass(frozen=True, slots=True)
class Source:
    """All available information about a model, and the origin of this information."""

    template: str
    """The chat template; empty if there is none."""
    origin: str
    """Description of the place where the template was found."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Special tokens that are passed to the template as variables, keyed by variable name."""
    config: Mapping[str, object] = field(default_factory=dict)
    """The contents of ``tokenizer_config.json``."""
    model_type: str = ""
    """``model_type`` in ``config.json``, or the architecture in a GGUF header."""
    directory: Path | None = None
    """The model directory."""
    file: Path | None = None
    """The file that contains the template."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Other templates of the model, keyed by file name or description."""
    kind: SourceKind = "text"
    """The kind of file or service from which the source was read."""
    name: str = ""
    """The name of the model."""
    vocabulary: Vocabulary | None = None
    """Tokens that the tokenizer matches as a whole; None if the source does not contain them."""
    end_ids: tuple[int, ...] | None = None
    """Ids of the tokens that end generation; None if unknown."""
    context_length: int | None = None
    """Maximum number of tokens in the prompt and the output together."""
    cache_bytes: int | None = None
    """Bytes that one token occupies in a 16-bit KV cache, computed from the GGUF header."""
    weights: Path | None = None
    """The GGUF file with the weights."""
    go_template: str = ""
    """Ollama's template for the model, which is a Go template."""
    families: tuple[str, ...] = ()
    """Names of the model family, or paths whose names may identify the family."""
    parser: str = ""
    """The tool call parser that the engine is configured to use; the dialect, if this is the gateway."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """Ollama's parameters for the model, such as ``stop`` and ``num_ctx``."""
    url: str = ""
    """The address of the server that runs the model."""
    engine: EngineName | None = None
    """The engine of the server that runs the model."""

    def to_dict(self) -> dict[str, Any]:
        """Return the source as JSON values."""
        vocabulary = self.vocabulary
        skipped = {} if vocabulary is None else vocabulary.skipped_tokens()
        tokens = {} if vocabulary is None else vocabulary.special_tokens()
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
                for id, text in tokens.items()
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
    """Return whether text looks like a chat template."""
    return "{{" in text or "{%" in text


def token_texts(config: Mapping[str, object]) -> dict[str, str]:
    """Return the special tokens in a tokenizer configuration, keyed by variable name."""
    tokens: dict[str, str] = {}
    for name in _TOKENS:
        token = config.get(name)
        token = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(token, str):
            tokens[name] = token
    return tokens
