"""HTTP concepts that all APIs share: exchanges, authentication, bodies, errors."""
