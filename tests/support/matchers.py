"""Grammar matchers of llama.cpp and xgrammar, with checks that they work as expected.

llama.cpp comes with ``xllamacpp``, whose library exports the functions of llama.cpp's own grammar validator.
``xgrammar`` imports torch and transformers, but its matcher does not need them.  If they are not installed,
stub modules replace them during the import, which saves a download of a gigabyte.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any

import pytest


def _library() -> Path | None:
    """Return the path of llama.cpp's shared library."""
    spec = importlib.util.find_spec("xllamacpp")
    places = spec.submodule_search_locations if spec is not None else None
    return next(Path(places[0]).glob("xllamacpp*.so"), None) if places else None


has_llama = _library() is not None
has_xgrammar = all(importlib.util.find_spec(name) is not None for name in ("xgrammar", "tvm_ffi"))

needs_llama = pytest.mark.skipif(not has_llama, reason="xllamacpp is not installed")
needs_xgrammar = pytest.mark.skipif(not has_xgrammar, reason="xgrammar is not installed")


# --- llama.cpp


class _Vector(ctypes.Structure):
    """``std::vector`` in memory."""

    _fields_ = (("begin", ctypes.c_size_t), ("end", ctypes.c_size_t), ("limit", ctypes.c_size_t))


@cache
def _llama() -> Any:
    importlib.import_module("xllamacpp")  # load the libraries that it depends on
    library = ctypes.CDLL(str(_library()))
    init = library._Z23llama_grammar_init_implPK11llama_vocabPKcS3_bPS3_mPKim
    init.restype = ctypes.c_void_p
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    init.argtypes = (pointer, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_bool, pointer, size, pointer, size)
    accept = library._Z20llama_grammar_acceptP13llama_grammarj
    accept.restype = None
    accept.argtypes = (pointer, ctypes.c_uint32)
    stacks = library._Z24llama_grammar_get_stacksP13llama_grammar
    stacks.restype = pointer
    stacks.argtypes = (pointer,)
    free = library._Z23llama_grammar_free_implP13llama_grammar
    free.restype = None
    free.argtypes = (pointer,)
    return types.SimpleNamespace(init=init, accept=accept, stacks=stacks, free=free)


class Llama:
    """llama.cpp's matcher for one grammar."""

    def __init__(self, gbnf: str) -> None:
        self.gbnf = gbnf
        self.explain("")  # raises here if the grammar is invalid

    def __call__(self, text: str) -> bool:
        return not self.explain(text)

    def explain(self, text: str) -> str:
        """Return where the text leaves the grammar; empty if it matches."""
        llama = _llama()
        grammar = llama.init(None, self.gbnf.encode(), b"root", False, None, 0, None, 0)
        if not grammar:
            raise ValueError(f"llama.cpp does not read this grammar:\n{self.gbnf}")
        try:
            for at, char in enumerate(text):
                llama.accept(grammar, ord(char))
                stacks_ = _Vector.from_address(llama.stacks(grammar))
                if stacks_.begin == stacks_.end:
                    return f"{text[:at]!r}, then not {text[at:]!r}"
            stacks_ = _Vector.from_address(llama.stacks(grammar))
            for address in range(stacks_.begin, stacks_.end, ctypes.sizeof(_Vector)):
                stack = _Vector.from_address(address)
                if stack.begin == stack.end:
                    return ""
            return f"{text!r}, then not the end"
        finally:
            llama.free(grammar)


# --- xgrammar


class _Anything:
    """Class that accepts any arguments."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass


class _Stub(types.ModuleType):
    """Module in which every name is a class that accepts any arguments."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Anything,), {})


@cache
def _xgrammar() -> Any:
    importlib.import_module("tvm_ffi")  # import it before the stubs exist: it checks for torch
    if importlib.util.find_spec("torch") is not None:
        return importlib.import_module("xgrammar")
    # Replace both: the real transformers would import the stub of torch.
    real = {name: sys.modules.pop(name, None) for name in ("torch", "transformers")}
    sys.modules.update({name: _Stub(name) for name in real})
    try:
        return importlib.import_module("xgrammar")
    finally:
        for name, module in real.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module


class XGrammar:
    """xgrammar's matcher for one grammar."""

    def __init__(self, grammar: Any) -> None:
        xgrammar = _xgrammar()
        compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo([]), cache_enabled=False)
        self._compiled = compiler.compile_grammar(grammar)

    @classmethod
    def from_gbnf(cls, gbnf: str) -> XGrammar:
        return cls(_xgrammar().Grammar.from_ebnf(gbnf))

    @classmethod
    def from_tag(cls, tag: dict[str, Any]) -> XGrammar:
        return cls(_xgrammar().Grammar.from_structural_tag(tag))

    @classmethod
    def from_schema(cls, schema: dict[str, Any]) -> XGrammar:
        return cls(_xgrammar().Grammar.from_json_schema(schema))

    @classmethod
    def built_in(cls, model: str, tools: list[dict[str, Any]]) -> XGrammar:
        """Return xgrammar's own structural tag for a family of models."""
        xgrammar = _xgrammar()
        tag = xgrammar.get_model_structural_tag(model, tools, "required", reasoning="auto")
        return cls(xgrammar.Grammar.from_structural_tag(tag))

    def __call__(self, text: str) -> bool:
        matcher = _xgrammar().GrammarMatcher(self._compiled, terminate_without_stop_token=True)
        return bool(matcher.accept_string(text)) and bool(matcher.is_terminated())

    def explain(self, text: str) -> str:
        """Return where the text leaves the grammar; empty if it matches."""
        if self(text):
            return ""
        xgrammar = _xgrammar()
        matcher = xgrammar.GrammarMatcher(self._compiled, terminate_without_stop_token=True)
        for at, char in enumerate(text):
            if not matcher.accept_string(char):
                return f"{text[:at]!r}, then not {text[at:]!r}"
        return f"{text!r}, then not the end"
