"""Loading of tokenizer files: ``tokenizer.json`` and, for Mistral's models, ``tekken.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..._core.token_ids.tokenizer_adapters import AnyTokenizer
from ...errors import UsageError

_EXTRAS: Final = {"tokenizer.json": "tokenizers", "tekken.json": "mistral"}
"""Mapping from each tokenizer file to the extra (``unspool[EXTRA]``) that installs the package for this file.
"""


def find_tokenizer_file(directory: Path) -> Path | None:
    """Return the path of the tokenizer file in a model directory; None if there is no such file."""
    return next((directory / name for name in _EXTRAS if (directory / name).is_file()), None)


def load_tokenizer(file: Path) -> AnyTokenizer:
    """Load a tokenizer with the package for its format.

    :raises UsageError: if the package is not installed.
    """
    try:
        if file.name == "tekken.json":
            from mistral_common.tokens.tokenizers.tekken import Tekkenizer

            return Tekkenizer.from_file(str(file))
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(file))
    except ImportError as error:
        extra = _EXTRAS.get(file.name, "tokenizers")
        raise UsageError(f"reading {file} needs a package: pip install 'unspool[{extra}]'") from error
