"""Logs and metrics of the gateway."""
