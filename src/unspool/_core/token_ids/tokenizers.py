"""Token ids: the same machine, with markers that cannot be faked.

A literal that the vocabulary holds as *one* token (``<tool_call>``,
``[TOOL_CALLS]``) is written by the model in two ways: as that token, which
means it, and spelt out in ordinary tokens, which merely mentions it.  Text
cannot tell them apart, ids can.  So in id mode every such literal becomes one
private code point, in the compiled templates (:func:`substitute`) and in the
input (``Detokenizer``); the machine compares characters as ever.

The private code points are lone surrogates, U+D800 to U+DFFF.  No UTF-8
decoder ever produces one, so ordinary text cannot collide with them.  For the
same reason they must not get out: what leaves the parser goes through
``restore``, and offsets through ``OffsetMap`` (``detokenizer.py``).

Tokenizers are recognised by their methods; nothing here imports one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable
from weakref import WeakKeyDictionary

from ...errors import UsageError
from ..scan.control_tokens import is_control_token
from .token_texts import TokenTexts

if TYPE_CHECKING:
    from ...dialects._declaration import Dialect
    from .reader import TokenDialect

_FIRST_SURROGATE: Final = 0xD800
_SURROGATES: Final = 0x800

# --- what the parser asks of a tokenizer ---


@runtime_checkable
class Tokenizer(Protocol):
    """What token-id mode needs to know of a vocabulary."""

    def token_bytes(self, id: int) -> bytes:
        """The UTF-8 bytes of an ordinary token, as it stands in the middle of a text.

        They may end, or begin, inside a character.  Raises ``LookupError`` if
        the vocabulary has no such id.
        """
        ...

    def special_tokens(self) -> Mapping[int, str]:
        """The literal of every token that is matched as a whole: added, special and control tokens.

        Runs of white space do not belong here, even where a vocabulary adds
        them like that: they are text.
        """
        ...


@runtime_checkable
class Encoder(Tokenizer, Protocol):
    """A vocabulary that also writes."""

    def encode(self, text: str) -> Sequence[int]:
        """The ids of a text, special tokens in it included, and nothing put before or behind it."""
        ...


def as_encoder(obj: object) -> Encoder:
    """The tokenizer in ``obj``, which must be able to write ids, too."""
    tokenizer = as_tokenizer(obj)
    if isinstance(tokenizer, Encoder):
        return tokenizer
    raise UsageError(
        f"an object of type {type(obj).__module__}.{type(obj).__qualname__} cannot encode text with special "
        "tokens in it: pass a tokenizers.Tokenizer, a fast tokenizer of transformers, a Tekken tokenizer "
        "of mistral_common, or an object that has the method encode(text), too"
    )


def as_tokenizer(obj: object) -> Tokenizer:
    """The tokenizer in ``obj``, whichever package it comes from.

    Takes a ``tokenizers.Tokenizer``, a ``transformers`` fast tokenizer, a
    ``mistral_common`` tokenizer, an object that holds one of these (a
    processor, an engine's wrapper), or a :class:`Tokenizer` as it is.

    What is learnt about a vocabulary is kept for as long as ``obj`` lives, so
    that one parser per request is cheap; add tokens to it before the first.
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
    """A private code point for each special token that occurs in one of the literals.

    A token may be only part of a literal: ``｜DSML｜`` in ``<｜DSML｜invoke``.
    The result depends on the set of these tokens alone, neither on the order
    of the literals nor on ids, so vocabularies that agree on the markers share
    one compiled machine.
    """
    # A surrogate between the literals: no token can match across the border.
    haystack = chr(_FIRST_SURROGATE).join(literals)
    # A single character or white space means nothing on its own: as much text as markup.
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


def more_code_points(taken: Mapping[str, str], tokenizer: Tokenizer) -> dict[str, str]:
    """Private code points for control tokens that are nobody's markup: vision, fill-in-the-middle.

    Vocabularies also add words and tags of HTML; these are text, so looks decide where no flag does.
    """
    learnt = learnt_of(tokenizer)
    others = {
        token
        for token in learnt.literals
        if len(token) > 1 and token not in taken and (token in learnt.control or is_control_token(token))
    }
    room = range(_FIRST_SURROGATE + len(taken), _FIRST_SURROGATE + _SURROGATES)
    return {token: chr(number) for number, token in zip(room, sorted(others), strict=False)}


def substitute(literal: str, code_points: Mapping[str, str]) -> str:
    """``literal`` with its special tokens as code points.

    Leftmost first, then longest, which is how tokenizers look for them.
    """
    if not code_points:
        return literal
    return one_of(tuple(code_points)).sub(lambda match: code_points[match[0]], literal)


@lru_cache(maxsize=256)
def one_of(tokens: tuple[str, ...]) -> re.Pattern[str]:
    """Finds the first of these, and at one place the longest."""
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(re.escape(token) for token in longest_first))


# --- how vocabularies spell tokens ---


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: one printable character per byte, its own where it has a printable one."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + number): byte for number, byte in enumerate(others)})
    return alphabet


_BYTE_ALPHABET: Final = _byte_alphabet()
_BYTE_PIECE: Final = re.compile("<0x([0-9A-Fa-f]{2})>")


class _Spelling:
    """How the pieces of a vocabulary stand for bytes, one piece at a time."""

    __slots__ = ("byte_fallback", "byte_level", "replace")

    def __init__(self, *, byte_level: bool, byte_fallback: bool, replace: Sequence[tuple[str, str]]) -> None:
        self.byte_level = byte_level
        """Each character is a byte, in GPT-2's alphabet."""
        self.byte_fallback = byte_fallback
        """``<0x0A>`` is a byte."""
        self.replace = replace
        """What stands for something else: U+2581 for a space."""

    def to_bytes(self, piece: str) -> bytes:
        if self.byte_fallback and (byte := _BYTE_PIECE.fullmatch(piece)):
            return bytes.fromhex(byte[1])
        for old, new in self.replace:
            piece = piece.replace(old, new)
        if self.byte_level:
            try:
                return bytes([_BYTE_ALPHABET[character] for character in piece])
            except KeyError:  # an added token, which is not spelt in the alphabet
                pass
        return piece.encode()


_SENTENCEPIECE: Final = _Spelling(byte_level=False, byte_fallback=True, replace=(("\u2581", " "),))


def _steps(decoder: Any) -> list[Any]:
    """The decoders of a sequence, or the only one."""
    if isinstance(decoder, dict) and decoder.get("type") == "Sequence":
        return [step for inner in decoder["decoders"] for step in _steps(inner)]
    return [decoder]


def _spelling(decoder: object) -> _Spelling | None:
    """What a decoder of ``tokenizer.json`` does to each token, or None if that depends on its neighbours."""
    byte_level = byte_fallback = fused = False
    replace: list[tuple[str, str]] = []
    for step in _steps(decoder):
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


# --- adapters: a source is what we recognise of a foreign class ---


class Learnt:
    """What has been learnt of one tokenizer.

    It must not refer to the tokenizer: it is the value under that weak key,
    and would keep it alive for ever.
    """

    __slots__ = ("bytes", "control", "filling", "literals", "readings", "special", "spelling", "texts")

    def __init__(
        self,
        special: Mapping[int, str],
        spelling: _Spelling | None = None,
        filling: int | None = None,
        control: Iterable[str] = (),
    ) -> None:
        self.special = special
        """Id and literal of the special tokens."""
        self.literals = frozenset(special.values())
        self.control = frozenset(control)
        """Those that the vocabulary says are for control, and not added words."""
        self.spelling = spelling
        """How the other tokens are spelt, where a rule says so."""
        self.filling = filling
        """A plain token to decode others with, where there is no such rule."""
        self.bytes: dict[int, bytes] = {}
        """The other tokens, as they are first needed: a model uses few of them, and
        converting a whole vocabulary would stall the first request of a server."""
        self.texts = TokenTexts()
        """The text of those that are whole characters."""
        self.readings: dict[Dialect, TokenDialect] = {}
        """What dialects are to it."""


_VOCABULARIES: Final[WeakKeyDictionary[object, Learnt]] = WeakKeyDictionary()


class _Adapter:
    """A :class:`Tokenizer` that remembers."""

    __slots__ = ("_bytes", "learnt")

    def __init__(self, source: object) -> None:
        learnt = _VOCABULARIES.get(source)
        if learnt is None:
            learnt = _VOCABULARIES[source] = self._study()
        self.learnt = learnt
        self._bytes = learnt.bytes

    def token_bytes(self, id: int) -> bytes:
        known = self._bytes.get(id)
        if known is None:
            known = self._bytes[id] = self._read(id)
        return known

    def special_tokens(self) -> Mapping[int, str]:
        return self.learnt.special

    def _study(self) -> Learnt:
        raise NotImplementedError

    def _read(self, id: int) -> bytes:
        raise NotImplementedError


def learnt_of(tokenizer: Tokenizer) -> Learnt:
    """What is known of a tokenizer; of one that is not ours, only what it says itself."""
    if isinstance(tokenizer, _Adapter):
        return tokenizer.learnt
    try:
        learnt = _VOCABULARIES.get(tokenizer)
        if learnt is None:
            learnt = _VOCABULARIES[tokenizer] = Learnt(tokenizer.special_tokens())
    except TypeError:  # it can be no key, or no weak one
        return Learnt(tokenizer.special_tokens())
    return learnt


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
    """Follows the decoder of ``tokenizer.json`` where it treats each token by itself.

    That is so for byte-level and for SentencePiece-like vocabularies, that is,
    for all of the models this library is about.  Otherwise (WordPiece, custom
    decoders) a token's text is what ``decode`` adds between two plain tokens:
    right for whole characters, while a part of one comes out as U+FFFD.
    """

    __slots__ = ("_source",)

    def __init__(self, source: _HuggingFaceSource) -> None:
        self._source = source
        super().__init__(source)

    def _study(self) -> Learnt:
        try:
            decoder = self._decoder()
        except Exception:  # noqa: BLE001 - the class it raises for a decoder written in Python
            decoder = None
        spelling = _spelling(decoder)
        found = self._source.get_added_tokens_decoder()
        added = {id: token.content for id, token in found.items()}
        control = [token.content for token in found.values() if token.special]
        # Gemma adds runs of spaces and line feeds, the former spelt with U+2581.
        special = {
            id: literal
            for id, literal in sorted(added.items())
            if (spelling.to_bytes(literal) if spelling else literal.encode()).strip()
        }
        return Learnt(special, spelling, None if spelling else self._plain_token(added), control)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._source.encode(text, add_special_tokens=False).ids
        return ids

    def _decoder(self) -> object:
        # Pickled, a decoder is its part of tokenizer.json; the whole takes up to a second.
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
        spelling = self.learnt.spelling
        if spelling is not None:
            return spelling.to_bytes(piece)
        filling = self.learnt.filling
        if filling is None:
            return self._text([id]).encode()
        left = self._text([filling])
        right = self._text([filling, filling]).removeprefix(left)
        text = self._text([filling, id, filling])
        return text.removeprefix(left).removesuffix(right).encode()


@runtime_checkable
class _SentencePieceSource(Protocol):
    """``mistral_common``'s SentencePieceTokenizer."""

    @property
    def n_words(self) -> int: ...
    @property
    def special_ids(self) -> AbstractSet[int]: ...
    def id_to_piece(self, token_id: int, /) -> str: ...


class _SentencePiece(_Adapter):
    __slots__ = ("_source",)

    def __init__(self, source: _SentencePieceSource) -> None:
        self._source = source
        super().__init__(source)

    def _study(self) -> Learnt:
        source = self._source
        special = {id: source.id_to_piece(id) for id in sorted(source.special_ids)}
        return Learnt(special, _SENTENCEPIECE, control=special.values())

    def _read(self, id: int) -> bytes:
        if not 0 <= id < self._source.n_words:
            raise KeyError(id)
        return _SENTENCEPIECE.to_bytes(self._source.id_to_piece(id))


@runtime_checkable
class _TekkenSource(_SentencePieceSource, Protocol):
    """``mistral_common``'s Tekkenizer."""

    def id_to_byte_piece(self, token_id: int, /) -> bytes: ...
    def encode(self, s: str, /, bos: bool, eos: bool) -> list[int]: ...


class _Tekken(_Adapter):
    __slots__ = ("_source",)

    def __init__(self, source: _TekkenSource) -> None:
        self._source = source
        super().__init__(source)

    def _study(self) -> Learnt:
        source = self._source
        special = {id: source.id_to_piece(id) for id in sorted(source.special_ids)}
        return Learnt(special, control=special.values())

    def _read(self, id: int) -> bytes:
        if not 0 <= id < self._source.n_words:
            raise KeyError(id)
        return self._source.id_to_byte_piece(id)

    def encode(self, text: str) -> list[int]:
        # It takes text for text: what is special in it must be found before.
        ids = {literal: id for id, literal in self.learnt.special.items()}
        out: list[int] = []
        at = 0
        for found in one_of(tuple(ids)).finditer(text):
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
"""Adapters by class: to recognise one by its methods takes longer than to read a token."""


@runtime_checkable
class _HasBackend(Protocol):
    """A fast tokenizer of ``transformers``."""

    @property
    def backend_tokenizer(self) -> object: ...


@runtime_checkable
class _HasInstruct(Protocol):
    """``mistral_common``'s MistralTokenizer."""

    @property
    def instruct_tokenizer(self) -> object: ...


@runtime_checkable
class _HasTokenizer(Protocol):
    """``mistral_common``'s InstructTokenizer; processors; wrappers of engines."""

    @property
    def tokenizer(self) -> object: ...


AnyTokenizer: TypeAlias = (
    Tokenizer | _HuggingFaceSource | _SentencePieceSource | _HasBackend | _HasInstruct | _HasTokenizer
)
"""Whatever a tokenizer is taken from: a :class:`Tokenizer`, a tokenizer of ``tokenizers``,
``transformers`` or ``mistral_common`` as it is, or an object that holds one of them."""
