"""Report on a served model for the page: its dialect, the evidence for the dialect, and any problems."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import UnspoolError
from ...models.doctor.diagnose import diagnose
from ...models.doctor.report import Diagnosis, Finding
from ...templates import isolated_renderer
from ..generation.served_models import ServedModel
from ..upstreams.failures import redact


def report_model(served: ServedModel) -> dict[str, Any]:
    """Return the report that the page shows for a model; the diagnosis takes a second or two."""
    model, settings = served.model, served.settings
    report: dict[str, Any] = {
        "name": model.name,
        "dialect": model.family,
        "chosen": "by the setting dialect" if settings.dialect != "auto" else "by the chat template",
        "upstream": settings.upstream,
        "constraints": list(served.upstream.constraints),
        "tools_shown": (
            "by the gateway, in the system message" if model.tool_prompt is not None else "by the template"
        ),
        "doctor": None,
        "why_no_doctor": "",
    }
    if model.source is None:
        report["tools_shown"] = "by the upstream"
        report["why_no_doctor"] = (
            "The upstream renders prompts itself, and the gateway has no chat template to examine: "
            "set template or model_dir."
        )
        return report
    try:
        with isolated_renderer():
            report["doctor"] = _diagnosis_to_dict(diagnose(model.source))
    except UnspoolError as error:
        report["why_no_doctor"] = redact(str(error))
    return report


def _diagnosis_to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Convert a diagnosis to a dictionary; leave out file paths, which only the operator may see."""
    return {
        "healthy": diagnosis.healthy,
        "dialect": None if diagnosis.dialect is None else diagnosis.dialect.name,
        "confidence": diagnosis.detection.confidence,
        "evidence": [redact(sentence) for sentence in diagnosis.detection.evidence],
        "runners_up": list(diagnosis.detection.runners_up),
        "findings": _findings_to_dicts(diagnosis.findings),
        "breaks": _findings_to_dicts(diagnosis.breaks),
        "markers": [{"text": one.text, "role": one.role, "kind": one.kind} for one in diagnosis.markers],
        "requests": [{"name": case.name, "settings": dict(case.settings)} for case in diagnosis.cases],
    }


def _findings_to_dicts(findings: Iterable[Finding]) -> list[dict[str, str]]:
    return [{"level": one.level, "text": redact(one.text), "fix": redact(one.fix)} for one in findings]
