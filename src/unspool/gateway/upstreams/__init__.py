"""Upstreams: whatever generates text."""
