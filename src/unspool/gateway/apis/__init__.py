"""HTTP APIs of the gateway: their handlers, and the conversion of requests and responses."""
