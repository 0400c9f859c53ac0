"""Upstreams: clients of the servers and engines that generate text."""
