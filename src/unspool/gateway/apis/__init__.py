"""HTTP APIs of the gateway: request handlers, and converters for requests and responses."""
