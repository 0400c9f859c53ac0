"""Fuzzing: random inputs, and the laws that must hold for all of them.

A target (``fuzz/targets``) is a function of bytes. It returns normally, or raises if the
code breaks a promise. ``shell.py`` runs a target under atheris, which chooses the bytes.
``run.py`` runs all targets and prints the results. ``tests/project/test_fuzz.py`` runs every
target on the stored inputs (``fuzz/corpus``).
"""
