"""Messages: ``/v1/messages``."""
