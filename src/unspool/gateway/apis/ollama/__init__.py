"""Ollama's API: ``/api/chat``, ``/api/generate``, ``/api/embed`` and the endpoints that describe models."""
