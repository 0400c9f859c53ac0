"""Stored responses, conversations and message threads."""
