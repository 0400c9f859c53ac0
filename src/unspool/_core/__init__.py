"""Core of the library, which converts text or token ids to events and messages.

The core imports only the standard library.
"""
