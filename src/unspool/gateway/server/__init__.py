"""The server process: sockets, workers, logs and metrics."""
