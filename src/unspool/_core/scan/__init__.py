"""Text search: markers, runs of characters, and caches for search results."""
