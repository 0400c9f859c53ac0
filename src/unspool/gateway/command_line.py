"""The command line of ``unspool serve``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import MISSING, fields
from typing import Final

from ..errors import UsageError
from .settings import PREFIX, Settings, advice_for, from_text, help_texts, load_settings

FLAGS: Final = {
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
    "log_level": "LEVEL",
}
"""Settings that have a command-line flag, each with the placeholder for its value in the help text.

A setting without a flag can be changed with ``--set``.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``unspool serve`` to a parser."""
    texts = help_texts()
    parser.add_argument("source", nargs="?", metavar="MODEL", help=texts["source"])
    for name, value in FLAGS.items():
        parser.add_argument(_flag(name), dest=name, metavar=value, type=_ValueReader(name), help=texts[name])
    parser.add_argument("--config", metavar="FILE", help="TOML file with settings")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting that has no flag"
    )
    parser.add_argument("--list-settings", action="store_true", help="print all settings with their defaults")
    parser.usage = "unspool serve [MODEL] [option ...]"
    parser.epilog = f"Flags override {PREFIX}NAME in the environment, which overrides the TOML file."


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class _ValueReader:
    """Converter from a flag's text to the setting's value, called by argparse."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.__name__ = "value"  # argparse shows this name in its error messages

    def __call__(self, text: str) -> object:
        flag = _flag(self._name)
        try:
            return from_text(self._name, text, flag)
        except UsageError as error:  # argparse names the flag
            raise argparse.ArgumentTypeError(str(error).removeprefix(f"{flag}: ")) from error


def read_settings(options: argparse.Namespace) -> Settings:
    """Return the settings from a parsed command line, in which model sources have been resolved."""
    return read_settings_and_notes(options)[0]


def read_settings_and_notes(options: argparse.Namespace) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings from a parsed command line, and notes about the model sources for the user."""
    values: dict[str, object] = {name: getattr(options, name) for name in ("source", *FLAGS)}
    setting_names = {one.name for one in fields(Settings)}
    for text in options.set:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise UsageError(f"--set {text}: expected NAME=VALUE")
        if name not in setting_names:
            raise UsageError(f"--set {text}: unknown setting {name!r}{advice_for(name, setting_names)}")
        values[name] = from_text(name, value, f"--set {name}")
    source = options.source or ""
    if source.endswith(".toml"):
        raise UsageError(
            f"{source} is a file with settings, not a model: use `unspool serve --config {source}`"
        )
    settings = load_settings(values, config=options.config)
    if not any(one.source for one in settings.each()):
        return settings, ()
    from .settings_from_model import resolve_sources  # imported only if needed, because the import is slow

    resolved = resolve_sources(settings)
    return resolved.settings, resolved.notes


def announce(settings: Settings, notes: tuple[str, ...], url: str) -> None:
    """Print notes about the model sources and the URLs for clients, if the user has named a model source.

    Call this when clients can connect: until then, a missing package or a taken port can prevent it.
    """
    if notes:
        sys.stderr.write("".join(f"{line}\n" for line in (*notes, describe_addresses(settings, url))))


def describe_addresses(settings: Settings, url: str) -> str:
    """Return a message with the URLs for clients and browsers."""
    page = f"\nOpen {url} in a browser to chat and see the latest requests." if settings.serves_page else ""
    return f"Point an agent at {url}/v1 (OpenAI) or {url} (Anthropic, Ollama).{page}"


def list_settings() -> str:
    """Return the help text for all settings, with one line per setting."""
    texts = help_texts()
    lines = []
    for one in fields(Settings):
        default: object = one.default if one.default is not MISSING else ""
        is_shown = default not in ("", (), None) and "(default:" not in texts[one.name]
        shown = f" (default: {default})" if is_shown else ""
        lines.append(f"{one.name:21} {texts[one.name]}{shown}")
    return "\n".join(lines)
