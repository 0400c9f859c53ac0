"""Adapters for tokenizers, and private code points for special tokens.

A model can write a marker such as ``<tool_call>`` in two ways: as a special token, which is markup,
or in ordinary tokens, which only mention the marker.  The difference is visible in token ids,
but not in text.  For input as token ids, every special token is therefore replaced with one private code
point, in the compiled templates (:func:`substitute`) and in the input (``Detokenizer``).  The parser then
compares characters in the same way as for text.

The private code points are lone surrogates, U+D800 to U+DFFF.  No UTF-8 decoder produces them, so
they cannot occur in ordinary text.  Text with surrogates cannot be encoded, so the parser must not return it.
In ``detokenizer.py``, ``restore`` replaces the code points with the text of the tokens, and ``OffsetMap``
converts offsets.

Tokenizers of other packages are recognised by their methods.  None of these packages is imported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable
from weakref import WeakKeyDictionary

from ...dialects._control_token_pattern import is_control_token
from ...errors import UsageError
from .token_text_cache import TokenTexts

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from .reader import TokenDialect

_FIRST_SURROGATE: Final = 0xD800
_SURROGATES: Final = 0x800

# --- protocols ---


@runtime_checkable
class Tokenizer(Protocol):
    """Tokenizer with the methods that the parser of token ids needs."""

    def token_bytes(self, id: int) -> bytes:
        """Return the UTF-8 bytes of an ordinary token that is not at the beginning of a text.

        The bytes may begin or end inside a character.  Raise ``LookupError`` if the vocabulary lacks the id.
        """
        ...

    def special_tokens(self) -> Mapping[int, str]:
        """Return the texts of all added, special and control tokens, keyed by id.

        Omit added tokens that consist of whitespace, because whitespace is ordinary text.
        """
        ...


@runtime_checkable
class Encoder(Tokenizer, Protocol):
    """Tokenizer that can also encode text."""

    def encode(self, text: str) -> Sequence[int]:
        """Return the ids of a text, including its special tokens, without adding BOS or EOS tokens."""
        ...


def as_encoder(obj: object) -> Encoder:
    """Return the result of ``as_tokenizer``; raise an error if this tokenizer cannot encode text."""
    tokenizer = as_tokenizer(obj)
    if isinstance(tokenizer, Encoder):
        return tokenizer
    raise UsageError(
        f"an object of type {type(obj).__module__}.{type(obj).__qualname__} cannot encode text that contains "
        "special tokens: pass a tokenizers.Tokenizer, a fast tokenizer of transformers, a Tekken tokenizer "
        "of mistral_common, or an object with the methods token_bytes(id), special_tokens() and encode(text)"
    )


def as_tokenizer(obj: object) -> Tokenizer:
    """Return ``obj`` if it is a tokenizer, or the tokenizer that it wraps.

    :param obj: a :class:`Tokenizer`, a ``tokenizers.Tokenizer``, a fast tokenizer of ``transformers``, a
        tokenizer of ``mistral_common``, or a wrapper of one of these, such as a processor.

    Facts about the vocabulary are cached for as long as ``obj`` lives, so a new parser for each request is
    cheap.  All tokens must be added to the vocabulary before the first call.
    """
    adapter = _ADAPTERS.get(type(obj))
    if adapter is not None:
        return adapter(obj)
    for layer in unwrap_tokenizer(obj):
        if isinstance(layer, Tokenizer):
            return layer
        for protocol, adapter in _SOURCES:
            if isinstance(layer, protocol):
                if layer is obj:
                    _ADAPTERS[type(obj)] = adapter
                return adapter(layer)
    raise UsageError(
        f"cannot read token ids with an object of type {type(obj).__module__}.{type(obj).__qualname__}: "
        "pass a tokenizers.Tokenizer, a fast tokenizer of transformers, a tokenizer of mistral_common, "
        "or an object with the methods token_bytes(id) and special_tokens()"
    )


def unwrap_tokenizer(obj: object) -> Iterator[object]:
    """Yield ``obj`` and all tokenizers inside it, from the outermost to the innermost.

    A processor contains a tokenizer of ``transformers``, which contains a tokenizer of the ``tokenizers``
    package; ``mistral_common`` and engines have their own wrappers.
    """
    for _ in range(4):  # the longest known chain has three wrappers
        yield obj
        if isinstance(obj, _HasBackend):
            obj = obj.backend_tokenizer
        elif isinstance(obj, _HasInstruct):
            obj = obj.instruct_tokenizer
        elif isinstance(obj, _HasTokenizer):
            obj = obj.tokenizer
        else:
            return


# --- private code points ---


def assign_code_points(literals: Iterable[str], tokenizer: Tokenizer) -> dict[str, str]:
    """Return a private code point for each special token that occurs in at least one of the literals.

    A token may be a part of a literal, like ``｜DSML｜`` in ``<｜DSML｜invoke``.  The result depends
    only on the set of these tokens, not on the order of the literals or on the tokens' ids.  Therefore,
    vocabularies with the same markers can share one compiled dialect.
    """
    # The literals are joined with a surrogate, so that no token can match across two literals.
    haystack = chr(_FIRST_SURROGATE).join(literals)
    # Tokens that are single characters or whitespace are excluded, because they also occur in ordinary text.
    found = sorted(
        {
            token
            for token in tokenizer.special_tokens().values()
            if len(token) > 1 and token in haystack and not token.isspace()
        }
    )
    if len(found) > _SURROGATES:
        raise UsageError(
            f"{len(found)} special tokens occur in the markers of the dialect; the maximum is {_SURROGATES}"
        )
    return {token: chr(_FIRST_SURROGATE + number) for number, token in enumerate(found)}


def assign_more_code_points(taken: Mapping[str, str], tokenizer: Tokenizer) -> dict[str, str]:
    """Return private code points for control tokens outside the dialect's markup, such as vision tokens.

    Only tokens that the vocabulary flags as control tokens, or that look like control tokens, receive a code
    point.  Other added tokens may be words or HTML tags, which are ordinary text.

    :param taken: code points that are already assigned.
    """
    facts = facts_of_tokenizer(tokenizer)
    others = {
        token
        for token in facts.literals
        if len(token) > 1 and token not in taken and (token in facts.control or is_control_token(token))
    }
    room = range(_FIRST_SURROGATE + len(taken), _FIRST_SURROGATE + _SURROGATES)
    return {token: chr(number) for number, token in zip(room, sorted(others), strict=False)}


def substitute(literal: str, code_points: Mapping[str, str]) -> str:
    """Replace the special tokens in a literal with their code points.

    As in tokenizers, the literal is searched from left to right, and longer tokens take precedence.
    """
    if not code_points:
        return literal
    return pattern_of_tokens(tuple(code_points)).sub(lambda match: code_points[match[0]], literal)


@lru_cache(maxsize=256)
def pattern_of_tokens(tokens: tuple[str, ...]) -> re.Pattern[str]:
    """Return a regular expression that matches any of these tokens; longer tokens take precedence."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(re.escape(token) for token in longest_first))


# --- bytes of ordinary tokens ---


def _byte_alphabet() -> dict[str, int]:
    """Return GPT-2's byte alphabet, which assigns a printable character to each byte.

    If the Latin-1 character of a byte is printable, the byte is assigned this character.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + number): byte for number, byte in enumerate(others)})
    return alphabet


_BYTE_ALPHABET: Final = _byte_alphabet()
_BYTE_PIECE: Final = re.compile("<0x([0-9A-Fa-f]{2})>")


class _Spelling:
    """Rule for converting vocabulary entries (called *pieces* in the code) to bytes."""

    __slots__ = ("byte_fallback", "byte_level", "replace")

    def __init__(self, *, byte_level: bool, byte_fallback: bool, replace: Sequence[tuple[str, str]]) -> None:
        self.byte_level = byte_level
        """True if each character of a vocabulary entry represents one byte, in GPT-2's byte alphabet."""
        self.byte_fallback = byte_fallback
        """True if a vocabulary entry such as ``<0x0A>`` represents one byte."""
        self.replace = replace
        """Pairs of an old text and its replacement, such as U+2581 and a space."""

    def to_bytes(self, piece: str) -> bytes:
        if self.byte_fallback and (byte := _BYTE_PIECE.fullmatch(piece)):
            return bytes.fromhex(byte[1])
        for old, new in self.replace:
            piece = piece.replace(old, new)
        if self.byte_level:
            try:
                return bytes([_BYTE_ALPHABET[character] for character in piece])
            except KeyError:  # added tokens are not written in the byte alphabet
                pass
        return piece.encode()


_SENTENCEPIECE: Final = _Spelling(byte_level=False, byte_fallback=True, replace=(("\u2581", " "),))


def _decoder_steps(decoder: Any) -> list[Any]:
    """Return the steps of a decoder in ``tokenizer.json``, including those of nested sequences."""
    if isinstance(decoder, dict) and decoder.get("type") == "Sequence":
        return [step for inner in decoder["decoders"] for step in _decoder_steps(inner)]
    return [decoder]


def _spelling_rule(decoder: object) -> _Spelling | None:
    """Return the rule that a decoder in ``tokenizer.json`` uses to convert single tokens to bytes.

    Return None if the text of a token depends on adjacent tokens, or if a step of the decoder is unknown.
    """
    byte_level = byte_fallback = fused = False
    replace: list[tuple[str, str]] = []
    for step in _decoder_steps(decoder):
        match step:
            case {"type": "ByteLevel"}:
                byte_level = fused = True
            case {"type": "ByteFallback"} if not fused:
                byte_fallback = True
            case {"type": "Metaspace", "replacement": str(old)} if not fused:
                replace.append((old, " "))
            case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)} if not fused:
                replace.append((old, new))
            case {"type": "Fuse"}:
                fused = True
            case {"type": "Strip"} if fused:
                pass  # affects only the start and end of the whole text
            case _:
                return None
    return _Spelling(byte_level=byte_level, byte_fallback=byte_fallback, replace=replace)


# --- adapters; each class whose name ends in Source is a protocol for a tokenizer of another package ---


class VocabularyFacts:
    """Cached facts about one tokenizer.

    The facts are stored under a weak reference to the tokenizer.  The facts themselves must not refer to the
    tokenizer, because such a reference would keep the tokenizer alive forever.
    """

    __slots__ = (
        "bytes",
        "control",
        "literals",
        "plain_token",
        "special",
        "spelling",
        "texts",
        "token_dialects",
    )

    def __init__(
        self,
        special: Mapping[int, str],
        spelling: _Spelling | None = None,
        plain_token: int | None = None,
        control: Iterable[str] = (),
    ) -> None:
        self.special = special
        """Texts of the special tokens, keyed by id."""
        self.literals = frozenset(special.values())
        self.control = frozenset(control)
        """Special tokens that the vocabulary flags as control tokens, as opposed to added words."""
        self.spelling = spelling
        """Rule for converting ordinary tokens to bytes; None if tokens cannot be converted one by one."""
        self.plain_token = plain_token
        """Id of an ordinary token.  If ``spelling`` is None, other tokens are decoded next to this token."""
        self.bytes: dict[int, bytes] = {}
        """Bytes of ordinary tokens, converted on demand.

        Converting the whole vocabulary would delay a server's first request.
        """
        self.texts = TokenTexts()
        """Texts of the ordinary tokens that consist of complete characters."""
        self.token_dialects: dict[Dialect, TokenDialect] = {}
        """Converted dialects, in which the special tokens of this vocabulary are code points."""


_VOCABULARIES: Final[WeakKeyDictionary[object, VocabularyFacts]] = WeakKeyDictionary()


class _Adapter:
    """Base class of the adapters; an adapter is a :class:`Tokenizer` with cached facts."""

    __slots__ = ("_bytes", "facts")

    def __init__(self, source: object) -> None:
        facts = _VOCABULARIES.get(source)
        if facts is None:
            facts = _VOCABULARIES[source] = self._read_facts()
        self.facts = facts
        self._bytes = facts.bytes

    def token_bytes(self, id: int) -> bytes:
        known = self._bytes.get(id)
        if known is None:
            known = self._bytes[id] = self._read(id)
        return known

    def special_tokens(self) -> Mapping[int, str]:
        return self.facts.special

    def _read_facts(self) -> VocabularyFacts:
        raise NotImplementedError

    def _read(self, id: int) -> bytes:
        raise NotImplementedError


def facts_of_tokenizer(tokenizer: Tokenizer) -> VocabularyFacts:
    """Return the facts about a tokenizer; cache them if the tokenizer supports weak references."""
    if isinstance(tokenizer, _Adapter):
        return tokenizer.facts
    try:
        facts = _VOCABULARIES.get(tokenizer)
        if facts is None:
            facts = _VOCABULARIES[tokenizer] = VocabularyFacts(tokenizer.special_tokens())
    except TypeError:  # the tokenizer is not hashable, or does not support weak references
        return VocabularyFacts(tokenizer.special_tokens())
    return facts


class _AddedToken(Protocol):
    @property
    def content(self) -> str: ...
    @property
    def special(self) -> bool: ...


@runtime_checkable
class _HuggingFaceSource(Protocol):
    """Protocol for ``tokenizers.Tokenizer``."""

    @property
    def decoder(self) -> object: ...
    def id_to_token(self, id: int, /) -> str | None: ...
    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = ...) -> str: ...
    def get_added_tokens_decoder(self) -> Mapping[int, _AddedToken]: ...
    def to_str(self) -> str: ...
    def encode(self, sequence: Any, *, add_special_tokens: bool = ...) -> Any: ...


class _HuggingFace(_Adapter):
    """Adapter for ``tokenizers.Tokenizer``.

    All supported models have byte-level or SentencePiece-like vocabularies.  Their tokens are converted one
    by one, according to the decoder in ``tokenizer.json``.  In other vocabularies (WordPiece, custom
    decoders), a token is decoded between two ordinary tokens, whose text is then removed.  The result is
    correct for complete characters, but a part of a character becomes U+FFFD.
    """

    __slots__ = ("_source",)

    def __init__(self, source: _HuggingFaceSource) -> None:
        self._source = source
        super().__init__(source)

    def _read_facts(self) -> VocabularyFacts:
        try:
            decoder = self._decoder()
        except Exception:  # noqa: BLE001 - a decoder written in Python raises a bare Exception here
            decoder = None
        spelling = _spelling_rule(decoder)
        found = self._source.get_added_tokens_decoder()
        added = {id: token.content for id, token in found.items()}
        control = [token.content for token in found.values() if token.special]
        # Runs of spaces and newlines are added tokens in Gemma, with U+2581 in place of spaces.
        special = {
            id: literal
            for id, literal in sorted(added.items())
            if (spelling.to_bytes(literal) if spelling else literal.encode()).strip()
        }
        return VocabularyFacts(special, spelling, None if spelling else self._plain_token(added), control)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._source.encode(text, add_special_tokens=False).ids
        return ids

    def _decoder(self) -> object:
        # Pickling the decoder yields its section of tokenizer.json.  Serializing the whole tokenizer would
        # take up to a second.
        state = self._source.decoder.__getstate__()
        return json.loads(state) if isinstance(state, bytes) else json.loads(self._source.to_str())["decoder"]

    def _plain_token(self, added: Mapping[int, str]) -> int | None:
        for id in range(10_000):
            if id not in added and self._source.id_to_token(id) is not None:
                text = self._text([id])
                if text.isascii() and text.isalnum():
                    return id
        return None

    def _text(self, ids: Sequence[int]) -> str:
        return self._source.decode(ids, skip_special_tokens=False)

    def _read(self, id: int) -> bytes:
        try:
            piece = self._source.id_to_token(id)
        except OverflowError:  # the id is not an unsigned 32-bit number
            piece = None
        if piece is None:
            raise KeyError(id)
        spelling = self.facts.spelling
        if spelling is not None:
            return spelling.to_bytes(piece)
        plain_token = self.facts.plain_token
        if plain_token is None:
            return self._text([id]).encode()
        left = self._text([plain_token])
        right = self._text([plain_token, plain_token]).removeprefix(left)
        text = self._text([plain_token, id, plain_token])
        return text.removeprefix(left).removesuffix(right).encode()


@runtime_checkable
class _SentencePieceSource(Protocol):
    """Protocol for ``SentencePieceTokenizer`` of ``mistral_common``."""

    @property
    def n_words(self) -> int: ...
    @property
    def special_ids(self) -> AbstractSet[int]: ...
    def id_to_piece(self, token_id: int, /) -> str: ...


class _SentencePiece(_Adapter):
    """Adapter for ``SentencePieceTokenizer``."""

    __slots__ = ("_source",)

    def __init__(self, source: _SentencePieceSource) -> None:
        self._source = source
        super().__init__(source)

    def _read_facts(self) -> VocabularyFacts:
        source = self._source
        special = {id: source.id_to_piece(id) for id in sorted(source.special_ids)}
        return VocabularyFacts(special, _SENTENCEPIECE, control=special.values())

    def _read(self, id: int) -> bytes:
        if not 0 <= id < self._source.n_words:
            raise KeyError(id)
        return _SENTENCEPIECE.to_bytes(self._source.id_to_piece(id))


@runtime_checkable
class _TekkenSource(_SentencePieceSource, Protocol):
    """Protocol for ``Tekkenizer`` of ``mistral_common``."""

    def id_to_byte_piece(self, token_id: int, /) -> bytes: ...
    def encode(self, s: str, /, bos: bool, eos: bool) -> list[int]: ...


class _Tekken(_Adapter):
    """Adapter for ``Tekkenizer``."""

    __slots__ = ("_source",)

    def __init__(self, source: _TekkenSource) -> None:
        self._source = source
        super().__init__(source)

    def _read_facts(self) -> VocabularyFacts:
        source = self._source
        special = {id: source.id_to_piece(id) for id in sorted(source.special_ids)}
        return VocabularyFacts(special, control=special.values())

    def _read(self, id: int) -> bytes:
        if not 0 <= id < self._source.n_words:
            raise KeyError(id)
        return self._source.id_to_byte_piece(id)

    def encode(self, text: str) -> list[int]:
        # Tekkenizer does not recognise special tokens in text, so this code splits the text at them.
        ids = {literal: id for id, literal in self.facts.special.items()}
        out: list[int] = []
        at = 0
        for found in pattern_of_tokens(tuple(ids)).finditer(text):
            out += self._source.encode(text[at : found.start()], bos=False, eos=False)
            out.append(ids[found[0]])
            at = found.end()
        return out + self._source.encode(text[at:], bos=False, eos=False)


_SOURCES: Final[tuple[tuple[type, Callable[[Any], _Adapter]], ...]] = (
    (_HuggingFaceSource, _HuggingFace),
    (_TekkenSource, _Tekken),
    (_SentencePieceSource, _SentencePiece),
)
_ADAPTERS: Final[dict[type, Callable[[Any], _Adapter]]] = {}
"""Adapters, keyed by tokenizer class; cached because recognising a tokenizer takes longer than reading a
token."""


@runtime_checkable
class _HasBackend(Protocol):
    """Protocol for a fast tokenizer of ``transformers``."""

    @property
    def backend_tokenizer(self) -> object: ...


@runtime_checkable
class _HasInstruct(Protocol):
    """Protocol for ``MistralTokenizer`` of ``mistral_common``."""

    @property
    def instruct_tokenizer(self) -> object: ...


@runtime_checkable
class _HasTokenizer(Protocol):
    """Protocol for ``InstructTokenizer`` of ``mistral_common``, a processor, or an engine's wrapper."""

    @property
    def tokenizer(self) -> object: ...


AnyTokenizer: TypeAlias = (
    Tokenizer | _HuggingFaceSource | _SentencePieceSource | _HasBackend | _HasInstruct | _HasTokenizer
)
"""A :class:`Tokenizer`, a tokenizer of ``tokenizers``, ``transformers`` or ``mistral_common``, or an object
that has one of these as an attribute."""
