"""Built-in dialects, one module for each family of models.  They contain only data."""
