"""The words that dialects are declared in."""
