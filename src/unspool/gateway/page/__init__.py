"""Web page at ``/``, with the playground, a chat with the served models, and the latest requests."""
