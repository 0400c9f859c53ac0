"""Parsing speed, side by side: what ``benchmarks/parse.py`` runs.

``workloads`` makes the texts, once.  ``measure`` runs one contender over them, in
that contender's own environment, and prints what it saw.  ``contenders`` has a file
for each.  ``resources`` is memory and creation.  ``report`` makes tables, ``plots``
pictures, ``history`` the record of ratios; these read results, and measure nothing.
"""
