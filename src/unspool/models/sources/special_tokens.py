"""Reading of special tokens from tokenizer files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from .read_files import read_json, read_text
from .source import Source, Vocabulary


def load_vocabulary(model: Source) -> Vocabulary | None:
    """Return the special tokens of a model, from the source itself or from the tokenizer files next to it."""
    if model.vocabulary is not None:
        return model.vocabulary
    directory = model.directory or (model.file.parent if model.file is not None else None)
    if directory is not None:
        for name, read in (("tokenizer.json", _added_tokens), ("tekken.json", _tekken_tokens)):
            if (directory / name).is_file() and (model.directory is not None or model.config):
                entries = read(directory / name)
                if entries:
                    return _vocabulary(str(directory / name), entries)
    entries = _config_tokens(model.config)
    return _vocabulary(f"added_tokens_decoder of {model.origin}", entries) if entries else None


def _vocabulary(origin: str, entries: Sequence[tuple[int, str, bool]]) -> Vocabulary:
    # Some tokenizers add runs of whitespace as tokens.  Such tokens are ordinary text, so leave them out.
    tokens = {id: text for id, text, _ in entries if text.replace("\u2581", " ").strip()}
    return Vocabulary(origin, tokens, (id for id, _, special in entries if special))


def _added_tokens(path: Path) -> list[tuple[int, str, bool]]:
    text = read_text(path)
    key = '"added_tokens":'
    at = text.find(key)
    try:
        # Decode only the list of added tokens, and not the vocabulary after it, which may be twenty megabytes
        # of JSON.
        entries = json.JSONDecoder().raw_decode(text[at + len(key) :].lstrip())[0] if at >= 0 else []
    except ValueError:
        entries = read_json(path).get("added_tokens")
    return list(_entries((entry.get("id"), entry) for entry in entries or () if isinstance(entry, Mapping)))


def _config_tokens(config: Mapping[str, object]) -> list[tuple[int, str, bool]]:
    decoder = config.get("added_tokens_decoder")
    return list(_entries(decoder.items())) if isinstance(decoder, Mapping) else []


def _entries(items: Iterable[tuple[object, object]]) -> Iterator[tuple[int, str, bool]]:
    for id, entry in items:
        content = entry.get("content") if isinstance(entry, Mapping) else None
        if isinstance(entry, Mapping) and isinstance(content, str) and str(id).isdecimal():
            yield int(str(id)), content, bool(entry.get("special"))


def _tekken_tokens(path: Path) -> list[tuple[int, str, bool]]:
    tokens = read_json(path).get("special_tokens")
    entries = tokens if isinstance(tokens, list) else []
    return [
        (int(entry["rank"]), str(entry["token_str"]), True)
        for entry in entries
        if isinstance(entry, Mapping) and "rank" in entry and "token_str" in entry
    ]
