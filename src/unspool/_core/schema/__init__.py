"""Types: what the tools' schemas say about a text, and Python's spelling of values."""
