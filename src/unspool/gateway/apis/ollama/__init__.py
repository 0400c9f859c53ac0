"""Ollama's API: ``/api/chat``, ``/api/generate`` and the model endpoints."""
