"""Reader for GGUF headers, which contain a model's chat template and vocabulary.

Layout of a header::

    magic      4 bytes   b"GGUF"
    version    u32
    tensors    u64       number of tensors
    pairs      u64       number of key-value pairs
    then the pairs: key (string), type (u32), value

A string is stored as its length in bytes (u64), followed by UTF-8 text.  An array is stored as the type of
the elements (u32), the number of elements (u64) and the elements.  All numbers in a file have the same byte
order, which the version reveals: versions are small, so their first byte is zero only in big-endian order.

The reader stops at the tensors, so it is fast for large files and accepts files that end after the header.

A file may be untrusted, so every count and length is checked against a limit before use.  Values that are not
needed are skipped.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from ...errors import UsageError
from .source import Source, Vocabulary

MAGIC: Final = b"GGUF"


class TruncatedHeader(UsageError):
    """Error for a file that ends inside its header."""


class ByteStream(Protocol):
    """Stream of bytes that is read from start to end, such as a file or a pipe."""

    def read(self, count: int, /) -> bytes: ...


_MAX_PAIRS: Final = 1 << 16
_MAX_KEY_LENGTH: Final = 1 << 16
_MAX_STRING_LENGTH: Final = 1 << 24
_MAX_ARRAY_LENGTH: Final = 1 << 22
"""Maximum number of elements in an array; the largest known vocabularies have a tenth as many."""
_MAX_HEADER_BYTES: Final = 1 << 27
"""Maximum size of a header; the headers of real models have at most twenty megabytes."""
_CHUNK_BYTES: Final = 1 << 20

_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Format characters of ``struct`` for the numeric types."""
_STRING: Final = 8
_ARRAY: Final = 9

_TEMPLATE: Final = "tokenizer.chat_template"
_VOCABULARY: Final = "tokenizer.ggml."
_TOKENS: Final = f"{_VOCABULARY}tokens"
_TYPES: Final = f"{_VOCABULARY}token_type"
_NEEDED_KEYS: Final = ("general.architecture", "general.name", "general.basename", "split.")
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4
"""Types of tokens that tokenizers match as a whole; tokens of other types are ordinary tokens."""
_END_TOKENS: Final = ("eos_token_id", "eot_token_id", "eom_token_id")
_SHARD: Final = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


def read_gguf(path: Path) -> Source:
    """Read the header of a GGUF file, and return a ``Source``."""
    with path.open("rb") as file:
        values = read_header(file, str(path))
    count = values.get("split.count")
    if isinstance(count, int) and count > 1 and _TOKENS not in values and values.get("split.no"):
        raise UsageError(f"{path} is one of {count} parts: pass the first part, {first_part(path).name}")
    source = source_of(values, str(path))
    return replace(source, file=path, weights=path, name=model_name(path))


def model_name(path: Path) -> str:
    """Return the model's name from a file name: ``Qwen3-8B`` for ``Qwen3-8B-Q4_K_M.gguf``."""
    stem = _SHARD.sub(".gguf", path.name).removesuffix(".gguf")
    return re.sub(r"[.-](?:UD-)?(?:I?Q\d\w*|F16|BF16|F32|MXFP4\w*)$", "", stem, flags=re.IGNORECASE)


def first_part(path: Path) -> Path:
    """Return the path of the first part of a split file, which contains the vocabulary."""
    return path.with_name(_SHARD.sub(r"-00001-of-\2.gguf", path.name))


def is_later_part(path: Path) -> bool:
    """Return whether a file is part of a split file, but not the first part."""
    match = _SHARD.search(path.name)
    return match is not None and int(match[1]) != 1


def source_of(values: Mapping[str, object], origin: str) -> Source:
    """Build a source from the key-value pairs of a header.  Ollama's server sends such pairs as JSON."""
    templates = _templates(values)
    chosen = "tool_use" if "tool_use" in templates else "default"
    tokens = values.get(_TOKENS)
    texts: Sequence[str] = tokens if isinstance(tokens, list) else ()
    kind = values.get("general.architecture")
    context = values.get(f"{kind}.context_length")
    name = values.get("general.name")
    return Source(
        template=templates.get(chosen, ""),
        origin=origin,
        tokens=dict(_named_tokens(values, texts)),
        config={"add_bos_token": True} if values.get(f"{_VOCABULARY}add_bos_token") is True else {},
        model_type=kind if isinstance(kind, str) else "",
        others={f"the template {name!r}": text for name, text in templates.items() if name != chosen},
        kind="gguf",
        name=name if isinstance(name, str) else "",
        vocabulary=_vocabulary(values, texts, origin),
        end_ids=tuple(dict.fromkeys(_ids(values, _END_TOKENS))) or None,
        context_length=context if isinstance(context, int) else None,
        cache_bytes=_cache_bytes(values, f"{kind}."),
    )


def _cache_bytes(values: Mapping[str, object], prefix: str) -> int | None:
    """Return the number of bytes that one token occupies in the KV cache, summed over all layers.

    Return None if the dimensions vary between layers, or if the header does not contain them.
    """

    def number(name: str) -> int:
        value = values.get(prefix + name)
        return value if isinstance(value, int) else 0

    heads = number("attention.head_count")
    each = number("embedding_length") // heads if heads else 0
    sizes = (number("attention.key_length") or each) + (number("attention.value_length") or each)
    return 2 * number("block_count") * number("attention.head_count_kv") * sizes or None


def _templates(values: Mapping[str, object]) -> dict[str, str]:
    templates: dict[str, str] = {}
    for key, value in values.items():
        if key == _TEMPLATE and isinstance(value, str) and value.strip():
            templates["default"] = value
        elif key.startswith(f"{_TEMPLATE}.") and isinstance(value, str) and value.strip():
            templates[key.removeprefix(f"{_TEMPLATE}.")] = value
    return templates


def _ids(values: Mapping[str, object], names: Sequence[str]) -> Iterator[int]:
    for name in names:
        value = values.get(f"{_VOCABULARY}{name}")
        if isinstance(value, int):
            yield value


def _named_tokens(values: Mapping[str, object], texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    names = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    for name, key in names.items():
        for id in _ids(values, (f"{key}_token_id",)):
            if 0 <= id < len(texts):
                yield name, texts[id]


def _vocabulary(values: Mapping[str, object], texts: Sequence[str], origin: str) -> Vocabulary | None:
    types = values.get(_TYPES)
    if not isinstance(types, list) or not texts:
        return None
    tokens = {
        id: text
        for id, (text, type_) in enumerate(zip(texts, types, strict=False))
        if type_ in (_UNKNOWN, _CONTROL, _USER_DEFINED) and text.replace("\u2581", " ").strip()
    }
    special = [id for id in tokens if types[id] != _USER_DEFINED]
    return Vocabulary(f"the tokens of {origin}", tokens, special)


# -- the bytes


def read_header(file: ByteStream, origin: str) -> dict[str, object]:
    """Return the key-value pairs that unspool needs; never seek, and never read past the header."""
    return _HeaderReader(file, origin).pairs()


class _HeaderReader:
    """Reader for the header of one file."""

    def __init__(self, file: ByteStream, origin: str) -> None:
        self._file = file
        self._origin = origin
        self._order = "<"
        self._bytes_read = 0

    def pairs(self) -> dict[str, object]:
        if self._take(4) != MAGIC:
            raise UsageError(f"{self._origin} is not a GGUF file: it does not start with GGUF")
        version = self._take(4)
        self._order = "<" if version[0] else ">"
        number = int.from_bytes(version, "little" if version[0] else "big")
        if number not in (2, 3):
            raise UsageError(
                f"{self._origin} is GGUF version {number}, but unspool reads versions 2 and 3: "
                "download the model again, or convert it again"
            )
        self._number("Q")  # number of tensors
        pairs: dict[str, object] = {}
        for _ in range(self._bounded(self._number("Q"), _MAX_PAIRS, "pairs")):
            key = self._string(_MAX_KEY_LENGTH, "a key")
            value = self._value(self._number("I"), key)
            if value is not None:
                pairs[key] = value
        return pairs

    def _value(self, kind: int, key: str) -> object:
        """Return the next value, or skip the value and return None if unspool does not need it."""
        if kind == _ARRAY:
            return self._array(key)
        if kind == _STRING:
            if key.startswith((_TEMPLATE, *_NEEDED_KEYS)):
                return self._string(_MAX_STRING_LENGTH, key)
            self._skip(self._bounded(self._number("Q"), _MAX_STRING_LENGTH, f"bytes of {key}"))
            return None
        return self._number(self._format(kind))

    def _array(self, key: str) -> object:
        kind = self._number("I")
        count = self._number("Q")
        if kind == _ARRAY:
            raise self._invalid(f"{key} is an array of arrays")
        if kind == _STRING:
            self._bounded(count, _MAX_ARRAY_LENGTH, f"elements of {key}")
            if key == _TOKENS:
                return [text.decode("utf-8", "replace") for text in self._strings(count, key)]
            for _ in self._strings(count, key):
                pass
            return None
        code = self._format(kind)
        size = struct.calcsize(f"<{code}")
        self._bounded(count, (_MAX_HEADER_BYTES - self._bytes_read) // size, f"elements of {key}")
        if key != _TYPES:
            self._skip(count * size)
            return None
        self._bounded(count, _MAX_ARRAY_LENGTH, f"elements of {key}")
        return list(struct.unpack(f"{self._order}{count}{code}", self._take(count * size)))

    def _strings(self, count: int, key: str) -> Iterator[bytes]:
        order = "<Q" if self._order == "<" else ">Q"
        unpack = struct.Struct(order).unpack
        for _ in range(count):
            length: int = unpack(self._take(8))[0]
            yield self._take(self._bounded(length, _MAX_STRING_LENGTH, f"bytes of an element of {key}"))

    def _string(self, limit: int, what: str) -> str:
        data = self._take(self._bounded(self._number("Q"), limit, f"bytes of {what}"))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self._invalid(f"{what} is not UTF-8") from error

    def _format(self, kind: int) -> str:
        if kind not in _NUMBERS:
            raise self._invalid(f"unknown type {kind}")
        return _NUMBERS[kind]

    def _number(self, code: str) -> int:
        code = self._order + code
        number: int = struct.unpack(code, self._take(struct.calcsize(code)))[0]
        return number

    def _take(self, count: int) -> bytes:
        self._bytes_read += count
        if self._bytes_read > _MAX_HEADER_BYTES:
            raise self._invalid(f"larger than {_MAX_HEADER_BYTES >> 20} MiB")
        data = self._file.read(count)
        if len(data) < count:
            raise TruncatedHeader(
                f"{self._origin} ends inside its GGUF header: download it again, or pass the whole header "
                "(nothing after the header is needed)"
            )
        return data

    def _skip(self, count: int) -> None:
        while count > 0:
            count -= len(self._take(min(count, _CHUNK_BYTES)))

    def _bounded(self, count: int, limit: int, what: str) -> int:
        if count > limit:
            raise self._invalid(f"{count} {what}; the limit is {limit}")
        return count

    def _invalid(self, why: str) -> UsageError:
        return UsageError(f"{self._origin} has an invalid GGUF header ({why}): download it again")
