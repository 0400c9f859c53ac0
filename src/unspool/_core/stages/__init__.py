"""Stages after the machine.  Each stage takes events, and returns events, a message or columns."""
