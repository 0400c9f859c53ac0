"""Text search: markers, runs of characters, and caches of both."""
