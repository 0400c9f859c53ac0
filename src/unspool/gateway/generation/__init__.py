"""Generation: from a generation request to the events of its output."""
