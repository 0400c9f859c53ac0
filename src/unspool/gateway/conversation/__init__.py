"""Preparation of a request's conversation: handling of media and of broken tool calls."""
