"""What is known of a model that is served: its dialect and why, and what the doctor says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...chat_templates._render_pool import apart
from ...errors import UnspoolError
from ...models._doctor.doctor import diagnose
from ..upstreams.errors import redact

if TYPE_CHECKING:
    from ...models._doctor.report import Diagnosis, Finding
    from ..generation.served_models import Served


def examined(served: Served) -> dict[str, Any]:
    """A model, as the page shows it; the doctor takes a second or two."""
    model, settings = served.model, served.settings
    told: dict[str, Any] = {
        "name": model.name,
        "dialect": model.family,
        "chosen": "by the setting dialect" if settings.dialect != "auto" else "by the chat template",
        "upstream": settings.upstream,
        "constraints": list(served.upstream.constraints),
        "tools_shown": "by us, in the system message" if model.tool_prompt is not None else "by the template",
        "doctor": None,
        "why_no_doctor": "",
    }
    if model.source is None:
        told["tools_shown"] = "by the upstream"
        told["why_no_doctor"] = (
            "The upstream renders prompts itself, and no chat template is known here: set template or "
            "model_dir, and it can be examined."
        )
        return told
    try:
        with apart():
            told["doctor"] = _told(diagnose(model.source))
    except UnspoolError as error:
        told["why_no_doctor"] = redact(str(error))
    return told


def _told(found: Diagnosis) -> dict[str, Any]:
    """What it found, without the places of files: those are the operator's business."""
    return {
        "healthy": found.healthy,
        "dialect": None if found.dialect is None else found.dialect.name,
        "confidence": found.detection.confidence,
        "evidence": [redact(sentence) for sentence in found.detection.evidence],
        "runners_up": list(found.detection.runners_up),
        "findings": _findings(found.findings),
        "breaks": _findings(found.breaks),
        "markers": [{"text": one.text, "role": one.role, "kind": one.kind} for one in found.markers],
        "requests": [{"name": case.name, "settings": dict(case.settings)} for case in found.cases],
    }


def _findings(found: Iterable[Finding]) -> list[dict[str, str]]:
    return [{"level": one.level, "text": redact(one.text), "fix": redact(one.fix)} for one in found]
