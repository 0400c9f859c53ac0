"""Reading of a model's properties from files, directories, caches and running servers."""

from .resolve import find_source, from_stream, read_source, read_template
from .source import Source

__all__ = ["Source", "find_source", "from_stream", "read_source", "read_template"]
