"""Writer of GGUF files for tests, based on llama.cpp's own package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4

CHATML_TOKENS = (
    ("<unk>", UNKNOWN),
    ("hello", NORMAL),
    ("<|im_start|>", CONTROL),
    ("<|im_end|>", CONTROL),
    ("<tool_call>", USER_DEFINED),
    ("</tool_call>", USER_DEFINED),
)


def write_gguf(
    path: Path,
    template: str | Sequence[Mapping[str, str]] | None,
    *,
    architecture: str = "qwen3",
    tokens: Sequence[tuple[str, int]] = CHATML_TOKENS,
    ends: Mapping[str, int] | None = None,
    context_length: int = 4096,
    big_endian: bool = False,
    more: Mapping[str, Any] | None = None,
) -> Path:
    """Write a GGUF file without tensors.

    :param more: further methods of the writer to call, with their arguments.
    """
    import gguf

    order = gguf.GGUFEndian.BIG if big_endian else gguf.GGUFEndian.LITTLE
    writer = gguf.GGUFWriter(path, architecture, endianess=order)
    writer.add_name("A model")
    writer.add_context_length(context_length)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_token_merges(["h e", "l l"])
    writer.add_bos_token_id(2)
    for name, id in (ends or {"eos": 3}).items():
        getattr(writer, f"add_{name}_token_id")(id)
    if template is not None:
        writer.add_chat_template(template)
    for method, arguments in (more or {}).items():
        getattr(writer, method)(*arguments)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path
