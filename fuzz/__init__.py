"""Fuzzing: inputs that nobody would write, and the laws that hold for them all the same.

A target (``fuzz/targets``) is a function of bytes.  It returns, or raises because a
promise is broken.  ``shell.py`` lets atheris choose the bytes, ``run.py`` runs all
targets and says what came of it, and ``tests/project/test_fuzz.py`` holds every
target to the inputs that were worth keeping (``fuzz/corpus``).
"""
