"""Data about a model for planning, rendering and parsing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._core.token_ids.tokenizer_adapters import AnyTokenizer
from ...dialects import Dialect
from ...models.sources import Source
from ...policies import Policies
from ...templates import ChatTemplate
from ...wire import WireOptions
from .tool_prompt import ToolPrompt


@dataclass(frozen=True, slots=True)
class Model:
    """Model with the data that planning, rendering and parsing need."""

    name: str
    """Name of the model, as clients see it."""
    dialect: str | Dialect
    """Dialect, or the name of a dialect or checkpoint."""
    template: ChatTemplate | None = None
    template_without_tools: ChatTemplate | None = None
    """Template for requests without tools; None if the model has only one template."""
    tool_prompt: ToolPrompt | None = None
    """Rewriter that adds tools to the prompt; None if the template renders tools itself."""
    tokenizer: AnyTokenizer | None = None
    eos_token_ids: tuple[int, ...] | None = None
    bos_token: str = ""
    aliases: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Default values for variables of the template."""
    policies: Policies = field(default_factory=Policies)
    wire_options: WireOptions = field(default_factory=WireOptions)
    strict_tools: bool = False
    created: int = 0
    source: Source | None = None
    """Files from which the template was read, or None."""

    @property
    def family(self) -> str:
        """Name of the dialect."""
        return self.dialect if isinstance(self.dialect, str) else self.dialect.name

    def tokenize(self, text: str, *, special: bool) -> list[int] | None:
        """Return a text's token ids, or None if the tokenizer is not from the package ``tokenizers``."""
        tokenizer: Any = self.tokenizer
        if not hasattr(tokenizer, "to_str"):
            return None
        return list(tokenizer.encode(text, add_special_tokens=special).ids)

    def detokenize(self, tokens: Sequence[int]) -> str | None:
        """Return the text for token ids, or None if the tokenizer is not from the package ``tokenizers``."""
        tokenizer: Any = self.tokenizer
        if not hasattr(tokenizer, "to_str"):
            return None
        return str(tokenizer.decode(list(tokens), skip_special_tokens=False))
