"""Built-in dialects, with one module for each family of models.  The modules contain only data."""
