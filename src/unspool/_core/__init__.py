"""Core of the library, which converts text or token ids to events and messages.

It imports nothing outside the standard library.
"""
