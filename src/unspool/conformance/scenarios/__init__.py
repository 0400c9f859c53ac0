"""Scenarios: written once, in no dialect, and rendered into each."""
