"""Model store of Ollama, written for tests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from gguf_files import write_gguf


class Store:
    """Directory as ``ollama pull`` leaves it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "blobs").mkdir(parents=True)

    def blob(self, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (self.directory / "blobs" / f"sha256-{digest}").write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def add(
        self,
        where: str,
        *,
        jinja: str | None = None,
        weights: bytes | None = None,
        go: str = "",
        params: dict[str, object] | None = None,
        architecture: str = "qwen3",
        **config: object,
    ) -> None:
        if weights is None:
            path = write_gguf(self.directory / "weights.gguf", jinja, architecture=architecture)
            weights = path.read_bytes()
            path.unlink()
        layers = {"model": weights}
        if go:
            layers["template"] = go.encode()
        if params:
            layers["params"] = json.dumps(params).encode()
        described = {"model_format": "gguf", "model_family": architecture, **config}
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                **self.blob(json.dumps(described).encode()),
            },
            "layers": [
                {"mediaType": f"application/vnd.ollama.image.{kind}", **self.blob(data)}
                for kind, data in layers.items()
            ],
        }
        path = self.directory / "manifests" / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(manifest), encoding="utf-8")
