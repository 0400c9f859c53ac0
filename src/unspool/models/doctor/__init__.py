"""The ``unspool doctor`` command: checks of a model's setup, and flags for its server."""
