"""Conformance: one suite for every parser of tool calls, in every dialect and every chunking.

``unspool conformance run`` holds a parser against it; see ``docs/conformance.md``.
"""
