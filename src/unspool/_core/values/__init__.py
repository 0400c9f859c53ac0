"""Values that everything is made of: events, messages, errors, policies."""
