"""Plug-ins that run unspool inside inference engines and trainers.

There is a module for each supported trainer, which the user imports or names in the trainer's configuration.
There is a package for each supported engine, which the engine loads through an entry point when it starts.  A
plug-in never prevents its engine from starting: if the engine's release is not compatible, the plug-in logs
one line and leaves the engine's own parsers in place.
"""
