"""SGLang plug-in: tool call and reasoning detectors, loaded by the entry point ``sglang.srt.plugins``.

In each of its processes, SGLang calls :func:`load` before parsing the command line.  ``load`` does not import
SGLang, but installs an import hook.  When a process imports SGLang's name lists or detector registries, the
hook adds unspool's names and detectors to them.

===========================  =================================================================
``_compat``                  SGLang's modules and names that the plug-in needs
``_import_hooks``            steps that run when SGLang imports one of its modules
``_dialect_of_parser_name``  lookup of the dialect for a parser name
``_tool_detector``           the tool call detector
``_reasoning_detector``      the reasoning detector
``_server_hooks``            wrappers of server methods that set the current turn
``_turn_context``            the current turn: data about a request that detectors need
===========================  =================================================================
"""


def load() -> None:
    """Install the plug-in; if that fails, log one line and leave SGLang as it is."""
    from ._import_hooks import install

    install()
