"""Settings of the gateway, from flags, the environment and a TOML file.

:class:`Settings` has one field per setting.  For the field ``model_dir``, the key in the TOML file
is ``model_dir``, the environment variable is ``UNSPOOL_MODEL_DIR``, and the flag is
``--model-dir``.  Flags override the environment, and the environment overrides the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

from ..errors import UsageError, suggestion
from ..policies import Policies
from ..wire import OPTION_VALUES, WireOptions

UpstreamKind: TypeAlias = Literal["embedded", "completions", "chat", "replay"]
EngineName: TypeAlias = Literal["auto", "vllm", "sglang", "llamacpp", "ollama", "tgi", "mlx", "openai"]

PREFIX: Final = "UNSPOOL_"
_OTHER_VARIABLES: Final = ("CONFIG", "COMPILE", "BUILD", "INSTALLER", "HYPOTHESIS", "SEED")
"""Variables with the same prefix that are not settings of the gateway."""
PORT: Final = 8765
_SECRETS: Final = ("api_keys", "upstream_key", "upstream_proxy", "seal_key")
_MODEL_IDENTITY: Final = (
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
"""Settings that identify one model.  A model's table does not inherit these settings from the top level."""
_MODEL_SETTINGS: Final = (
    *_MODEL_IDENTITY,
    "upstream",
    "engine",
    "dialect",
    "replay_delay",
    "threads",
    "context",
    "slots",
    "upstream_ca",
    "upstream_proxy",
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
"""Settings that a model's table may contain.

For a setting that is missing, the table inherits the top-level value, unless the setting is one of
``_MODEL_IDENTITY``.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a gateway; the annotation of each field contains its help text."""

    source: Annotated[str, "GGUF file, model name or server URL"] = ""
    upstream: Annotated[UpstreamKind, "embedded, completions, chat or replay (default: embedded)"] = (
        "embedded"
    )
    url: Annotated[str, "URL of the upstream, such as http://127.0.0.1:8000"] = ""
    urls: Annotated[tuple[str, ...], "URLs of additional upstreams for the same model"] = ()
    engine: Annotated[EngineName, "vllm, sglang, llamacpp, ollama, tgi, mlx, openai, auto"] = "auto"
    upstream_key: Annotated[str, "API key for the upstream"] = ""
    upstream_ca: Annotated[str, "PEM file with the certificates that upstreams' TLS is checked against"] = ""
    upstream_proxy: Annotated[str, "URL of the HTTP proxy between the gateway and its upstreams"] = ""
    upstream_model: Annotated[str, "model name on the upstream (default: the first one it lists)"] = ""
    model: Annotated[str, "model name for clients (default: upstream's model name)"] = ""
    aliases: Annotated[tuple[str, ...], "additional model names that requests may use; * for any"] = ()
    strict_model_names: Annotated[bool, "reject requests with a model name other than model and aliases"] = (
        False
    )
    model_dir: Annotated[str, "directory with the model's tokenizer and chat template"] = ""
    template: Annotated[str, "file with the chat template"] = ""
    dialect: Annotated[str, "output format of the model (default: from the template)"] = "auto"
    file: Annotated[str, "recordings for replay, or GGUF model for embedded"] = ""
    replay_delay: Annotated[float, "seconds between recorded chunks"] = 0.0
    threads: Annotated[int, "threads for the embedded engine (default: half the cores, at most 4)"] = 0
    context: Annotated[int, "context size per request in tokens, for the embedded engine and Ollama"] = 4096
    slots: Annotated[int, "maximum number of concurrent requests in the embedded engine"] = 2

    host: Annotated[str, "address to listen on (default: 127.0.0.1)"] = "127.0.0.1"
    port: Annotated[int, "port to listen on (default: 8765)"] = PORT
    metrics_port: Annotated[
        int, "port for /metrics, /health and /ready without API keys, on the same address; 0: none"
    ] = 0
    ssl_certfile: Annotated[str, "PEM file with the TLS certificate of the gateway and its chain"] = ""
    ssl_keyfile: Annotated[str, "PEM file with the private key (default: in ssl_certfile)"] = ""
    workers: Annotated[int, "number of processes that share the port"] = 1
    api_keys: Annotated[tuple[str, ...], "accepted API keys, or their hashes as sha256:HEX"] = ()
    api_keys_file: Annotated[str, "TOML file with named API keys, their models and their limits"] = ""
    seal_key: Annotated[
        str, "key for encrypting the reasoning that clients store (default: a new key at each start)"
    ] = ""
    cors_origins: Annotated[tuple[str, ...], "origins of web pages that may send requests (CORS)"] = ()

    allow_no_keys: Annotated[bool, "serve clients on other machines even if api_keys is empty"] = False
    hosts: Annotated[
        tuple[str, ...], "host names other than localhost that a gateway without API keys accepts; * for any"
    ] = ()

    page: Annotated[
        bool | None,
        "serve a web page at / with a chat, the playground and the latest requests (default: only if host is "
        "a loopback address)",
    ] = None
    last_requests: Annotated[int, "number of latest requests that are kept in memory for the page"] = 50

    connect_timeout: Annotated[float, "seconds to connect to the upstream"] = 10.0
    idle_timeout: Annotated[float, "seconds to wait for upstream output (default: 300)"] = 300.0
    client_timeout: Annotated[float, "seconds after which a client that does not read is disconnected"] = (
        120.0
    )
    header_timeout: Annotated[float, "seconds to wait for the headers of a request"] = 20.0
    keep_alive_timeout: Annotated[float, "seconds after which an idle connection is closed"] = 30.0
    ping_interval: Annotated[float, "seconds without events after which a stream sends a ping"] = 15.0
    shutdown_timeout: Annotated[int, "seconds that active streams have to finish at shutdown"] = 30
    max_request_bytes: Annotated[int, "maximum size of a request, in bytes"] = 32 << 20
    max_request_values: Annotated[int, "maximum number of JSON values in a request"] = 200_000
    max_pending_bytes: Annotated[int, "maximum total size of all large requests, in bytes"] = 256 << 20
    max_pending_requests: Annotated[int, "maximum number of requests whose bodies are arriving"] = 1024
    max_connections: Annotated[int, "maximum number of client connections"] = 4096
    max_output_bytes: Annotated[int, "maximum upstream output per request, in bytes"] = 16 << 20
    max_concurrency: Annotated[int, "maximum number of concurrent requests; 0: no limit"] = 0
    store: Annotated[str, "SQLite file for stored responses and conversations (default: in memory)"] = ""
    max_stored_bytes: Annotated[int, "maximum size of stored responses and conversations, in bytes"] = (
        64 << 20
    )
    max_tokens: Annotated[
        int, "token limit for requests that do not set one, sent to engines that require a limit"
    ] = 4096

    strict_tools: Annotated[
        bool, "constrain all tool calls to their schemas, as if all tools were strict"
    ] = False
    token_ids: Annotated[bool, "parse token ids instead of text (vLLM only; needs model_dir)"] = False
    request_templates: Annotated[bool, "accept chat templates in requests to /v1/parse"] = False
    hosted_tools: Annotated[
        Literal["ignore", "reject"], "ignore or reject tools that only the API's vendor can run"
    ] = "ignore"
    policies: Annotated[Mapping[str, str], "parser policies as NAME=VALUE,..; see docs/policies.md"] = field(
        default_factory=dict
    )
    malformed_retries: Annotated[
        int, "malformed tool calls in a row that the model may correct before a request fails"
    ] = 3
    chat_template_kwargs: Annotated[
        Mapping[str, Any], "variables for the chat template, such as enable_thinking"
    ] = field(default_factory=dict)

    models: Annotated[
        Mapping[str, Mapping[str, Any]],
        "settings per model, to serve several models (config file only)",
    ] = field(default_factory=dict)

    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], "debug, info, warning or error (default: info)"
    ] = "info"
    log_format: Annotated[
        Literal["auto", "json", "text"], "json or text (default: text in a terminal, else json)"
    ] = "auto"
    log_contents: Annotated[bool, "log the contents of requests, which may be private"] = False

    def __post_init__(self) -> None:
        for name, least in (
            ("port", 0),
            ("metrics_port", 0),
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
                raise UsageError(f"{name}={getattr(self, name)}: expected at least {least}")
        for name in ("port", "metrics_port"):
            if getattr(self, name) > 65535:
                raise UsageError(f"{name}={getattr(self, name)}: expected at most 65535")
        if self.metrics_port and self.metrics_port == self.port:
            raise UsageError(f"metrics_port={self.metrics_port} is the port of the API: set another port")
        for name in (
            "connect_timeout",
            "idle_timeout",
            "client_timeout",
            "header_timeout",
            "keep_alive_timeout",
            "ping_interval",
        ):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)}: expected a number of seconds above 0")
        self._check_keys()
        if self.ssl_keyfile and not self.ssl_certfile:
            raise UsageError("ssl_keyfile is set, but ssl_certfile is empty: set both")
        if self.models:
            self.each()
        else:
            self._check_upstream()
        self.parser_policies()
        self.wire_options()

    def _check_keys(self) -> None:
        if any(not key.strip() for key in self.api_keys):
            raise UsageError("api_keys contains an empty key, which any client could send: remove it")
        if not self.needs_key and not self.allow_no_keys and not is_loopback(self.host):
            raise UsageError(
                f"host={self.host} is open to other machines, but api_keys is empty: set api_keys or "
                "api_keys_file, or set allow_no_keys=true to serve every client"
            )

    def _check_upstream(self) -> None:
        if self.upstream in ("completions", "chat") and not self.url and not self.source:
            raise UsageError(f"upstream={self.upstream} needs the upstream's address: set url")
        for url in (self.url, *self.urls, self.source):
            if _has_password(url):
                raise UsageError(
                    "url contains a user name or password, which would appear in logs: remove it, and set "
                    "upstream_key to the token for Authorization: Bearer"
                )
        for url in (self.url, *self.urls):
            if url and not url.startswith(("http://", "https://")):
                raise UsageError(f"url={url!r}: expected a URL that starts with http:// or https://")
        if self.upstream_proxy and not self.upstream_proxy.startswith(("http://", "https://")):
            raise UsageError("upstream_proxy: expected a URL that starts with http:// or https://")
        if self.upstream == "replay" and not self.file:
            raise UsageError("upstream=replay needs a file with recordings: set file")

    @property
    def scheme(self) -> str:
        """The scheme of the gateway's URLs: ``https`` if it has a certificate."""
        return "https" if self.ssl_certfile else "http"

    @property
    def needs_key(self) -> bool:
        """True if requests need an API key."""
        return bool(self.api_keys or self.api_keys_file)

    @property
    def serves_page(self) -> bool:
        """True if the gateway serves the web page, and keeps the latest requests in memory for it."""
        return is_loopback(self.host) if self.page is None else self.page

    def each(self) -> tuple[Settings, ...]:
        """Return separate settings for each model, including the settings that the model inherits."""
        if not self.models:
            return (self,)
        names = {one.name: _default(one) for one in fields(self) if one.name in _MODEL_IDENTITY}
        out: list[Settings] = []
        for name, own in self.models.items():
            try:
                out.append(replace(self, models={}, **{**names, "model": name, **own}))
            except UsageError as error:
                raise UsageError(f"models.{name}: {error}") from error
        return tuple(out)

    def parser_policies(self) -> Policies:
        """Return the parser policies from the setting ``policies``.

        Chat upstreams may have removed the markers of a call, so a call without markers counts by default.
        """
        usual = {"bare_calls": "alone"} if self.upstream == "chat" else {}
        return _parser_policies({**usual, **self.policies})

    def wire_options(self) -> WireOptions:
        """Return the encoder options from the setting ``policies``.

        A preset in this setting selects both the parser policies and the encoder options.
        """
        return _wire_options(self.policies)

    def shown(self) -> dict[str, object]:
        """Return the settings that differ from their defaults, with secrets hidden, for the log."""
        out: dict[str, object] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value != _default(one):
                out[one.name] = "set" if one.name in _SECRETS else value
        if self.models:
            out["models"] = {
                one.model: {name: value for name, value in one.shown().items() if name in _MODEL_SETTINGS}
                for one in self.each()
            }
        return out


def keep_shared_settings(new: Settings, old: Settings) -> Settings:
    """Return the settings after a reload: ``new``, except for settings that cannot change.

    The old and the new part of a gateway share the listening sockets, the store and the seal key.
    """
    kept: tuple[str, ...] = ("host", "port", "metrics_port", "workers", "store")
    if bool(new.ssl_certfile) != bool(old.ssl_certfile):
        raise UsageError("ssl_certfile: TLS cannot be switched on or off while the gateway runs; restart it")
    if not new.seal_key:
        kept = (*kept, "seal_key")
    return replace(new, **{name: getattr(old, name) for name in kept})


def _parser_policies(choices: Mapping[str, str]) -> Policies:
    return Policies.from_mapping(
        {name: value for name, value in choices.items() if name not in OPTION_VALUES}
    )


def _wire_options(choices: Mapping[str, str]) -> WireOptions:
    names = ("preset", *OPTION_VALUES)
    return WireOptions.from_mapping({name: value for name, value in choices.items() if name in names})


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach an address."""
    return host.lower() == "localhost" or (_address(host) is not None and not is_other_address(host))


@lru_cache(maxsize=64)  # every request calls this function, but with only a few different addresses
def is_other_address(host: str) -> bool:
    """Return whether ``host`` is an IP address that other machines can reach."""
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
    """Return the help texts of all settings by name."""
    hints = get_type_hints(Settings, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | None = None,
) -> Settings:
    """Load the settings from a TOML file, the environment and flags.

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


def unknown_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose names begin like those of settings but name no setting, with advice.

    >>> unknown_variables({"UNSPOOL_PROT": "1", "UNSPOOL_PORT": "1"})
    {'UNSPOOL_PROT': "there is no such setting: did you mean 'UNSPOOL_PORT'?"}
    """
    known = sorted(one.name.upper() for one in fields(Settings))
    found: dict[str, str] = {}
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name != variable and name not in known and name not in _OTHER_VARIABLES:
            advice = suggestion(name, known).replace(" '", f" '{PREFIX}")
            advice = advice or "; `unspool serve --list-settings` lists all of them"
            found[variable] = f"there is no such setting{advice}"
    return found


def _from_file(path: str, hints: Mapping[str, object]) -> dict[str, object]:
    import tomllib

    try:
        with Path(path).open("rb") as file:
            data = tomllib.load(file)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    model = data.get("model")
    if isinstance(model, dict):
        name = next(iter(model), "NAME")
        raise UsageError(f"{path}: [model.{name}]: did you mean [models.{name}]?")
    out = _table(data, hints, f"{path}: ", tuple(hints))
    if "models" in out:
        out["models"] = _models(out["models"], hints, path)
    return out


def _table(
    data: Mapping[str, object], hints: Mapping[str, object], place: str, allowed: tuple[str, ...]
) -> dict[str, object]:
    out: dict[str, object] = {}
    for key, value in data.items():
        name = key.replace("-", "_")
        if name not in allowed:
            raise UsageError(f"{place}unknown setting {key!r}{advice_for(name, allowed)}")
        out[name] = _typed(name, value, hints[name], f"{place}{key}")
        _check_names(name, out[name], f"{place}{key}")
    return out


def advice_for(name: str, allowed: Iterable[str]) -> str:
    """Return the end of the error message for an unknown setting: the setting that was probably meant."""
    if name in help_texts():
        return ": it applies to the whole gateway, so set it outside [models.NAME]"
    return suggestion(name, allowed) or "; `unspool serve --list-settings` lists all of them"


def _check_names(name: str, value: object, place: str) -> None:
    """Raise an error if a setting names a dialect or a policy that does not exist.

    :param place: the key, variable or flag of the setting, for the error message.
    """
    try:
        if name == "dialect" and value != "auto":
            from ..planning import plan  # imported only if needed, because the import is slow

            plan(str(value), {"messages": [{"role": "user", "content": ""}]})
        elif name == "policies" and isinstance(value, Mapping):
            _parser_policies(value)
            _wire_options(value)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error


def _models(tables: object, hints: Mapping[str, object], path: str) -> dict[str, dict[str, object]]:
    out: dict[str, dict[str, object]] = {}
    for name, table in tables.items() if isinstance(tables, dict) else ():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: models.{name} = {table!r}: expected a table")
        out[name] = _table(table, hints, f"{path}: models.{name}: ", _MODEL_SETTINGS)
    return out


def _typed(name: str, value: object, hint: object, place: str) -> object:
    """Convert a value from the TOML file to its setting's type; raise an error if this is not possible."""
    hint = _without_none(hint)
    origin = get_origin(hint)
    if origin is Literal and value in get_args(hint):
        return value
    # bool is a subclass of int, but true and false are not numbers.
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint in (str, int, bool) and type(value) is hint:
        return value
    if origin is tuple and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    if isinstance(value, dict) and isinstance(_default_of(name), dict):
        return value
    raise UsageError(f"{place} = {value!r}: {_expected(hint)}{_engine_advice(name, value)}")


def _default_of(name: str) -> object:
    return next(_default(one) for one in fields(Settings) if one.name == name)


def _without_none(hint: object) -> object:
    """Return the type of a setting's value for a setting whose default is None."""
    return get_args(hint)[0] if type(None) in get_args(hint) else hint


def _expected(hint: object) -> str:
    if get_origin(hint) is Literal:
        return f"choose one of {', '.join(map(str, get_args(hint)))}"
    if get_origin(hint) is tuple:
        return "expected a list of strings"
    names = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
    return f"expected {names.get(hint, 'a table')}"  # type: ignore[call-overload]


def _engine_advice(name: str, value: object) -> str:
    """Return the end of the error message for an ``upstream`` that is the name of an engine."""
    if name != "upstream" or value not in get_args(EngineName) or value == "auto":
        return ""
    return f"; {value} is an engine: set engine to {value}, and upstream to completions or chat"


def from_text(name: str, text: str, place: str | None = None) -> object:
    """Convert text from the environment or from a flag to the value of a setting.

    :param place: the variable or the flag, for error messages.
    """
    value = _converted(name, text, place or name)
    _check_names(name, value, place or name)
    return value


def _converted(name: str, text: str, place: str) -> object:
    hint = _without_none(get_type_hints(Settings)[name])
    # Do not drop an empty key, which may come from an unset variable: if the list of keys became empty, the
    # gateway would accept every client.
    if name == "api_keys" and not all(map(str.strip, text.split(","))):
        raise UsageError(f"{place} contains an empty key, which any client could send: remove it")
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
        raise UsageError(f"{place}: several models can only be set in the config file (--config)")
    elif isinstance(_default_of(name), dict):
        return dict(_pair(part, place) for part in text.split(",") if part.strip())
    else:
        return text
    raise UsageError(f"{place}={text!r}: {_expected(hint)}{_engine_advice(name, text)}")


def _pair(text: str, place: str) -> tuple[str, object]:
    """Split ``key=value`` into its key and its value; the values ``true`` and ``false`` become booleans."""
    key, equals, value = text.strip().partition("=")
    if not equals:
        raise UsageError(f"{place}: {text!r} does not have the form key=value")
    words: dict[str, object] = {"true": True, "false": False}
    return key.strip(), words.get(value.strip(), value.strip())
