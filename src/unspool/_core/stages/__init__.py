"""Stages after the machine: each takes events and returns events or a message."""
