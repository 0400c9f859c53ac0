"""Settings: what a gateway is told, by flags, by the environment and by a file.

One table, :class:`Settings`, is all there is to know: a field's name is the key
in the TOML file, in capitals behind ``UNSPOOL_`` the variable of the environment,
and with dashes the flag.  Flags win over the environment, the environment over
the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

from ..errors import UsageError
from ..policies import Policies

UpstreamKind: TypeAlias = Literal["embedded", "completions", "chat", "replay"]
EngineName: TypeAlias = Literal["auto", "vllm", "sglang", "llamacpp", "ollama", "tgi", "mlx", "openai"]

PREFIX: Final = "UNSPOOL_"
PORT: Final = 8765
_SECRETS: Final = ("api_keys", "upstream_key", "seal_key")
_ONE_MODELS: Final = (
    "source",
    "url",
    "urls",
    "upstream_key",
    "upstream_model",
    "model",
    "aliases",
    "model_dir",
    "template",
    "file",
)
"""Settings that say which model it is: where there are several, each has its own."""
_PER_MODEL: Final = (
    *_ONE_MODELS,
    "upstream",
    "engine",
    "dialect",
    "replay_delay",
    "threads",
    "context",
    "slots",
    "connect_timeout",
    "idle_timeout",
    "max_output_bytes",
    "max_tokens",
    "strict_tools",
    "token_ids",
    "policies",
    "malformed_retries",
    "chat_template_kwargs",
)
"""Settings that the table of a model may have; what it does not have is as for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set."""

    source: Annotated[str, "a GGUF file, a model's name or a server's address"] = ""
    upstream: Annotated[UpstreamKind, "embedded (the default), completions, chat or replay"] = "embedded"
    url: Annotated[str, "the upstream's address, as http://127.0.0.1:8000"] = ""
    urls: Annotated[tuple[str, ...], "further upstreams that serve the same model"] = ()
    engine: Annotated[EngineName, "vllm, sglang, llamacpp, ollama, tgi, mlx, openai, auto"] = "auto"
    upstream_key: Annotated[str, "API key for the upstream"] = ""
    upstream_model: Annotated[str, "the model's name there (default: the first it lists)"] = ""
    model: Annotated[str, "the model's name here (default: as there)"] = ""
    aliases: Annotated[tuple[str, ...], "other names that requests may use; * for any"] = ()
    strict_model_names: Annotated[bool, "refuse requests for any other name than the model's"] = False
    model_dir: Annotated[str, "directory of the model's tokenizer and template"] = ""
    template: Annotated[str, "file with the chat template"] = ""
    dialect: Annotated[str, "how calls are written (default: as the template)"] = "auto"
    file: Annotated[str, "recordings for replay, or a GGUF for embedded"] = ""
    replay_delay: Annotated[float, "seconds between recorded chunks"] = 0.0
    threads: Annotated[int, "threads of the embedded engine (default: half of the cores, at most 4)"] = 0
    context: Annotated[int, "tokens of context per request of the embedded engine and of Ollama"] = 4096
    slots: Annotated[int, "requests that the embedded engine serves at once"] = 2

    host: Annotated[str, "address to listen on (default: 127.0.0.1)"] = "127.0.0.1"
    port: Annotated[int, "port to listen on (default: 8765)"] = PORT
    workers: Annotated[int, "processes that share the port"] = 1
    api_keys: Annotated[tuple[str, ...], "keys of which a request must show one"] = ()
    seal_key: Annotated[str, "seals reasoning that clients keep (default: a new one at each start)"] = ""
    cors_origins: Annotated[tuple[str, ...], "web pages that may call, as https://chat.example"] = ()

    allow_no_keys: Annotated[
        bool, "answer everybody who can reach an address other than the loopback, without keys"
    ] = False
    hosts: Annotated[
        tuple[str, ...], "names that a gateway without keys answers to, besides localhost; * for any"
    ] = ()

    page: Annotated[bool, "a page for browsers at /: a chat with the model, the playground"] = True
    last_requests: Annotated[int, "requests that the page shows, kept in memory; 0: none"] = 50

    connect_timeout: Annotated[float, "seconds to reach the upstream"] = 10.0
    idle_timeout: Annotated[float, "how long the upstream may be silent (default: 300)"] = 300.0
    client_timeout: Annotated[float, "seconds that a client may leave its stream unread"] = 120.0
    header_timeout: Annotated[float, "seconds that a client may take for the head of a request"] = 20.0
    keep_alive_timeout: Annotated[float, "seconds that a connection may be without a request"] = 30.0
    ping_interval: Annotated[float, "seconds without events after which a stream shows that it lives"] = 15.0
    shutdown_timeout: Annotated[int, "seconds to finish streams when told to stop"] = 30
    max_request_bytes: Annotated[int, "size of a request"] = 32 << 20
    max_request_values: Annotated[int, "numbers, strings and other values of a request"] = 200_000
    max_pending_bytes: Annotated[int, "size of all large requests that are being read"] = 256 << 20
    max_pending_requests: Annotated[int, "requests whose bodies are being received at once"] = 1024
    max_connections: Annotated[int, "connections of clients at once"] = 4096
    max_output_bytes: Annotated[int, "how much it may send for a request"] = 16 << 20
    max_concurrency: Annotated[int, "requests at once; 0: no limit"] = 0
    store: Annotated[str, "SQLite file that keeps responses and conversations (default: in memory)"] = ""
    max_stored_bytes: Annotated[int, "size of the responses and conversations that are kept"] = 64 << 20
    max_tokens: Annotated[
        int, "length of an answer where a request does not say and the engine must know"
    ] = 4096

    strict_tools: Annotated[bool, "hold calls to their schemas although the request does not ask"] = False
    token_ids: Annotated[bool, "read token ids instead of text (vllm; needs model_dir)"] = False
    request_templates: Annotated[bool, "let requests to /v1/parse bring a chat template"] = False
    hosted_tools: Annotated[
        Literal["ignore", "reject"], "what to do with tools that only their vendor can run"
    ] = "ignore"
    policies: Annotated[Mapping[str, str], "choices where users disagree; see the page on policies"] = field(
        default_factory=dict
    )
    malformed_retries: Annotated[
        int, "malformed calls in a row that the model is told of; the next one ends the answer with an error"
    ] = 3
    chat_template_kwargs: Annotated[
        Mapping[str, Any], "variables for the template, such as enable_thinking"
    ] = field(default_factory=dict)

    models: Annotated[
        Mapping[str, Mapping[str, Any]],
        "a table of settings for each of several models (file only)",
    ] = field(default_factory=dict)

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], "debug, info, warning or error (default: info)"
    ] = "info"
    log_format: Annotated[
        Literal["auto", "json", "text"], "json or text (default: text in a terminal, else json)"
    ] = "auto"
    log_contents: Annotated[bool, "log what users and models write; off for a reason"] = False

    def __post_init__(self) -> None:
        for name, least in (
            ("port", 0),
            ("workers", 1),
            ("max_request_bytes", 1),
            ("max_request_values", 1),
            ("max_pending_bytes", 1),
            ("max_pending_requests", 1),
            ("max_connections", 1),
            ("max_output_bytes", 1),
            ("max_concurrency", 0),
            ("max_stored_bytes", 0),
            ("last_requests", 0),
            ("malformed_retries", 0),
        ):
            if getattr(self, name) < least:
                raise UsageError(f"{name}={getattr(self, name)}: at least {least}")
        if self.port > 65535:
            raise UsageError(f"port={self.port}: at most 65535")
        for name in (
            "connect_timeout",
            "idle_timeout",
            "client_timeout",
            "header_timeout",
            "keep_alive_timeout",
            "ping_interval",
        ):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)}: a number of seconds, more than 0")
        self._check_keys()
        if self.models:
            self.each()
        else:
            self._check_upstream()
        self.parser_policies()

    def _check_keys(self) -> None:
        if any(not key.strip() for key in self.api_keys):
            raise UsageError("api_keys has an empty key, which everybody could show: set it, or remove it")
        if not self.api_keys and not self.allow_no_keys and not is_loopback(self.host):
            raise UsageError(
                f"host={self.host} can be reached by others, and there are no api_keys: set some, or "
                "allow_no_keys=true if whoever reaches it may use it"
            )

    def _check_upstream(self) -> None:
        if self.upstream in ("completions", "chat") and not self.url and not self.source:
            raise UsageError(f"upstream={self.upstream} needs the address of the upstream: set url")
        for url in (self.url, *self.urls, self.source):
            if _has_password(url):
                raise UsageError(
                    "url has a user or a password in it, which would show in logs: remove it, and set "
                    "upstream_key to what the upstream wants as Authorization: Bearer"
                )
        for url in (self.url, *self.urls):
            if url and not url.startswith(("http://", "https://")):
                raise UsageError(f"url={url!r}: an address that begins with http:// or https://")
        if self.upstream == "replay" and not self.file:
            raise UsageError("upstream=replay needs recorded streams: set file")

    def each(self) -> tuple[Settings, ...]:
        """The settings of each model: its own, else those that are for all of them."""
        if not self.models:
            return (self,)
        names = {one.name: _default(one) for one in fields(self) if one.name in _ONE_MODELS}
        out: list[Settings] = []
        for name, own in self.models.items():
            try:
                out.append(replace(self, models={}, **{**names, "model": name, **own}))
            except UsageError as error:
                raise UsageError(f"models.{name}: {error}") from error
        return tuple(out)

    def parser_policies(self) -> Policies:
        """The policies for parsers and wires."""
        return Policies.from_mapping(self.policies)

    def shown(self) -> dict[str, object]:
        """What differs from the defaults, for the log; keys are not shown."""
        out: dict[str, object] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value != _default(one):
                out[one.name] = "set" if one.name in _SECRETS else value
        if self.models:
            out["models"] = {
                one.model: {name: value for name, value in one.shown().items() if name in _PER_MODEL}
                for one in self.each()
            }
        return out


def is_loopback(host: str) -> bool:
    """Whether nobody but programs on this machine can reach this address."""
    return host.lower() == "localhost" or (_address(host) is not None and not is_other_address(host))


def is_other_address(host: str) -> bool:
    """Whether this is an address, and others can reach it."""
    address = _address(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address is not None and not address.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _has_password(url: str) -> bool:
    return "@" in url.partition("://")[2].partition("/")[0].partition("?")[0].partition("#")[0]


def _default(one: Field[Any]) -> object:
    return one.default if one.default is not MISSING else {}


def help_texts() -> dict[str, str]:
    """A line about each setting."""
    hints = get_type_hints(Settings, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


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
    import tomllib

    try:
        with Path(path).open("rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    out = _table(found, hints, f"{path}: ", tuple(hints))
    if "models" in out:
        out["models"] = _models(out["models"], hints, path)
    return out


def _table(
    found: Mapping[str, object], hints: Mapping[str, object], place: str, known: tuple[str, ...]
) -> dict[str, object]:
    out: dict[str, object] = {}
    for key, value in found.items():
        name = key.replace("-", "_")
        if name not in known:
            raise UsageError(f"{place}there is no setting {key!r} here")
        out[name] = _typed(name, value, hints[name], f"{place}{key}")
    return out


def _models(given: object, hints: Mapping[str, object], path: str) -> dict[str, dict[str, object]]:
    out: dict[str, dict[str, object]] = {}
    for name, table in given.items() if isinstance(given, dict) else ():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: models.{name} = {table!r}: a table")
        out[name] = _table(table, hints, f"{path}: models.{name}: ", _PER_MODEL)
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
    if name == "api_keys" and not all(map(str.strip, text.split(","))):
        raise UsageError(f"{place} has an empty key, which everybody could show: set it, or remove it")
    if get_origin(hint) is tuple:
        return tuple(part for part in map(str.strip, text.split(",")) if part)
    if hint is bool:
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
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
    elif name == "models":
        raise UsageError(f"{place}: several models are set in the file (--config)")
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
