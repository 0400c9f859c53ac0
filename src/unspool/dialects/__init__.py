"""The built-in dialects: data only, a module per family of models."""
