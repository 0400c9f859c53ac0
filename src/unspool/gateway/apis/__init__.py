"""APIs: for each API its handlers, and the conversion of its requests and responses."""
