"""Readers of call arguments: one resumable codec per notation.  Each codec outputs JSON text."""
