"""Stages after the machine: each takes events and returns events, a message or columns."""
