"""Codecs: resumable transcoders from a payload's notation to JSON text."""
