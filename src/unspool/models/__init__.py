"""Tools for models on disk or on a server: detection of the dialect, checks of the setup, conversions."""
