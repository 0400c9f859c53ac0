"""The built-in dialects: data only, a module per group of families."""
