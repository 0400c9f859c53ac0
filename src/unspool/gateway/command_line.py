"""The command line of ``unspool serve``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import MISSING, fields
from typing import Final

from ..errors import UsageError
from .settings import PREFIX, Settings, from_text, help_texts, load_settings

LISTED: Final = {
    "upstream": "KIND",
    "url": "URL",
    "engine": "NAME",
    "model": "NAME",
    "model_dir": "DIR",
    "template": "FILE",
    "dialect": "DIALECT",
    "file": "FILE",
    "host": "ADDRESS",
    "port": "N",
    "workers": "N",
    "api_keys": "KEY,..",
    "cors_origins": "URL",
    "idle_timeout": "SEC",
    "max_output_bytes": "N",
    "log_level": "LEVEL",
}
"""The settings that ``--help`` lists, and what their values are; the others are set by ``--set``."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``unspool serve``."""
    texts = help_texts()
    parser.add_argument("source", nargs="?", metavar="MODEL", help=texts["source"])
    for name, value in LISTED.items():
        parser.add_argument(_flag(name), dest=name, metavar=value, type=_reader(name), help=texts[name])
    parser.add_argument("--config", metavar="FILE", help="TOML file with settings")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting")
    parser.add_argument("--list-settings", action="store_true", help="print all settings and their defaults")
    parser.usage = "unspool serve [MODEL] [option ...]"
    parser.epilog = f"Flags win over {PREFIX}NAME in the environment, and that over the TOML file."


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class _reader:  # noqa: N801 - argparse takes it for a function
    """A converter for argparse."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.__name__ = "value"

    def __call__(self, text: str) -> object:
        try:
            return from_text(self._name, text, _flag(self._name))
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from error


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that a command line gives."""
    given: dict[str, object] = {name: getattr(options, name) for name in ("source", *LISTED)}
    known = {one.name for one in fields(Settings)}
    for text in options.set:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known:
            raise UsageError(f"--set {text}: expected NAME=VALUE, with a NAME of --list-settings")
        given[name] = from_text(name, value, f"--set {name}")
    settings = load_settings(given, config=options.config)
    if not any(one.source for one in settings.each()):
        return settings
    from .model_source import settle  # it reads models, which most settings leave alone

    settled = settle(settings)
    sys.stderr.write("".join(f"{line}\n" for line in (*settled.said, _ways(settled.settings))))
    return settled.settings


def _ways(settings: Settings) -> str:
    """Where an agent finds it."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if not settings.port:
        return "The log tells the port that was free."
    url = f"http://{host}:{settings.port}"
    page = f"\nOpen {url} in a browser to chat with it and to see its last requests." if settings.page else ""
    return f"Point an agent at {url}/v1 (OpenAI's APIs) or {url} (Anthropic's, Ollama's).{page}"


def listing() -> str:
    """All settings, a line each."""
    texts = help_texts()
    lines = []
    for one in fields(Settings):
        default: object = one.default if one.default is not MISSING else ""
        shown = "" if default in ("", ()) or "(default:" in texts[one.name] else f" (default: {default})"
        lines.append(f"{one.name:21} {texts[one.name]}{shown}")
    return "\n".join(lines)
