"""Sources of models: files, directories, caches and servers that describe a model."""

from .resolve import find_source, from_stream, read_source
from .source import Source

__all__ = ["Source", "find_source", "from_stream", "read_source"]
