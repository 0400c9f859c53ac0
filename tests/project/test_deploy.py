"""The files under ``deploy`` match the gateway's settings, flags, metrics and paths."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

from gateways import fetch, free_port
from paths import ROOT

pytest.importorskip("msgspec")
pytest.importorskip("starlette")

from unspool.gateway import Settings, load_settings
from unspool.gateway.http.api_keys import load_api_keys
from unspool.gateway.settings import PREFIX

DEPLOY = ROOT / "deploy"
ANALYZE = shutil.which("systemd-analyze") or ""
SETTINGS = {f"{PREFIX}{name.upper()}" for name in Settings.__slots__} | {f"{PREFIX}CONFIG"}


def documents(name: str) -> list[Any]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, with continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def stages() -> dict[str, list[tuple[str, str]]]:
    by_stage: dict[str, list[tuple[str, str]]] = {}
    for word, rest in instructions():
        if word == "FROM":
            base, name = re.fullmatch(r"(\S+) AS (\S+)", rest, re.ASCII).groups()  # type: ignore[union-attr]
            by_stage[name] = [("FROM", base)]
        else:
            by_stage[name].append((word, rest))
    return by_stage


def test_images_use_only_debian_and_pypi() -> None:
    for name, steps in stages().items():
        assert steps[0][1].startswith("debian:") or steps[0][1] in stages(), name
        for word, rest in steps:
            assert word != "ADD"
            assert "http" not in rest or "127.0.0.1" in rest
            if "apt-get install" in rest:
                assert "--no-install-recommends" in rest
                assert "rm -rf /var/lib/apt/lists/*" in rest
            if "bin/pip install" in rest:
                assert "--no-cache-dir" in rest
            if "uv pip install" in rest:
                assert "UV_NO_CACHE=1" in dict(stages()["uv"])["ENV"]


def test_copied_files_exist_and_are_not_ignored() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    for word, rest in instructions():
        if word == "COPY" and not rest.startswith("--from="):
            for source in shlex.split(rest)[:-1]:
                assert (ROOT / source).exists()
                assert f"!{source}" in ignored


def test_image_of_the_gateway_has_the_compiled_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = stages()["build"]
    assert ("ENV", "UNSPOOL_COMPILE=1") in steps
    built = next(rest for word, rest in steps if word == "RUN" and "uv build" in rest)
    assert steps.index(("ENV", "UNSPOOL_COMPILE=1")) < steps.index(("RUN", built))
    # The build backend runs without isolation, so everything that it requires must be installed.
    monkeypatch.setenv("UNSPOOL_COMPILE", "1")
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["CompiledCore"]
    needed = hook.dependencies(object())
    assert needed
    assert set(needed) <= set(shlex.split(built))
    (installed,) = (rest for word, rest in steps if word == "RUN" and "apt-get install" in rest)
    assert {"gcc", "libc6-dev", "python3-dev"} <= set(installed.split())
    assert "assert COMPILED" in built


def test_images_run_unprivileged_and_receive_signals() -> None:
    for name in ("gateway", "llamacpp"):
        steps = dict(stages()[name])
        assert int(steps["USER"]) > 0
        # In exec form: a shell in between would not forward signals.
        assert isinstance(ast.literal_eval(steps["ENTRYPOINT"]), list)
        assert "/health" in steps["HEALTHCHECK"]
    environment = dict(stages()["gateway"])["ENV"]
    assert {pair.partition("=")[0] for pair in environment.split()} <= SETTINGS


def test_compose_file_is_valid() -> None:
    (document,) = documents("compose.yaml")
    for service in document["services"].values():
        assert service["build"]["target"] in stages()
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    gateway, engine = document["services"]["gateway"], document["services"]["engine"]
    assert gateway["environment"].keys() <= SETTINGS
    script = (DEPLOY / "llama_server.py").read_text(encoding="utf-8")
    assert all(f'"{name}"' in script for name in engine["environment"])
    values = {name: str(value) for name, value in gateway["environment"].items() if "$" not in str(value)}
    settings = load_settings(environment=values)
    assert int(gateway["stop_grace_period"].removesuffix("s")) > settings.shutdown_timeout
    assert all(port.startswith("127.0.0.1:") for port in gateway["ports"])


def test_systemd_unit_is_valid() -> None:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "unspool.service", encoding="utf-8")
    service = unit["Service"]
    assert shlex.split(service["ExecStart"])[1:] == ["serve", "--config", "/etc/unspool/gateway.toml"]
    assert service["ExecReload"].endswith("-HUP $MAINPID")
    variables = dict(value.split("=", 1) for value in shlex.split(service["Environment"]))
    assert variables.keys() <= SETTINGS
    # systemd passes the keys in a file that only the service can read.
    credential, source = service["LoadCredential"].split(":")
    assert variables["UNSPOOL_API_KEYS_FILE"] == f"%d/{credential}"
    text = (DEPLOY / "unspool.service").read_text(encoding="utf-8")
    assert f"# install -D -m 600 deploy/{credential} {source}" in text
    (key,) = load_api_keys(Settings(api_keys_file=str(DEPLOY / credential)))
    assert key.name == "example"
    settings = load_settings(environment={}, config=str(DEPLOY / "gateway.toml"))
    assert int(service["TimeoutStopSec"]) > settings.shutdown_timeout


@pytest.mark.skipif(not ANALYZE, reason="there is no systemd here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "unspool.service").read_text(encoding="utf-8")
    path = tmp_path / "unspool.service"
    path.write_text(text.replace("/opt/unspool/bin/unspool", "/bin/true"), encoding="utf-8")
    ran = subprocess.run([ANALYZE, "verify", str(path)], capture_output=True, text=True, check=False)
    assert [line for line in ran.stderr.splitlines() if "unspool.service" in line] == []


def test_kubernetes_manifest_is_valid(tmp_path: Path) -> None:
    kinds = {document["kind"]: document for document in documents("kubernetes.yaml")}
    config = kinds["ConfigMap"]["data"]
    (tmp_path / "gateway.toml").write_text(config["gateway.toml"], encoding="utf-8")
    settings = load_settings(environment={}, config=str(tmp_path / "gateway.toml"))
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {one["name"] for one in container["env"]} <= SETTINGS
    # The service is called unspool, so its links would be variables such as UNSPOOL_PORT=tcp://10.0.0.1:80.
    assert pod["enableServiceLinks"] is False
    assert pod["terminationGracePeriodSeconds"] > settings.shutdown_timeout
    assert Path(settings.template).name in config
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": settings.port, "metrics": settings.metrics_port}


def test_kubernetes_scrape_finds_the_metric_of_the_autoscaler(tmp_path: Path) -> None:
    kinds = {document["kind"]: document for document in documents("kubernetes.yaml")}
    (metric,) = kinds["HorizontalPodAutoscaler"]["spec"]["metrics"]
    template = kinds["Deployment"]["spec"]["template"]
    annotations = template["metadata"]["annotations"]
    assert annotations["prometheus.io/scrape"] == "true"
    scraped = int(annotations["prometheus.io/port"])
    # Run the container's command with the files of the ConfigMap; only addresses and folders differ.
    port, metrics_port = free_port(), free_port()
    for name, text in kinds["ConfigMap"]["data"].items():
        local = text.replace("/etc/unspool", str(tmp_path)).replace(
            "http://engine:8000", "http://127.0.0.1:1"
        )
        local = local.replace(f"metrics_port = {scraped}", f"metrics_port = {metrics_port}")
        (tmp_path / name).write_text(local, encoding="utf-8")
    (container,) = template["spec"]["containers"]
    arguments = [text.replace("/etc/unspool", str(tmp_path)) for text in container["args"]]
    keys = {one["name"]: "sk-test" for one in container["env"]}
    with subprocess.Popen(
        [sys.executable, "-m", "unspool", "serve", *arguments, "--port", str(port)],
        env=os.environ | keys,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            assert any('"worker_serves"' in line for line in process.stderr)
            status, page, _ = fetch(f"http://127.0.0.1:{metrics_port}{annotations['prometheus.io/path']}")
            assert fetch(f"http://127.0.0.1:{port}/metrics")[0] == 401
        finally:
            process.terminate()
    assert status == 200
    assert f"\n{metric['pods']['metric']['name']} 0\n" in page.decode()
