"""Models: dialect detection, model files and servers, setup checks, and dialect converters."""

from typing import TYPE_CHECKING

from .._lazy_names import lazy_names

if TYPE_CHECKING:
    from .convert.from_response_template import from_response_template
    from .convert.to_response_template import ExportError, to_response_template
    from .detection.detect_dialect import detect, detect_model, detect_server
    from .detection.result import Detection, Reasoning
    from .doctor.diagnose import diagnose
    from .doctor.report import Diagnosis
    from .inference.infer_from_outputs import InferredDialect, infer_dialect
    from .inference.proof import OutputProof
    from .sources import Source, find_source, read_source
    from .sources.source import Vocabulary

__all__ = [
    "Detection",
    "Diagnosis",
    "ExportError",
    "InferredDialect",
    "OutputProof",
    "Reasoning",
    "Source",
    "Vocabulary",
    "detect",
    "detect_model",
    "detect_server",
    "diagnose",
    "find_source",
    "from_response_template",
    "infer_dialect",
    "read_source",
    "to_response_template",
]

_LATER = {
    "from_response_template": ".convert.from_response_template",
    "ExportError": ".convert.to_response_template",
    "to_response_template": ".convert.to_response_template",
    "detect": ".detection.detect_dialect",
    "detect_model": ".detection.detect_dialect",
    "detect_server": ".detection.detect_dialect",
    "Detection": ".detection.result",
    "Reasoning": ".detection.result",
    "diagnose": ".doctor.diagnose",
    "Diagnosis": ".doctor.report",
    "InferredDialect": ".inference.infer_from_outputs",
    "infer_dialect": ".inference.infer_from_outputs",
    "OutputProof": ".inference.proof",
    "Source": ".sources",
    "find_source": ".sources",
    "read_source": ".sources",
    "Vocabulary": ".sources.source",
}
"""Mapping from each public name to its module; the module is imported when the name is first used."""

if not TYPE_CHECKING:  # with __getattr__, type checkers would accept misspelt names
    __getattr__ = lazy_names(__name__, _LATER)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
