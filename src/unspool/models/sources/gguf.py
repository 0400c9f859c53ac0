"""GGUF: the header of a file of weights, which holds the chat template and the vocabulary.

Layout, all numbers little-endian (or all big-endian, told by the version): the
magic ``GGUF``, a version (u32), the number of tensors and of key-value pairs (u64
each), then the pairs: key, type (u32), value.  A string is its length (u64) and
UTF-8; an array is the type of its elements (u32), their number (u64) and they.
What follows, tensors, is never read: a file of many gigabytes costs what its
header costs, and one whose end is missing is as good.

Nothing in a header is believed before it was bounded: a file may come from
anywhere.  Values that nobody asked for are passed over, not kept.
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


class CutHeader(UsageError):
    """A file ends inside its header; more of it may help."""


class Bytes(Protocol):
    """What can be read from its beginning, a file or a pipe."""

    def read(self, count: int, /) -> bytes: ...


_MOST_PAIRS: Final = 1 << 16
_LONGEST_KEY: Final = 1 << 16
_LONGEST_STRING: Final = 1 << 24
_MOST_STRINGS: Final = 1 << 22
"""Of one array; the largest vocabularies have a tenth of it."""
_LARGEST_HEADER: Final = 1 << 27
"""Real ones have up to twenty megabytes."""
_PORTION: Final = 1 << 20

_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The types of numbers, as struct spells them."""
_STRING: Final = 8
_ARRAY: Final = 9

_TEMPLATE: Final = "tokenizer.chat_template"
_VOCABULARY: Final = "tokenizer.ggml."
_TOKENS: Final = f"{_VOCABULARY}tokens"
_TYPES: Final = f"{_VOCABULARY}token_type"
_KEPT: Final = ("general.architecture", "general.name", "general.basename", "split.")
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4
"""Types of tokens; the others are ordinary."""
_ENDS: Final = ("eos_token_id", "eot_token_id", "eom_token_id")
_SHARD: Final = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


def read_gguf(path: Path) -> Source:
    """What the header of a file says."""
    with path.open("rb") as file:
        values = read_header(file, str(path))
    count = values.get("split.count")
    if isinstance(count, int) and count > 1 and _TOKENS not in values and values.get("split.no"):
        raise UsageError(f"{path} is one of {count} parts: give the first, {first_part(path).name}")
    found = source_of(values, str(path))
    return replace(found, file=path, weights=path, name=model_name(path))


def model_name(path: Path) -> str:
    """``Qwen3-8B-Q4_K_M.gguf`` is Qwen3-8B to its users."""
    stem = _SHARD.sub(".gguf", path.name).removesuffix(".gguf")
    return re.sub(r"[.-](?:UD-)?(?:I?Q\d\w*|F16|BF16|F32|MXFP4\w*)$", "", stem, flags=re.IGNORECASE)


def first_part(path: Path) -> Path:
    """The part of a divided file that has the vocabulary."""
    return path.with_name(_SHARD.sub(r"-00001-of-\2.gguf", path.name))


def is_part(path: Path) -> bool:
    """Whether it is a part that is not the first."""
    found = _SHARD.search(path.name)
    return found is not None and int(found[1]) != 1


def source_of(values: Mapping[str, object], origin: str) -> Source:
    """What the pairs of a header say; Ollama's server tells them as JSON."""
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
        end_ids=tuple(dict.fromkeys(_ids(values, _ENDS))) or None,
        context_length=context if isinstance(context, int) else None,
        cache_bytes=_cache_bytes(values, f"{kind}."),
    )


def _cache_bytes(values: Mapping[str, object], prefix: str) -> int | None:
    """Keys and values of one token, for all layers; None: layers differ, or the header does not say."""

    def number(name: str) -> int:
        value = values.get(prefix + name)
        return value if isinstance(value, int) else 0

    heads = number("attention.head_count")
    each = number("embedding_length") // heads if heads else 0
    sizes = (number("attention.key_length") or each) + (number("attention.value_length") or each)
    return 2 * number("block_count") * number("attention.head_count_kv") * sizes or None


def _templates(values: Mapping[str, object]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in values.items():
        if key == _TEMPLATE and isinstance(value, str) and value.strip():
            found["default"] = value
        elif key.startswith(f"{_TEMPLATE}.") and isinstance(value, str) and value.strip():
            found[key.removeprefix(f"{_TEMPLATE}.")] = value
    return found


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
    whole = {
        id: text
        for id, (text, type_) in enumerate(zip(texts, types, strict=False))
        if type_ in (_UNKNOWN, _CONTROL, _USER_DEFINED) and text.replace("\u2581", " ").strip()
    }
    special = [id for id in whole if types[id] != _USER_DEFINED]
    return Vocabulary(f"the tokens of {origin}", whole, special)


# -- the bytes


def read_header(file: Bytes, origin: str) -> dict[str, object]:
    """The pairs of a header that tell something here; reads no further, and never seeks."""
    return _Header(file, origin).pairs()


class _Header:
    def __init__(self, file: Bytes, origin: str) -> None:
        self._file = file
        self._origin = origin
        self._order = "<"
        self._taken = 0

    def pairs(self) -> dict[str, object]:
        if self._take(4) != MAGIC:
            raise UsageError(f"{self._origin} is no GGUF file: it does not begin with GGUF")
        version = self._take(4)
        self._order = "<" if version[0] else ">"
        number = int.from_bytes(version, "little" if version[0] else "big")
        if number not in (2, 3):
            raise UsageError(
                f"{self._origin} is GGUF of version {number}, which is not read (2 and 3 are): "
                "download the model again, or convert it anew"
            )
        self._number("Q")  # of tensors
        found: dict[str, object] = {}
        for _ in range(self._bounded(self._number("Q"), _MOST_PAIRS, "pairs")):
            key = self._string(_LONGEST_KEY, "a key")
            value = self._value(self._number("I"), key)
            if value is not None:
                found[key] = value
        return found

    def _value(self, kind: int, key: str) -> object:
        """A value; None: nobody asked for it."""
        if kind == _ARRAY:
            return self._array(key)
        if kind == _STRING:
            if key.startswith((_TEMPLATE, *_KEPT)):
                return self._string(_LONGEST_STRING, key)
            self._skip(self._bounded(self._number("Q"), _LONGEST_STRING, f"bytes of {key}"))
            return None
        return self._number(self._format(kind))

    def _array(self, key: str) -> object:
        kind = self._number("I")
        count = self._number("Q")
        if kind == _ARRAY:
            raise self._broken(f"{key} is an array of arrays")
        if kind == _STRING:
            self._bounded(count, _MOST_STRINGS, f"elements of {key}")
            if key == _TOKENS:
                return [text.decode("utf-8", "replace") for text in self._strings(count, key)]
            for _ in self._strings(count, key):
                pass
            return None
        spelt = self._format(kind)
        size = struct.calcsize(f"<{spelt}")
        self._bounded(count, (_LARGEST_HEADER - self._taken) // size, f"elements of {key}")
        if key != _TYPES:
            self._skip(count * size)
            return None
        self._bounded(count, _MOST_STRINGS, f"elements of {key}")
        return list(struct.unpack(f"{self._order}{count}{spelt}", self._take(count * size)))

    def _strings(self, count: int, key: str) -> Iterator[bytes]:
        order = "<Q" if self._order == "<" else ">Q"
        unpack = struct.Struct(order).unpack
        for _ in range(count):
            length: int = unpack(self._take(8))[0]
            yield self._take(self._bounded(length, _LONGEST_STRING, f"bytes of an element of {key}"))

    def _string(self, longest: int, what: str) -> str:
        data = self._take(self._bounded(self._number("Q"), longest, f"bytes of {what}"))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self._broken(f"{what} is not UTF-8") from error

    def _format(self, kind: int) -> str:
        if kind not in _NUMBERS:
            raise self._broken(f"there is no type {kind}")
        return _NUMBERS[kind]

    def _number(self, spelt: str) -> int:
        spelt = self._order + spelt
        found: int = struct.unpack(spelt, self._take(struct.calcsize(spelt)))[0]
        return found

    def _take(self, count: int) -> bytes:
        self._taken += count
        if self._taken > _LARGEST_HEADER:
            raise self._broken(f"it is larger than {_LARGEST_HEADER >> 20} MiB")
        data = self._file.read(count)
        if len(data) < count:
            raise CutHeader(
                f"{self._origin} ends inside its GGUF header: it was cut off, so download it again, "
                "or give more of it (what follows the header is not needed)"
            )
        return data

    def _skip(self, count: int) -> None:
        while count > 0:
            count -= len(self._take(min(count, _PORTION)))

    def _bounded(self, count: int, most: int, what: str) -> int:
        if count > most:
            raise self._broken(f"{count} {what}")
        return count

    def _broken(self, why: str) -> UsageError:
        return UsageError(f"{self._origin} has a GGUF header that makes no sense ({why}): download it again")
