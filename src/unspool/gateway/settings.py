"""Settings: what a gateway is told, by flags, by the environment and by a file.

One table, :class:`Settings`, is all there is to know: a field's name is the key
in the TOML file, in capitals behind ``UNSPOOL_`` the variable of the environment,
and with dashes the flag.  Flags win over the environment, the environment over
the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

from .._errors import UsageError
from .._policies import Policies

UpstreamKind: TypeAlias = Literal["embedded", "completions", "chat", "replay"]
EngineName: TypeAlias = Literal["auto", "vllm", "sglang", "llamacpp", "tgi", "mlx", "openai"]

PREFIX: Final = "UNSPOOL_"
_SECRETS: Final = ("api_keys", "upstream_key")


def _setting(default: Any, help: str, *, flag: bool = False) -> Any:
    """A field: its default, a line of help, and whether ``serve --help`` lists it."""
    metadata = {"help": help, "flag": flag}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set."""

    upstream: UpstreamKind = _setting(
        "embedded", "where text comes from: embedded, completions, chat or replay", flag=True
    )
    url: str = _setting("", "address of the upstream, such as http://127.0.0.1:8000", flag=True)
    engine: EngineName = _setting(
        "auto", "what answers there: vllm, sglang, llamacpp, tgi, mlx, openai", flag=True
    )
    upstream_key: str = _setting("", "API key for the upstream")
    upstream_model: str = _setting("", "the model's name there (default: the first it lists)")
    model: str = _setting("", "the model's name here (default: as there)", flag=True)
    aliases: tuple[str, ...] = _setting((), "other names that requests may use; * for any")
    model_dir: str = _setting(
        "", "directory with the model's tokenizer and template (not its weights)", flag=True
    )
    template: str = _setting("", "file with the chat template", flag=True)
    dialect: str = _setting("auto", "how the model writes calls (default: told by its template)", flag=True)
    file: str = _setting("", "recorded streams for replay, or another GGUF for embedded", flag=True)
    replay_delay: float = _setting(0.0, "seconds between recorded chunks")
    threads: int = _setting(0, "threads of the embedded engine (default: one per core, at most 4)")
    context: int = _setting(4096, "tokens of context per request of the embedded engine")
    slots: int = _setting(2, "requests that the embedded engine serves at once")

    host: str = _setting("127.0.0.1", "address to listen on", flag=True)
    port: int = _setting(8765, "port to listen on", flag=True)
    api_keys: tuple[str, ...] = _setting((), "keys of which a request must show one", flag=True)
    cors_origins: tuple[str, ...] = _setting((), "web pages that may call, such as https://chat.example", flag=True)

    connect_timeout: float = _setting(10.0, "seconds to reach the upstream")
    idle_timeout: float = _setting(300.0, "seconds that the upstream may be silent", flag=True)
    client_timeout: float = _setting(120.0, "seconds that a client may leave its stream unread")
    shutdown_timeout: int = _setting(30, "seconds to finish streams when told to stop")
    max_request_bytes: int = _setting(32 << 20, "size of a request", flag=True)
    max_output_bytes: int = _setting(16 << 20, "size of one request's output", flag=True)
    max_concurrency: int = _setting(0, "requests at once; 0: no limit")
    max_tokens: int = _setting(4096, "length of an answer where a request does not say and the engine must know")

    strict_tools: bool = _setting(False, "hold calls to their schemas although the request does not ask")
    token_ids: bool = _setting(False, "read token ids instead of text (vllm; needs model_dir)")
    hosted_tools: Literal["reject", "ignore"] = _setting("reject", "what to do with tools that only their vendor can run")
    policies: Mapping[str, str] = _setting(dict, "choices where users disagree; see the page on policies")
    chat_template_kwargs: Mapping[str, Any] = _setting(dict, "variables for the template, such as enable_thinking")

    log_level: Literal["debug", "info", "warning", "error"] = _setting("info", "debug, info, warning or error", flag=True)
    log_format: Literal["json", "text"] = _setting("json", "json or text")
    log_contents: bool = _setting(False, "log what users and models write; off for a reason")

    def __post_init__(self) -> None:
        for name, least in (("port", 0), ("max_request_bytes", 1), ("max_output_bytes", 1), ("max_concurrency", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"{name}={getattr(self, name)}: at least {least}")
        for name in ("connect_timeout", "idle_timeout", "client_timeout"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)}: a number of seconds, more than 0")
        if self.upstream in ("completions", "chat") and not self.url:
            raise UsageError(f"upstream={self.upstream} needs the address of the upstream: set url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise UsageError(f"url={self.url!r}: an address that begins with http:// or https://")
        if self.upstream == "replay" and not self.file:
            raise UsageError("upstream=replay needs recorded streams: set file")
        self.parser_policies()

    def parser_policies(self) -> Policies:
        """The policies for parsers and wires."""
        known = {one.name for one in fields(Policies)}
        unknown = sorted(set(self.policies) - known)
        if unknown:
            raise UsageError(f"policies has no {unknown[0]!r}: choose from {', '.join(sorted(known))}")
        return Policies(**self.policies)  # type: ignore[arg-type]

    def shown(self) -> dict[str, object]:
        """What differs from the defaults, for the log; keys are not shown."""
        out: dict[str, object] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value != _default(one):
                out[one.name] = "set" if one.name in _SECRETS else value
        return out


def _default(one: Any) -> object:
    return one.default_factory() if callable(one.default_factory) else one.default


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | None = None,
) -> Settings:
    """The settings from a file, the environment and flags.

    >>> load_settings({"port": 9000}, environment={"UNSPOOL_PORT": "9001", "UNSPOOL_HOST": "::1"}).port
    9000
    """
    environment = os.environ if environment is None else environment
    config = config or environment.get(f"{PREFIX}CONFIG")
    hints = get_type_hints(Settings)
    values: dict[str, object] = _from_file(config, hints) if config else {}
    for name in hints:
        text = environment.get(PREFIX + name.upper())
        if text is not None:
            values[name] = from_text(name, text, PREFIX + name.upper())
    values.update({name: value for name, value in (flags or {}).items() if value is not None})
    return Settings(**values)  # type: ignore[arg-type]


def _from_file(path: str, hints: Mapping[str, object]) -> dict[str, object]:
    try:
        with Path(path).open("rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    out: dict[str, object] = {}
    for key, value in found.items():
        name = key.replace("-", "_")
        if name not in hints:
            raise UsageError(f"{path}: there is no setting {key!r}")
        out[name] = _typed(name, value, hints[name], f"{path}: {key}")
    return out


def _typed(name: str, value: object, hint: object, place: str) -> object:
    """A value of the file, checked."""
    origin = get_origin(hint)
    if origin is Literal and value in get_args(hint):
        return value
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint in (str, int, bool) and type(value) is hint:
        return value
    if origin is tuple and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    if isinstance(value, dict) and isinstance(_default_of(name), dict):
        return value
    raise UsageError(f"{place} = {value!r}: {_expected(hint)}")


def _default_of(name: str) -> object:
    return next(_default(one) for one in fields(Settings) if one.name == name)


def _expected(hint: object) -> str:
    if get_origin(hint) is Literal:
        return f"choose one of {', '.join(map(str, get_args(hint)))}"
    if get_origin(hint) is tuple:
        return "a list of strings"
    names = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
    return names.get(hint, "a table")  # type: ignore[call-overload, no-any-return]


def from_text(name: str, text: str, place: str | None = None) -> object:
    """A value as the environment and flags spell it."""
    hint = get_type_hints(Settings)[name]
    place = place or name
    if get_origin(hint) is tuple:
        return tuple(part for part in map(str.strip, text.split(",")) if part)
    if hint is bool:
        words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
        if text.strip().lower() in words:
            return words[text.strip().lower()]
    elif hint in (int, float):
        try:
            return int(text) if hint is int else float(text)
        except ValueError:
            pass
    elif get_origin(hint) is Literal:
        if text in get_args(hint):
            return text
    elif isinstance(_default_of(name), dict):
        return dict(_pair(part, place) for part in text.split(",") if part.strip())
    else:
        return text
    raise UsageError(f"{place}={text!r}: {_expected(hint)}")


def _pair(text: str, place: str) -> tuple[str, object]:
    """``key=value``; the value is JSON if it is a word of JSON."""
    key, equals, value = text.strip().partition("=")
    if not equals:
        raise UsageError(f"{place}: {text!r} is not key=value")
    words: dict[str, object] = {"true": True, "false": False}
    return key.strip(), words.get(value.strip(), value.strip())
