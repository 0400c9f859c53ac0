"""The APIs: one package per API, with its requests and its responses."""
