"""The gateway: correct tool calls and reasoning in front of any text generator.

Needs ``pip install 'unspool[gateway]'``; ``unspool serve`` runs it.  What is
imported from here is loaded when it is used, so that the command line can list the
settings without those packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .settings import Settings, load_settings

if TYPE_CHECKING:
    from .app import Gateway
    from .asgi import create_app
    from .factory import build
    from .first_run import quickstart
    from .server.run import serve

__all__ = ["Gateway", "Settings", "build", "create_app", "load_settings", "quickstart", "serve"]

_LATER: Final = {
    "Gateway": "app",
    "build": "factory",
    "create_app": "asgi",
    "quickstart": "first_run",
    "serve": "server.run",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..errors import UsageError

    try:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    except ImportError as error:
        raise UsageError(f"the gateway needs {error.name}: pip install 'unspool[gateway]'") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
