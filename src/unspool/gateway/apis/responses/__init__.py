"""OpenAI's Responses API: ``/v1/responses`` and ``/v1/conversations``."""
