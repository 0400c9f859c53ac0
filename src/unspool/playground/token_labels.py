"""Labels for the tokens of an output, using a ``tokenizer.json`` that the user dropped on the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from .._core.token_ids.labels import LABEL_MASK, Label, LabelFlag
from .._core.token_ids.tokenizer_adapters import as_encoder
from ..errors import UsageError
from ..tokens import label_tokens, pieces
from .request_fields import Setup, read_field


def labels(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return each token with its label, id and text.

    The request has the fields of ``Setup``, ``tokenizer_json`` (the text of the file), and
    ``ids`` and ``prompt_ids`` (the token ids of the output and of the prompt).  If there are
    no ``ids``, the ``tokenizers`` package tokenizes the output and the prompt.
    """
    setup = Setup.of(request)
    tokenizer = _tokenizer(read_field(request, "tokenizer_json", str, ""))
    ids = _ids(request, "ids", setup.text, tokenizer)
    reading = label_tokens(
        ids,
        setup.dialect,
        tokenizer=tokenizer,
        tools=setup.tools,
        prompt_ids=None if setup.prompt is None else _ids(request, "prompt_ids", setup.prompt, tokenizer),
        finish_reason=setup.finish_reason,
        policies=setup.policies,
    )
    return {
        "tokens": [
            {
                "id": id,
                "text": text,
                "kind": Label(label & LABEL_MASK).name.lower(),
                "shared": bool(label & LabelFlag.SHARED),
                "broken": bool(label & LabelFlag.BROKEN),
            }
            for id, text, label in pieces(ids, reading.labels, tokenizer)
        ]
    }


def _ids(request: Mapping[str, Any], name: str, text: str, tokenizer: Any) -> list[int]:
    if request.get(name) is None:
        return list(as_encoder(tokenizer).encode(text))
    ids = read_field(request, name, list, [])
    if not all(type(id) is int for id in ids):
        raise UsageError(f"{name} must be a list of numbers")
    return ids


@lru_cache(maxsize=1)
def _tokenizer(text: str) -> Any:
    """Return the tokenizer in a file; it is cached, because the page sends the file with every request."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the file is not a tokenizer.json: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("model"), dict):
        raise UsageError("this JSON file has no field 'model': drop the file that is named tokenizer.json")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return _File(value)
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the tokenizers package raises plain Exception
        raise UsageError(f"tokenizers cannot read this tokenizer.json: {error}") from error


class _Added(NamedTuple):
    content: str
    special: bool


class _Decoder:
    """Decoder of a tokenizer; it can be pickled, like the decoders of the ``tokenizers`` package."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __getstate__(self) -> bytes:
        return json.dumps(self._value).encode()


class _File:
    """Tokenizer that reads ``tokenizer.json`` without the ``tokenizers`` package.

    It can convert token ids to text, but not text to token ids.
    """

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.decoder = _Decoder(value.get("decoder"))
        vocabulary = value["model"].get("vocab")
        entries = vocabulary.items() if isinstance(vocabulary, dict) else _scored(vocabulary)
        self._tokens: dict[int, str] = {id: token for token, id in entries if type(id) is int}
        self._added: dict[int, _Added] = {}
        for entry in value.get("added_tokens") or ():
            if isinstance(entry, dict) and isinstance(entry.get("content"), str):
                self._added[int(entry["id"])] = _Added(entry["content"], bool(entry.get("special")))
        self._tokens |= {id: token.content for id, token in self._added.items()}

    def id_to_token(self, id: int, /) -> str | None:
        return self._tokens.get(id)

    def get_added_tokens_decoder(self) -> Mapping[int, _Added]:
        return self._added

    def to_str(self) -> str:
        raise NotImplementedError  # not needed: `decoder` is used

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        del skip_special_tokens
        raise UsageError(
            f"decoding the token ids {ids} needs the tokenizers package: pip install 'unspool[tokenizers]'"
        )

    def encode(self, sequence: Any, *, add_special_tokens: bool = True) -> Any:
        del sequence, add_special_tokens
        raise UsageError("tokenizing text needs the tokenizers package: pip install 'unspool[tokenizers]'")


def _scored(vocabulary: object) -> list[tuple[str, int]]:
    """Convert a Unigram vocabulary (a list of tokens with scores) to a dictionary from tokens to ids."""
    if not isinstance(vocabulary, list):
        raise UsageError("this tokenizer.json has no vocabulary")
    return [(str(entry[0]), id) for id, entry in enumerate(vocabulary) if isinstance(entry, list) and entry]
