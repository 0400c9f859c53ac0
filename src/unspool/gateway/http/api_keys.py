"""API keys with names, model lists and limits.

Keys come from the setting ``api_keys``, which lists them, and from the file of the setting ``api_keys_file``.
The file is TOML with one table per key::

    [alice]
    key = "sk-..."              # or: hash = "sha256:..."
    models = ["qwen3-8b"]       # default: all models
    max_concurrency = 4         # default of each limit: 0, no limit
    requests_per_minute = 60
    tokens_per_minute = 100000

A key may be given as its SHA-256 hash, so that the file does not contain the key itself.  Keys are random, so
the hash needs no salt: nobody can try all of them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...errors import UsageError, suggestion
from ..settings import Settings
from ..telemetry.logs import log

_HASH: Final = re.compile(r"sha256:([0-9a-fA-F]{64})")
_LIMITS: Final = ("max_concurrency", "requests_per_minute", "tokens_per_minute")
_FIELDS: Final = ("key", "hash", "models", *_LIMITS)
_NAME: Final = re.compile(r"[\w.@-]{1,64}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """API key of a client, without the key itself."""

    name: str
    """Name in the log."""
    digest: bytes
    """SHA-256 hash of the key."""
    models: frozenset[str] | None = None
    """Names of the models that the key may use; None for all models."""
    max_concurrency: int = 0
    """Maximum number of concurrent requests; 0 for no limit, as for the other limits."""
    requests_per_minute: int = 0
    tokens_per_minute: int = 0

    @property
    def is_limited(self) -> bool:
        """True if the key has any limit."""
        return bool(self.max_concurrency or self.requests_per_minute or self.tokens_per_minute)


def digest_of(key: str) -> bytes:
    """Return the hash of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def load_api_keys(settings: Settings) -> tuple[ApiKey, ...]:
    """Return all keys that the gateway accepts; raise an error if the file is not valid."""
    keys = [ApiKey(f"api_keys[{number}]", _read_key(key)) for number, key in enumerate(settings.api_keys)]
    if settings.api_keys_file:
        keys += _read_file(settings.api_keys_file)
    names: dict[bytes, str] = {}
    for key in keys:
        if key.digest in names:
            raise UsageError(f"{names[key.digest]} and {key.name} are the same API key: remove one of them")
        names[key.digest] = key.name
    return tuple(keys)


def _read_key(text: str) -> bytes:
    """Return the hash of a key that is given as text or as its hash."""
    match = _HASH.fullmatch(text)
    return bytes.fromhex(match[1]) if match else digest_of(text)


def _read_file(path: str) -> list[ApiKey]:
    try:
        with Path(path).open("rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & stat.S_IROTH:
                log(
                    logging.WARNING,
                    "api_keys_file_readable",
                    path=path,
                    reason="every user can read the keys",
                )
            tables = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"api_keys_file: cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"api_keys_file: {path} is not TOML: {error}") from error
    if not tables:
        raise UsageError(f"api_keys_file: {path} contains no keys; add a table such as [alice] with a key")
    return [_read_table(name, table, f"{path}: {name}: ") for name, table in tables.items()]


def _read_table(name: str, table: object, place: str) -> ApiKey:
    """Return the key that a table of the file describes.

    :param place: the file and the table, for error messages.  They never contain a key.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{place}expected a name of up to 64 letters, digits and ._@-")
    if not isinstance(table, dict):
        raise UsageError(f"{place}expected a table: [{name}] with a key")
    for field in table:
        if field not in _FIELDS:
            raise UsageError(f"{place}unknown field {field!r}{suggestion(field, _FIELDS)}")
    models = table.get("models")
    if models is not None and not (isinstance(models, list) and all(isinstance(one, str) for one in models)):
        raise UsageError(f"{place}models: expected a list of model names")
    return ApiKey(
        name,
        _read_secret(table, place),
        models=None if models is None else frozenset(models),
        **{limit: _read_limit(table, limit, place) for limit in _LIMITS},
    )


def _read_secret(table: Mapping[str, Any], place: str) -> bytes:
    key, hashed = table.get("key"), table.get("hash")
    if (key is None) == (hashed is None):
        raise UsageError(f"{place}expected either key or hash")
    if hashed is not None:
        match = _HASH.fullmatch(hashed) if isinstance(hashed, str) else None
        if match is None:
            raise UsageError(f"{place}hash: expected sha256: and 64 hexadecimal digits")
        return bytes.fromhex(match[1])
    if not isinstance(key, str) or not key.strip():
        raise UsageError(f"{place}key: expected a string that is not empty")
    return _read_key(key)


def _read_limit(table: Mapping[str, Any], name: str, place: str) -> int:
    value = table.get(name, 0)
    if type(value) is not int or value < 0:
        raise UsageError(f"{place}{name}: expected a whole number of at least 0")
    return value
