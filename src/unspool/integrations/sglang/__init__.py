"""SGLang plug-in: detectors of tool calls and reasoning, loaded by the entry point ``sglang.srt.plugins``.

SGLang calls :func:`load` in each of its processes before it reads its command line.  ``load`` imports nothing
of SGLang.  It installs an import hook, which adds unspool's names and detectors when the process imports the
lists and registries that they belong to.

========================  =================================================================
``_compat``               modules and names of SGLang that the plug-in needs
``_import_hooks``         steps that run when SGLang imports one of these modules
``_resolve_dialect``      the dialect that a parser name stands for
``_tool_detector``        the detector of tool calls
``_reasoning_detector``   the detector of reasoning
``_server_hooks``         wrappers of the server's methods, which set the turn
``_turn_context``         the turn: what the server knows of a request and does not tell detectors
========================  =================================================================
"""


def load() -> None:
    """Install the plug-in; if that fails, log one line and leave SGLang as it is."""
    from ._import_hooks import install

    install()
