"""Plug-ins that run unspool inside inference engines and trainers.

Each trainer has a module that its user imports or names in the trainer's configuration.  Each engine has a
package that the engine loads through an entry point when it starts.  A plug-in never stops its engine: if
the engine's version lacks something, the plug-in logs one line and leaves the engine's own parsers in place.
"""
