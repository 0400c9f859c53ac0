"""State that outlives a request: stored responses, conversations and threads."""
