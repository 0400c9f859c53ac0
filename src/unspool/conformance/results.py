r"""Results: what ``run --json`` writes and the report reads.

One JSON object::

    {"format": 1,
     "unspool": "0.1.0",                   # the suite's version
     "created": "2026-11-15T06:30:00Z",
     "chunkings": ["whole", "characters"],
     "parsers": [{"name": "vllm", "version": "0.32.0", "dialects": {"hermes": {...}, ...}}],
     "dialects": [{"name": "hermes", "models": "Hermes 2 Pro to 4, Qwen2.5, ..."}],
     "groups": [{"name": "order", "title": "Order and interleaving"}],
     "inapplicable": [{"dialect": "xlam", "scenario": "order/text-call",
                       "group": "order", "reason": "calls count only where no text came before"}],
     "cells": [{"parser": "vllm", "dialect": "hermes", "group": "order",
                "passed": 40, "failed": 1, "xfailed": 2, "unsupported": 0,
                "classes": {"match": 40, "loss": 1, "whitespace": 2},
                "sample": "hermes:order/text-call"}],
     "results": [{"parser": "vllm", "case": "hermes:order/call-text", "dialect": "hermes", "group": "order",
                  "scenario": "order/call-text",
                  "status": "failed",      # failed, xfailed, unsupported; passed only for samples
                  "class": "loss",         # of the worst chunking: see compare.CLASSES
                  "chunkings": {"whole": "match", "characters": "loss"},
                  "chunking": "characters", "chunks": ["<", "t", ...],    # the worst one
                  "actual": {...} or null, # ExtractedToolCallInformation, with "order"
                  "error": "",             # what the parser raised, or which rule of streams it broke
                  "diff": "- content ...\n+ content ...",
                  "excuse": "",            # of xfailed: the ruling's or the ledger's reason;
                                           # of unsupported: what the parser said
                  "minimal": {"output": "...", "chunks": [...]} or null}],
     "cases": {"hermes:order/call-text": {...}}}   # TestCase.to_json(), of every case in "results"

A *cell* counts cases, not runs: a case has passed if it has in every chunking.
``cells`` are complete; ``results`` has one entry for every case that did not pass
and, so that each cell can be opened, the first one that did.  ``class`` and
``chunkings`` take the classes of ``compare.CLASSES``.  Texts beyond ``LONGEST``
characters are abbreviated in the middle.
"""
