"""Adapters for tokenizers, and private code points for special tokens.

A model can write a marker such as ``<tool_call>`` in two ways: as the special token, which makes
it markup, or spelled out in ordinary tokens, which only mentions it.  Text cannot tell these
apart, ids can.  So the parser of ids replaces every special token with one private code point,
in the compiled templates (:func:`substitute`) and in the input (``Detokenizer``).  The machine
compares characters as it does for text.

The private code points are lone surrogates, U+D800 to U+DFFF.  No UTF-8 decoder produces one, so
ordinary text cannot contain them.  They must not leave the parser, for the same reason: text
passes through ``restore``, and offsets pass through ``OffsetMap`` (``detokenizer.py``).

Tokenizers of other packages are recognised by their methods.  None of the packages is imported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable
from weakref import WeakKeyDictionary

from ...dialects._control_tokens import is_control_token
from ...errors import UsageError
from .token_texts import TokenTexts

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from .reader import TokenDialect

_FIRST_SURROGATE: Final = 0xD800
_SURROGATES: Final = 0x800

# --- protocols ---


@runtime_checkable
class Tokenizer(Protocol):
    """Vocabulary, as the parser of token ids needs it."""

    def token_bytes(self, id: int) -> bytes:
        """Return the UTF-8 bytes of an ordinary token, as in the middle of a text.

        They may begin or end inside a character.  Raises ``LookupError`` if the vocabulary has no such id.
        """
        ...

    def special_tokens(self) -> Mapping[int, str]:
        """Return the literals of all tokens that are matched as a whole: added, special and control tokens.

        Runs of whitespace do not belong here, even if the vocabulary adds them as tokens: they are text.
        """
        ...


@runtime_checkable
class Encoder(Tokenizer, Protocol):
    """Vocabulary that can also encode text."""

    def encode(self, text: str) -> Sequence[int]:
        """Return the ids of a text, including its special tokens, without adding tokens at the ends."""
        ...


def as_encoder(obj: object) -> Encoder:
    """Return the tokenizer in ``obj``, which must be able to encode text."""
    tokenizer = as_tokenizer(obj)
    if isinstance(tokenizer, Encoder):
        return tokenizer
    raise UsageError(
        f"an object of type {type(obj).__module__}.{type(obj).__qualname__} cannot encode text with special "
        "tokens in it: pass a tokenizers.Tokenizer, a fast tokenizer of transformers, a Tekken tokenizer "
        "of mistral_common, or an object that also has the method encode(text)"
    )


def as_tokenizer(obj: object) -> Tokenizer:
    """Return the tokenizer in ``obj``.

    :param obj: a ``tokenizers.Tokenizer``, a fast tokenizer of ``transformers``, a tokenizer of
        ``mistral_common``, an object that holds one of these (a processor, an engine's wrapper), or a
        :class:`Tokenizer`.

    Facts about the vocabulary are cached for as long as ``obj`` lives, so that one parser per
    request is cheap.  Add tokens to the vocabulary before its first use here.
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
    """Yield an object, the tokenizer that it holds, the one that this one holds, and so on.

    Processors hold tokenizers of ``transformers``, and these hold one of ``tokenizers``;
    ``mistral_common`` and engines have wrappers of their own.
    """
    for _ in range(4):  # the longest known chain has three
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
    """Assign a private code point to each special token that occurs in one of the literals.

    A token may be a part of a literal, like ``｜DSML｜`` in ``<｜DSML｜invoke``.  The result depends
    only on the set of these tokens, not on the order of the literals or on ids.  So vocabularies
    with the same markers share one compiled dialect.
    """
    # The literals are joined with a surrogate, so that no token can match across two of them.
    haystack = chr(_FIRST_SURROGATE).join(literals)
    # Single characters and whitespace are excluded, because ordinary text uses the same tokens.
    found = sorted(
        {
            token
            for token in tokenizer.special_tokens().values()
            if len(token) > 1 and token in haystack and not token.isspace()
        }
    )
    if len(found) > _SURROGATES:
        raise UsageError(f"{len(found)} special tokens occur in the markers, at most {_SURROGATES} can")
    return {token: chr(_FIRST_SURROGATE + number) for number, token in enumerate(found)}


def assign_more_code_points(taken: Mapping[str, str], tokenizer: Tokenizer) -> dict[str, str]:
    """Assign private code points to control tokens outside the dialect's markup, such as vision tokens.

    Vocabularies also add words and HTML tags, which are text.  So a token counts only if the
    vocabulary flags it, or if it looks like a control token.
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

    The leftmost match counts, then the longest, as in tokenizers.
    """
    if not code_points:
        return literal
    return pattern_of_tokens(tuple(code_points)).sub(lambda match: code_points[match[0]], literal)


@lru_cache(maxsize=256)
def pattern_of_tokens(tokens: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for any of these tokens, which prefers the longest one."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(re.escape(token) for token in longest_first))


# --- spellings of ordinary tokens ---


def _byte_alphabet() -> dict[str, int]:
    """Build GPT-2's alphabet: a printable character for each byte, the byte's own one if it is printable."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + number): byte for number, byte in enumerate(others)})
    return alphabet


_BYTE_ALPHABET: Final = _byte_alphabet()
_BYTE_PIECE: Final = re.compile("<0x([0-9A-Fa-f]{2})>")


class _Spelling:
    """Rule that converts each piece of a vocabulary to bytes."""

    __slots__ = ("byte_fallback", "byte_level", "replace")

    def __init__(self, *, byte_level: bool, byte_fallback: bool, replace: Sequence[tuple[str, str]]) -> None:
        self.byte_level = byte_level
        """Whether each character of a piece is a byte in GPT-2's alphabet."""
        self.byte_fallback = byte_fallback
        """Whether ``<0x0A>`` is a byte."""
        self.replace = replace
        """Replacements, such as a space for U+2581."""

    def to_bytes(self, piece: str) -> bytes:
        if self.byte_fallback and (byte := _BYTE_PIECE.fullmatch(piece)):
            return bytes.fromhex(byte[1])
        for old, new in self.replace:
            piece = piece.replace(old, new)
        if self.byte_level:
            try:
                return bytes([_BYTE_ALPHABET[character] for character in piece])
            except KeyError:  # added tokens do not use the alphabet
                pass
        return piece.encode()


_SENTENCEPIECE: Final = _Spelling(byte_level=False, byte_fallback=True, replace=(("\u2581", " "),))


def _decoder_steps(decoder: Any) -> list[Any]:
    """Return the steps of a decoder, which may be a sequence of decoders."""
    if isinstance(decoder, dict) and decoder.get("type") == "Sequence":
        return [step for inner in decoder["decoders"] for step in _decoder_steps(inner)]
    return [decoder]


def _spelling_rule(decoder: object) -> _Spelling | None:
    """Return the spelling rule of a decoder in ``tokenizer.json``.

    None means that the text of a token depends on its neighbours, or that a step is unknown.
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
                pass  # only the ends of the whole text
            case _:
                return None
    return _Spelling(byte_level=byte_level, byte_fallback=byte_fallback, replace=replace)


# --- adapters; a *source* is a protocol for a class of another package ---


class VocabularyFacts:
    """Cached facts about one tokenizer.

    They must not refer to the tokenizer.  They are stored under a weak reference to it, and a
    reference back would keep it alive forever.
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
        """Literals of the special tokens, by id."""
        self.literals = frozenset(special.values())
        self.control = frozenset(control)
        """Literals that the vocabulary flags as control tokens, as opposed to added words."""
        self.spelling = spelling
        """Spelling rule of the ordinary tokens, if there is one."""
        self.plain_token = plain_token
        """Id of a plain token that others are decoded next to, if there is no spelling rule."""
        self.bytes: dict[int, bytes] = {}
        """Bytes of ordinary tokens, converted on demand.

        A model uses few of them, and converting the whole vocabulary would delay a server's first request.
        """
        self.texts = TokenTexts()
        """Texts of the ordinary tokens that consist of whole characters."""
        self.token_dialects: dict[Dialect, TokenDialect] = {}
        """Dialects with the code points of this vocabulary."""


_VOCABULARIES: Final[WeakKeyDictionary[object, VocabularyFacts]] = WeakKeyDictionary()


class _Adapter:
    """Base of the adapters: a :class:`Tokenizer` with cached facts."""

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
    """Return the cached facts about a tokenizer, or new ones if it cannot be a weak key."""
    if isinstance(tokenizer, _Adapter):
        return tokenizer.facts
    try:
        facts = _VOCABULARIES.get(tokenizer)
        if facts is None:
            facts = _VOCABULARIES[tokenizer] = VocabularyFacts(tokenizer.special_tokens())
    except TypeError:  # not hashable, or no weak references
        return VocabularyFacts(tokenizer.special_tokens())
    return facts


class _AddedToken(Protocol):
    @property
    def content(self) -> str: ...
    @property
    def special(self) -> bool: ...


@runtime_checkable
class _HuggingFaceSource(Protocol):
    """``tokenizers.Tokenizer``."""

    @property
    def decoder(self) -> object: ...
    def id_to_token(self, id: int, /) -> str | None: ...
    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = ...) -> str: ...
    def get_added_tokens_decoder(self) -> Mapping[int, _AddedToken]: ...
    def to_str(self) -> str: ...
    def encode(self, sequence: Any, *, add_special_tokens: bool = ...) -> Any: ...


class _HuggingFace(_Adapter):
    """Adapter for ``tokenizers.Tokenizer``.

    Byte-level and SentencePiece-like vocabularies, which all supported models have, convert each token
    by itself, by the decoder of ``tokenizer.json``.  For other vocabularies (WordPiece, custom decoders) the
    text of a token is whatever ``decode`` adds between two plain tokens.  That is right for
    whole characters; a part of one becomes U+FFFD.
    """

    __slots__ = ("_source",)

    def __init__(self, source: _HuggingFaceSource) -> None:
        self._source = source
        super().__init__(source)

    def _read_facts(self) -> VocabularyFacts:
        try:
            decoder = self._decoder()
        except Exception:  # noqa: BLE001 - the only class that a decoder written in Python raises here
            decoder = None
        spelling = _spelling_rule(decoder)
        found = self._source.get_added_tokens_decoder()
        added = {id: token.content for id, token in found.items()}
        control = [token.content for token in found.values() if token.special]
        # Gemma adds runs of spaces and newlines as tokens, with U+2581 in place of spaces.
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
        # The pickled decoder is its part of tokenizer.json; to write the whole file takes up to a second.
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
        except OverflowError:  # not an unsigned 32-bit number
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
    """``SentencePieceTokenizer`` of ``mistral_common``."""

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
    """``Tekkenizer`` of ``mistral_common``."""

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
        # The tokenizer does not look for special tokens in text, so they are searched for here.
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
"""Adapters by class: recognising a tokenizer by its methods takes longer than reading a token."""


@runtime_checkable
class _HasBackend(Protocol):
    """Fast tokenizer of ``transformers``."""

    @property
    def backend_tokenizer(self) -> object: ...


@runtime_checkable
class _HasInstruct(Protocol):
    """``MistralTokenizer`` of ``mistral_common``."""

    @property
    def instruct_tokenizer(self) -> object: ...


@runtime_checkable
class _HasTokenizer(Protocol):
    """``InstructTokenizer`` of ``mistral_common``, a processor, or an engine's wrapper."""

    @property
    def tokenizer(self) -> object: ...


AnyTokenizer: TypeAlias = (
    Tokenizer | _HuggingFaceSource | _SentencePieceSource | _HasBackend | _HasInstruct | _HasTokenizer
)
"""Any object that holds a tokenizer: a :class:`Tokenizer`, a tokenizer of ``tokenizers``, ``transformers``
or ``mistral_common``, or an object that has one of them as an attribute."""
