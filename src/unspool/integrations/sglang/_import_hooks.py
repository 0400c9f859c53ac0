"""Import hook that runs a step of the plug-in when SGLang imports one of its modules.

SGLang loads plug-ins in every process, but most processes never import the parser registries or the lists of
parser names.  Thanks to the hook, the plug-in has no cost in those processes.
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
    """Install the hook, and run the steps of modules that are already imported."""
    if any(isinstance(finder, _ImportHook) for finder in sys.meta_path):
        return
    waiting: dict[str, Step] = {}
    for name, step in _STEPS.items():
        module = sys.modules.get(name)
        if module is None:
            waiting[name] = step
        else:
            _run(step, module)
    sys.meta_path.insert(0, _ImportHook(waiting))


class _ImportHook(MetaPathFinder):
    """Import finder that runs a step after a module's code; other finders locate the module."""

    def __init__(self, steps: dict[str, Step]) -> None:
        self._steps = steps

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        # Remove the step first, so that the recursive call of find_spec() does not use this hook again.
        step = self._steps.pop(name, None)
        spec = None if step is None else find_spec(name)
        loader = None if spec is None else spec.loader
        if spec is None or step is None or loader is None:
            return spec
        exec_module = loader.exec_module

        def exec_module_and_step(module: ModuleType) -> None:
            exec_module(module)
            _run(step, module)

        loader.exec_module = exec_module_and_step  # type: ignore[method-assign]
        return spec


def _run(step: Step, module: ModuleType) -> None:
    compat.run_guarded(lambda: step(module))


def _add_tool_names(module: ModuleType) -> None:
    _add_names(module.TOOL_CALL_PARSER_NAMES)


def _add_reasoning_names(module: ModuleType) -> None:
    _add_names(module.REASONING_PARSER_NAMES)


def _add_names(names: list[str]) -> None:
    from .._registered_parser_names import DETECTED, names_on_command_line

    names += [name for name in (DETECTED, *names_on_command_line()) if name not in names]


def _register_tool_detectors(module: ModuleType) -> None:
    from ._tool_detector import register

    register(compat.tool_classes(module))


def _register_reasoning_detectors(module: ModuleType) -> None:
    from ._reasoning_detector import register

    register(compat.reasoning_classes(module))


def _wrap_chat(module: ModuleType) -> None:
    from ._server_hooks import wrap_chat_server

    wrap_chat_server(module.OpenAIServingChat)


def _wrap_responses(module: ModuleType) -> None:
    from ._server_hooks import wrap_responses_server

    wrap_responses_server(module.OpenAIServingResponses)


def _wrap_messages(module: ModuleType) -> None:
    from ._server_hooks import wrap_messages_server

    wrap_messages_server(module.AnthropicServing)


_STEPS: Final[dict[str, Step]] = {
    compat.TOOL_NAMES: _add_tool_names,
    compat.REASONING_NAMES: _add_reasoning_names,
    compat.TOOLS: _register_tool_detectors,
    compat.REASONING: _register_reasoning_detectors,
    compat.CHAT: _wrap_chat,
    compat.RESPONSES: _wrap_responses,
    compat.MESSAGES: _wrap_messages,
}
