"""The machine: characters in, events out."""
