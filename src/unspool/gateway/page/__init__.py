"""The web page at ``/``: the playground, a chat with the served models, and the latest requests."""
