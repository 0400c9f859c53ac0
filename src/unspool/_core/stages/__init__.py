"""Stages after the machine.  Each takes events, and returns events, a message or columns."""
