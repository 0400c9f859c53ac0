"""Integrations: unspool inside an engine or a trainer, under its own contracts.

A trainer has a module, which its user names.  Each engine has a folder, loaded by an entry point of this
distribution when the engine starts.  The engine is never stopped by it: what an engine of another
version lacks is said in one line, and the engine's own parsers stay.
"""
