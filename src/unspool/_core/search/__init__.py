"""Search in text: literals, runs of characters, and what is remembered of both."""
