"""What is done when SGLang imports one of its modules, and nothing before.

SGLang loads plug-ins in every process, and most have no use for a parser: they import
neither its registries nor the lists of names that its command line knows.  A finder
waits for these modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Final, TypeAlias

from . import _compat as compat

Step: TypeAlias = Callable[[ModuleType], None]


def install() -> None:
    """Wait for the modules that something of ours belongs in."""
    if any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        return
    waiting: dict[str, Step] = {}
    for name, step in _STEPS.items():
        module = sys.modules.get(name)
        if module is None:
            waiting[name] = step
        else:
            _take(module, step)
    sys.meta_path.insert(0, _Waiting(waiting))


class _Waiting(MetaPathFinder):
    """Lets others find a module, and takes the step when it has run."""

    def __init__(self, steps: dict[str, Step]) -> None:
        self._steps = steps

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        step = self._steps.pop(name, None)
        spec = None if step is None else find_spec(name)
        loader = None if spec is None else spec.loader
        if spec is None or step is None or loader is None:
            return spec
        run = loader.exec_module

        def run_and_step(module: ModuleType) -> None:
            run(module)
            _take(module, step)

        loader.exec_module = run_and_step  # type: ignore[method-assign]
        return spec


def _take(module: ModuleType, step: Step) -> None:
    compat.guarded(lambda: step(module))


def _tool_names(module: ModuleType) -> None:
    _add_names(module.TOOL_CALL_PARSER_NAMES)


def _reasoning_names(module: ModuleType) -> None:
    _add_names(module.REASONING_PARSER_NAMES)


def _add_names(known: list[str]) -> None:
    from .._engine import DETECTED, offered

    known += [name for name in (DETECTED, *offered()) if name not in known]


def _tools(module: ModuleType) -> None:
    from ._tool_detector import register

    register(compat.tool_world(module))


def _reasoning(module: ModuleType) -> None:
    from ._reasoning_detector import register

    register(compat.reasoning_world(module))


def _chat(module: ModuleType) -> None:
    from ._server_hooks import follow_chat

    follow_chat(module.OpenAIServingChat)


def _responses(module: ModuleType) -> None:
    from ._server_hooks import follow_responses

    follow_responses(module.OpenAIServingResponses)


def _messages(module: ModuleType) -> None:
    from ._server_hooks import follow_messages

    follow_messages(module.AnthropicServing)


_STEPS: Final[dict[str, Step]] = {
    compat.TOOL_NAMES: _tool_names,
    compat.REASONING_NAMES: _reasoning_names,
    compat.TOOLS: _tools,
    compat.REASONING: _reasoning,
    compat.CHAT: _chat,
    compat.RESPONSES: _responses,
    compat.MESSAGES: _messages,
}
