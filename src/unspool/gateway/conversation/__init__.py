"""Preparation of the conversation in a request: its media, and its broken tool calls."""
