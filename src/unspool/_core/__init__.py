"""The core: text or tokens in, events and messages out.  It imports nothing outside the standard library."""
