"""Plug-ins that run unspool inside inference engines and trainers.

For each supported trainer, there is a module that the user imports or names in the trainer's configuration.
For each supported engine, there is a package that the engine loads through an entry point when it starts.  A
plug-in never prevents its engine from starting: if the engine's release is not compatible, the plug-in logs
one line and leaves the engine's own parsers in place.
"""
