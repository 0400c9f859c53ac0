"""JSON pointers (RFC 6901), as the ``$ref`` of a schema writes them: ``#/$defs/City``."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote


def resolve_reference(reference: object, root: object) -> object:
    """Return the part of ``root`` that a ``$ref`` points to.

    A reference that is not a pointer into this document, or points to nothing, gives ``True``: the
    schema that allows everything.

    >>> resolve_reference("#/$defs/a~1b/0", {"$defs": {"a/b": ["x"]}})
    'x'
    """
    if not isinstance(reference, str) or not f"{reference}/".startswith("#/"):
        return True
    target = root
    for step in unquote(reference).split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, (list, tuple)):
            # Longer numbers than any list is long are refused before they are computed.
            index = int(key) if len(key) < 9 and key.isdecimal() else len(target)
            target = target[index] if index < len(target) else True
        elif isinstance(target, Mapping) and key in target:
            target = target[key]
        else:
            return True
    return target
