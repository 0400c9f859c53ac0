"""Server of the gateway: listening sockets, the HTTP protocol and worker processes."""
