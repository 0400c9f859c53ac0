"""Tools for a model on disk or on a server: dialect detection, setup checks and format conversions."""
