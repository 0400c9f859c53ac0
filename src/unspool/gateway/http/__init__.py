"""HTTP layer that all APIs share: exchanges, authentication, request bodies and errors."""
