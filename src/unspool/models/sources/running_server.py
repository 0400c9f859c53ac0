"""Running servers: which engine it is, and what it tells of its model.

=========  ==================================  ==================================
llamacpp   ``/props``                          the chat template, the model's file
ollama     ``/api/version``, ``/api/show``     its own template, the Modelfile and
                                               the pairs of the weights' header
sglang     ``/model_info``, ``/server_info``   where model and tokenizer are, and
                                               the parser it was told to use
vllm       ``/v1/models``, ``/version``,       where the model is, and what its
           ``/tokenizer_info``                 tokenizer says, where that is allowed
=========  ==================================  ==================================

What a server names by a path or a name may lie on this machine, too: then it is read.
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
from .source import Source
from .text_files import is_directory, is_readable, read_text

_SECONDS: Final = 5
"""For each read ..."""
_ALL_SECONDS: Final = 20
"""... and for all of an answer."""
_LARGEST: Final = 1 << 26
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
KEY: Final = "UNSPOOL_UPSTREAM_KEY"
"""The variable of the environment that has the key for a server."""


def is_url(text: str) -> bool:
    """Whether a text is the address of a server."""
    return text.startswith(("http://", "https://"))


def from_server(address: str, *, key: str | None = None) -> Source:
    """What the server at an address tells.

    :param address: as ``http://127.0.0.1:8000``; behind a ``#`` the name of a model, where
        there are several.
    :param key: the API key; by default that of the environment.
    """
    url, _, model = address.partition("#")
    server = _Server(url.rstrip("/").removesuffix("/v1"), os.environ.get(KEY, "") if key is None else key)
    for ask in (_llamacpp, _ollama, _sglang, _vllm):
        found = ask(server, model)
        if found is not None:
            return replace(found, kind="server", url=server.url)
    if not server.answered:
        raise UsageError(f"{server.url} does not answer ({server.trouble}): is the server running there?")
    raise UsageError(
        f"{server.url} is no vLLM, SGLang, llama.cpp or Ollama server that could be asked"
        f"{f' ({server.trouble})' if server.trouble else ''}: give the model's files instead"
    )


class _Server:
    """A server that is asked questions: directly, whatever proxies the environment has, and nobody else."""

    def __init__(self, url: str, key: str) -> None:
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise UsageError(f"{url}: {error}: give an address as http://127.0.0.1:8000") from error
        self.url = url.replace(f"{parts.netloc.rpartition('@')[0]}@", "", 1) if "@" in parts.netloc else url
        """Without user and password, which are for the server alone."""
        self.here = self._host in _LOCAL
        """It runs on this machine, so that its paths are ours."""
        self.answered = False
        self.trouble = ""
        """What went wrong last."""
        self._secure = parts.scheme == "https"
        self._path = parts.path.rstrip("/")
        self._key = key
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        elif parts.username is not None:
            both = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {b64encode(both.encode()).decode()}"

    def get(self, path: str, body: Mapping[str, object] | None = None) -> dict[str, Any] | None:
        """The object at a path; None: it has none."""
        data = None if body is None else json.dumps(body).encode()
        try:
            status, answer = self._ask("GET" if data is None else "POST", path, data)
            found = json.loads(answer) if status == 200 else None
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            self.trouble = self._without_key(str(error).partition("\n")[0]) or type(error).__name__
            return None
        return found if isinstance(found, dict) else None

    def _without_key(self, text: str) -> str:
        """What the server says, which may quote the key that it was shown."""
        return text.replace(self._key, "...") if self._key else text

    def _ask(self, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=_SECONDS)
        try:
            connection.connect()
            # One byte now and then would keep us for ever.
            watch = threading.Timer(_ALL_SECONDS, _cut, (connection.sock,))
            watch.daemon = True
            watch.start()
            try:
                connection.request(method, self._path + path, data, self._headers)
                response = connection.getresponse()
                self.answered = True
                if response.status in (401, 403):
                    self.trouble = f"it wants a key: set {KEY}"
                elif 300 <= response.status < 400:
                    location = self._without_key(response.headers.get("location", ""))
                    self.trouble = f"it points to {location}: give that address if you trust it"
                return response.status, response.read(_LARGEST) if response.status == 200 else b""
            finally:
                watch.cancel()
        finally:
            connection.close()


def _cut(connection: socket.socket) -> None:
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
    if server.here and path.is_absolute() and is_readable(path):
        source = read_gguf(path)
    tokens = {name: _text(props.get(name)) for name in ("bos_token", "eos_token") if props.get(name)}
    settings = props["default_generation_settings"]
    alone = _text(props.get("chat_template"))
    for_tools = _text(props.get("chat_template_tool_use"))
    return replace(
        source,
        template=for_tools or alone,
        others={"the template 'default'": alone} if for_tools else {},
        origin=f"{server.url}/props",
        tokens={**source.tokens, **tokens},
        name=model_name(Path(_text(props.get("model_alias")) or path)),
        context_length=_number(settings.get("n_ctx")) if isinstance(settings, Mapping) else None,
        engine="llamacpp",
    )


# -- Ollama


def _ollama(server: _Server, model: str) -> Source | None:
    version = server.get("/api/version")
    if version is None or "version" not in version:
        return None
    model = model or _only_model(server)
    told = server.get("/api/show", {"model": model, "verbose": True})
    if told is None:
        raise UsageError(f"{server.url}: Ollama has no model {model}: `ollama list` shows what it has")
    values = told.get("model_info")
    origin = f"{server.url}/api/show of {model}"
    source = source_of(values if isinstance(values, dict) else {}, origin)
    described = from_modelfile(_text(told.get("modelfile")), origin, Path("/")) if server.here else source
    details = told.get("details")
    details = details if isinstance(details, dict) else {}
    families = details.get("families")
    named = families if isinstance(families, list) else []
    base = described if described.weights is not None else source
    return replace(
        base,
        origin=origin if base.weights is None else f"{base.weights} (the weights of {model} at {server.url})",
        name=model,
        go_template=_text(told.get("template")) or described.go_template,
        families=tuple(dict.fromkeys(str(each) for each in (details.get("family"), *named) if each)),
        parser=described.parser,
        parameters=described.parameters,
        engine="ollama",
    )


def _only_model(server: _Server) -> str:
    """The model that is loaded, or the only one there is."""
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
        raise UsageError(f"{server.url}: Ollama has no models yet: `ollama pull` one")
    raise UsageError(
        f"{server.url}: Ollama has several models: write one behind the address, as {server.url}#{names[0]} "
        f"(it has {', '.join(names[:20])})"
    )


# -- SGLang and vLLM


def _sglang(server: _Server, model: str) -> Source | None:
    del model
    info = server.get("/model_info") or server.get("/get_model_info")
    if info is None or "model_path" not in info:
        return None
    more = server.get("/server_info") or server.get("/get_server_info") or {}
    path = _text(info["model_path"])
    source = _on_this_machine(server, _text(info.get("tokenizer_path")) or path, path)
    template = Path(_text(more.get("chat_template")))
    if server.here and template.is_absolute() and is_readable(template):
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
    listed = server.get("/v1/models") or {}
    entries = listed.get("data")
    cards = [card for card in entries if isinstance(card, dict)] if isinstance(entries, list) else []
    card = next((card for card in cards if model in ("", card.get("id"))), None)
    if model and cards and card is None:
        have = ", ".join(_text(card.get("id")) for card in cards)
        raise UsageError(f"{server.url} has no model {model}: it has {have}")
    if card is None:
        return None
    known = card.get("owned_by") == "vllm" or "version" in (server.get("/version") or {})
    path = _text(card.get("root")) or _text(card.get("id"))
    source = _on_this_machine(server, path)
    told = server.get("/tokenizer_info") if known else None
    if told is not None and "chat_template" in told:
        running = from_config(told, f"{server.url}/tokenizer_info")
        source = replace(source, template=running.template, others=running.others, origin=running.origin)
        source = replace(source, tokens={**source.tokens, **running.tokens})
    return replace(
        source,
        name=_text(card.get("id")),
        context_length=_number(card.get("max_model_len")) or source.context_length,
        families=(path,),
        engine="vllm" if known else "openai",
    )


def _on_this_machine(server: _Server, *paths: str) -> Source:
    """The files of a model that a server names, if they lie here, too."""
    for path in filter(None, paths):
        try:
            if server.here and Path(path).is_absolute() and is_directory(Path(path)):
                return from_directory(Path(path))
            found = from_hub(path)
        except (UsageError, OSError):
            continue
        if found is not None:
            return found
    return Source("", server.url)
