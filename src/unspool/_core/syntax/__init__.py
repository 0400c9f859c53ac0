"""Syntax: a dialect, compiled for the machine."""
