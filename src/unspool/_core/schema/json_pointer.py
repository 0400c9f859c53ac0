"""JSON pointers (RFC 6901) in the ``$ref`` of a schema, such as ``#/$defs/City``."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote


def resolve_reference(reference: object, root: object) -> object:
    """Return the part of ``root`` that a ``$ref`` points to.

    For a reference that is not a pointer into this document, or points to a missing part, return ``True``,
    which is the schema that allows everything.

    >>> resolve_reference("#/$defs/a~1b/0", {"$defs": {"a/b": ["x"]}})
    'x'
    """
    if not isinstance(reference, str) or not f"{reference}/".startswith("#/"):
        return True
    target = root
    for step in unquote(reference).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, (list, tuple)):
            # An index with nine or more digits is beyond the end of any list, so it is not even converted.
            index = int(key) if len(key) < 9 and key.isdecimal() else len(target)
            target = target[index] if index < len(target) else True
        elif isinstance(target, Mapping) and key in target:
            target = target[key]
        else:
            return True
    return target
