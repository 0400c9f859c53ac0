"""Chat messages in the shape of Chat Completions: media parts and calls in the history."""
