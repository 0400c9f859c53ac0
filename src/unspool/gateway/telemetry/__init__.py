"""Logs and metrics, for every other package of the gateway."""
