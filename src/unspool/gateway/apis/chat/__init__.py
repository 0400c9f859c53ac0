"""Chat Completions API: ``/v1/chat/completions``."""
