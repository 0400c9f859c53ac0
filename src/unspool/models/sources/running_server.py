"""Reading of a model's properties from a running server.

The endpoints depend on the engine:

=========  ==================================  ==================================
llamacpp   ``/props``                          the chat template, the model's path
ollama     ``/api/version``, ``/api/show``     the Go template, the Modelfile and
                                               the pairs of the GGUF header
sglang     ``/model_info``, ``/server_info``   the paths of model and tokenizer,
                                               and the configured parser
vllm       ``/v1/models``, ``/version``,       the path of the model, and the
           ``/tokenizer_info``                 tokenizer if the server allows it
unspool    ``/v1/models``                      the dialect that the gateway parses
=========  ==================================  ==================================

If the reported model exists on this machine, its files are read, too.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ...errors import UsageError
from .gguf import model_name, read_gguf, source_of
from .hub_cache import from_hub
from .model_directory import from_config, from_directory
from .ollama import from_modelfile
from .read_files import is_directory, is_readable, read_text
from .source import Source

_READ_TIMEOUT: Final = 5
"""Timeout for one read from the connection, in seconds."""
_RESPONSE_TIMEOUT: Final = 20
"""Timeout for a whole response, in seconds."""
_MAX_RESPONSE_BYTES: Final = 1 << 26
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
KEY: Final = "UNSPOOL_UPSTREAM_KEY"
"""The environment variable that contains the API key for the server."""


def is_url(text: str) -> bool:
    """Return whether a string is the address of a server."""
    return text.startswith(("http://", "https://"))


def from_server(address: str, *, key: str | None = None) -> Source:
    """Return the source for the model of a running server.

    :param address: an address such as ``http://127.0.0.1:8000``; append ``#NAME`` to select one of several
        models.
    :param key: the API key; by default, the API key in the environment.
    """
    url, _, model = address.partition("#")
    server = _Server(url.rstrip("/").removesuffix("/v1"), os.environ.get(KEY, "") if key is None else key)
    for read in (_llamacpp, _gateway, _ollama, _sglang, _vllm):
        source = read(server, model)
        if source is not None:
            return replace(source, kind="server", url=server.url)
    if not server.answered:
        raise UsageError(f"{server.url} does not answer ({server.last_error}): is the server running there?")
    raise UsageError(
        f"{server.url} is not a vLLM, SGLang, llama.cpp or Ollama server that reports its model"
        f"{f' ({server.last_error})' if server.last_error else ''}: pass the model's files instead"
    )


class _Server:
    """Client for one server; ignores proxy settings in the environment, and does not follow redirects."""

    def __init__(self, url: str, key: str) -> None:
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise UsageError(f"{url}: {error}: pass an address such as http://127.0.0.1:8000") from error
        self.url = url.replace(f"{parts.netloc.rpartition('@')[0]}@", "", 1) if "@" in parts.netloc else url
        """The address for messages, without user name and password."""
        self.is_local = self._host in _LOCAL
        """True if the server runs on this machine, so that the paths in its reports can be read."""
        self.answered = False
        self.last_error = ""
        """The last error, for messages to the user."""
        self._secure = parts.scheme == "https"
        self._path = parts.path.rstrip("/")
        self._key = key
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        elif parts.username is not None:
            credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {b64encode(credentials.encode()).decode()}"

    def get(self, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any] | None:
        """Request a path and return the JSON object in the response; None if there is no JSON object."""
        data = None if body is None else json.dumps(body).encode()
        try:
            status, content = self._request("GET" if data is None else "POST", path, data)
            value = json.loads(content) if status == 200 else None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            self.last_error = self._without_key(str(error).partition("\n")[0]) or type(error).__name__
            return None
        return value if isinstance(value, dict) else None

    def _without_key(self, text: str) -> str:
        """Remove the API key from an error message, which may quote the key."""
        return text.replace(self._key, "...") if self._key else text

    def _request(self, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=_READ_TIMEOUT)
        try:
            connection.connect()
            # Every received byte restarts the read timeout, so a second limit is needed for slow servers.
            timer = threading.Timer(_RESPONSE_TIMEOUT, _shut_down, (connection.sock,))
            timer.daemon = True
            timer.start()
            try:
                connection.request(method, self._path + path, data, self._headers)
                response = connection.getresponse()
                self.answered = True
                if response.status in (401, 403):
                    self.last_error = f"it requires an API key: set {KEY}"
                elif 300 <= response.status < 400:
                    location = self._without_key(response.headers.get("location", ""))
                    self.last_error = f"it redirects to {location}: pass that address if you trust it"
                return response.status, response.read(_MAX_RESPONSE_BYTES) if response.status == 200 else b""
            finally:
                timer.cancel()
        finally:
            connection.close()


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# -- llama.cpp


def _llamacpp(server: _Server, model: str) -> Source | None:
    del model
    props = server.get("/props")
    if props is None or "default_generation_settings" not in props:
        return None
    path = Path(_text(props.get("model_path")))
    source = Source("", server.url)
    if server.is_local and path.is_absolute() and is_readable(path):
        source = read_gguf(path)
    tokens = {name: _text(props.get(name)) for name in ("bos_token", "eos_token") if props.get(name)}
    settings = props["default_generation_settings"]
    default = _text(props.get("chat_template"))
    for_tools = _text(props.get("chat_template_tool_use"))
    return replace(
        source,
        template=for_tools or default,
        others={"the template 'default'": default} if for_tools else {},
        origin=f"{server.url}/props",
        tokens={**source.tokens, **tokens},
        name=model_name(Path(_text(props.get("model_alias")) or path)),
        context_length=_number(settings.get("n_ctx")) if isinstance(settings, Mapping) else None,
        engine="llamacpp",
    )


# -- unspool


def _gateway(server: _Server, model: str) -> Source | None:
    cards = [card for card in _model_cards(server) if card.get("owned_by") == "unspool"]
    if not cards:
        return None
    card = _chosen(server, cards, model)
    dialect = _text(card.get("dialect"))
    return Source("", f"{server.url}/v1/models", name=_text(card.get("id")), parser=dialect, engine="unspool")


def _model_cards(server: _Server) -> list[dict[str, Any]]:
    """Return the descriptions of the models that the server lists."""
    entries = (server.get("/v1/models") or {}).get("data")
    return [card for card in entries if isinstance(card, dict)] if isinstance(entries, list) else []


def _chosen(server: _Server, cards: list[dict[str, Any]], model: str) -> dict[str, Any]:
    """Return the description of a model; of the first model, if ``model`` is empty."""
    card = next((card for card in cards if model in ("", card.get("id"))), None)
    if card is None:
        have = ", ".join(_text(card.get("id")) for card in cards)
        raise UsageError(f"{server.url} has no model {model}; it has {have}")
    return card


# -- Ollama


def _ollama(server: _Server, model: str) -> Source | None:
    version = server.get("/api/version")
    if version is None or "version" not in version:
        return None
    model = model or _only_model(server)
    shown = server.get("/api/show", {"model": model, "verbose": True})
    if shown is None:
        raise UsageError(f"{server.url}: Ollama has no model {model}; `ollama list` lists its models")
    values = shown.get("model_info")
    origin = f"{server.url}/api/show of {model}"
    source = source_of(values if isinstance(values, dict) else {}, origin)
    described = (
        from_modelfile(_text(shown.get("modelfile")), origin, Path("/")) if server.is_local else source
    )
    details = shown.get("details")
    details = details if isinstance(details, dict) else {}
    families = details.get("families")
    named = families if isinstance(families, list) else []
    base = described if described.weights is not None else source
    return replace(
        base,
        origin=origin if base.weights is None else f"{base.weights} (the weights of {model} at {server.url})",
        name=model,
        go_template=_text(shown.get("template")) or described.go_template,
        families=tuple(dict.fromkeys(str(each) for each in (details.get("family"), *named) if each)),
        parser=described.parser,
        parameters=described.parameters,
        engine="ollama",
    )


def _only_model(server: _Server) -> str:
    """Return the only loaded model's name or, if no model is loaded, the only downloaded model's name."""
    names: list[str] = []
    for path in ("/api/ps", "/api/tags"):
        listed = (server.get(path) or {}).get("models")
        entries = listed if isinstance(listed, list) else []
        names = [
            _text(entry.get("model") or entry.get("name")) for entry in entries if isinstance(entry, dict)
        ]
        if len(names) == 1:
            return names[0]
    if not names:
        raise UsageError(f"{server.url}: Ollama has no models; download one with `ollama pull`")
    raise UsageError(
        f"{server.url}: Ollama has several models ({', '.join(names[:20])}); add one to the address, "
        f"as in {server.url}#{names[0]}"
    )


# -- SGLang and vLLM


def _sglang(server: _Server, model: str) -> Source | None:
    del model
    info = server.get("/model_info") or server.get("/get_model_info")
    if info is None or "model_path" not in info:
        return None
    more = server.get("/server_info") or server.get("/get_server_info") or {}
    path = _text(info["model_path"])
    source = _local_files(server, _text(info.get("tokenizer_path")) or path, path)
    template = Path(_text(more.get("chat_template")))
    if server.is_local and template.is_absolute() and is_readable(template):
        source = replace(source, template=read_text(template), origin=str(template))
    return replace(
        source,
        name=_text(info.get("served_model_name")) or path,
        model_type=source.model_type or _text(info.get("model_type")),
        parser=_text(info.get("tool_call_parser")) or _text(more.get("tool_call_parser")),
        context_length=_number(more.get("context_length")) or source.context_length,
        families=(path,),
        engine="sglang",
    )


def _vllm(server: _Server, model: str) -> Source | None:
    cards = _model_cards(server)
    if not cards:
        return None
    card = _chosen(server, cards, model)
    is_vllm = card.get("owned_by") == "vllm" or "version" in (server.get("/version") or {})
    path = _text(card.get("root")) or _text(card.get("id"))
    source = _local_files(server, path)
    tokenizer = server.get("/tokenizer_info") if is_vllm else None
    if tokenizer is not None and "chat_template" in tokenizer:
        running = from_config(tokenizer, f"{server.url}/tokenizer_info")
        source = replace(source, template=running.template, others=running.others, origin=running.origin)
        source = replace(source, tokens={**source.tokens, **running.tokens})
    return replace(
        source,
        name=_text(card.get("id")),
        context_length=_number(card.get("max_model_len")) or source.context_length,
        families=(path,),
        engine="vllm" if is_vllm else "openai",
    )


def _local_files(server: _Server, *paths: str) -> Source:
    """Return the source for the first reported path or model name that exists on this machine."""
    for path in filter(None, paths):
        try:
            if server.is_local and Path(path).is_absolute() and is_directory(Path(path)):
                return from_directory(Path(path))
            source = from_hub(path)
        except (UsageError, OSError):
            continue
        if source is not None:
            return source
    return Source("", server.url)
