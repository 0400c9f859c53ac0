"""Modules of ``benchmarks/parse.py``, which compares parsing speed.

``workloads`` generates the texts once. ``measure`` runs one contender on them in the
contender's own environment and prints the measurements. ``contenders`` has a module for each
contender. ``resources`` measures memory and creation. ``report`` writes tables, ``plots`` draws
figures, ``history`` keeps ratios; these three read results and measure nothing.
"""
