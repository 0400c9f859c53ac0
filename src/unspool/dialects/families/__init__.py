"""The built-in dialects, one module per model family. Data only."""
