"""Gateway that serves OpenAI-, Anthropic- and Ollama-compatible APIs in front of a model.

Start it with ``unspool serve``.  The gateway has optional dependencies, which
``pip install 'unspool[gateway]'`` installs.  The public names of this package are imported on
first use, so the command line can list all settings even without these dependencies.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .settings import Settings, load_settings

if TYPE_CHECKING:
    from .app import Gateway
    from .build_from_settings import build
    from .create_asgi_app import create_app
    from .quickstart_demo import quickstart
    from .server.run import serve

__all__ = ["Gateway", "Settings", "build", "create_app", "load_settings", "quickstart", "serve"]

_MODULES: Final = {
    "Gateway": "app",
    "build": "build_from_settings",
    "create_app": "create_asgi_app",
    "quickstart": "quickstart_demo",
    "serve": "server.run",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..errors import UsageError

    try:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    except ImportError as error:
        raise UsageError(f"the gateway needs {error.name}: pip install 'unspool[gateway]'") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
