"""Clients for the servers and engines that generate text."""
