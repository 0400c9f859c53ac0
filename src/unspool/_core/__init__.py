"""Core: text or token ids in, events and messages out.  It imports nothing outside the standard library."""
