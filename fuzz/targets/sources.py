"""Target: model files from anywhere (GGUF, Modelfiles, configurations).

They give a source or a usage error.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

from fuzz.choices import Choices
from fuzz.forgiving import object_of
from unspool import UnspoolError
from unspool.models._sources import from_stream, read_source
from unspool.models._sources.gguf import MAGIC
from unspool.models._sources.ollama import from_modelfile
from unspool.models._sources.source import Source
from unspool.models._sources.special_tokens import load_vocabulary

_NOWHERE: Final = Path("/nonexistent")


def run(data: bytes) -> None:
    choices = Choices(data)
    kind = choices.choose(("bytes", "modelfile", "configuration"))
    try:
        found = _source(kind, choices)
        load_vocabulary(found)
        json.dumps(found.to_dict())
    except UnspoolError:
        return


def _source(kind: str, choices: Choices) -> Source:
    if kind == "bytes":
        return from_stream(BytesIO(choices.rest()), "the input")
    if kind == "modelfile":
        # FROM may name a file, so the input must not contain a path of this machine.
        return from_modelfile(choices.utf8_text().replace("/", "_").replace("~", "_"), "the input", _NOWHERE)
    return read_source(object_of(choices.utf8_text()))


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _gguf() -> Iterator[bytes]:
    pairs = [
        _string("general.architecture") + struct.pack("<I", 8) + _string("qwen3"),
        _string("qwen3.context_length") + struct.pack("<II", 4, 4096),
        _string("tokenizer.chat_template") + struct.pack("<I", 8) + _string("{{ messages }}"),
        _string("tokenizer.ggml.tokens")
        + struct.pack("<IIQ", 9, 8, 2)
        + _string("a")
        + _string("<|im_end|>"),
        _string("tokenizer.ggml.token_type") + struct.pack("<IIQii", 9, 5, 2, 1, 3),
        _string("tokenizer.ggml.eos_token_id") + struct.pack("<II", 4, 1),
        _string("tokenizer.ggml.add_bos_token") + struct.pack("<IB", 7, 1),
    ]
    for count in (1, len(pairs)):
        yield MAGIC + struct.pack("<IQQ", 3, 0, count) + b"".join(pairs[:count])
    yield MAGIC + struct.pack(">IQQ", 3, 0, 0)


def seeds() -> Iterator[bytes]:
    for header in _gguf():
        yield b"\0" + header
    yield b"\0{{ messages }}"
    for quotes in ('"', '"""'):
        template = f"{quotes}{{{{ .Prompt }}}}{quotes}"
        yield f"\1# A model\nFROM qwen3\nTEMPLATE {template}\nPARAMETER stop x\n".encode()
    token = {"content": "<|im_end|>", "special": True}
    named = [{"name": "default", "template": "{{ 1 }}"}, {"name": "tool_use", "template": "{{ 2 }}"}]
    for chat_template in ("{{ messages }}", named):
        config = {"chat_template": chat_template, "eos_token": token, "added_tokens_decoder": {"7": token}}
        yield b"\2" + json.dumps(config).encode()
