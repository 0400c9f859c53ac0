"""Generation: from a checked request to parsed events."""
