"""Soak test: gateways under faults on all sides."""
