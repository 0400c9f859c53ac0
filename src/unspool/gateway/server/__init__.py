"""The server process: sockets, the HTTP protocol, workers."""
