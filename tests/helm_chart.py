"""The Helm chart as the tests use it: rendered by the real Helm, one process per render."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
#: In C where PyYAML has it: the dashboard is thousands of lines.
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

CHART = Path(__file__).parents[1] / "deploy" / "helm" / "stowplan"
#: Ten sets of values, by chart-testing's convention for their place.
VALUE_SETS = {
    file.name.removesuffix("-values.yaml"): file for file in sorted((CHART / "ci").iterdir())
}


def helm(
    binary: Path, *arguments: str | Path, values: Mapping[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Helm; `values` are given on standard input, for `--values=-`."""
    text = yaml.safe_dump(dict(values)) if values is not None else ""
    given = ["--values=-"] if values is not None else []
    return subprocess.run(
        [binary, *arguments, *given], input=text, capture_output=True, text=True, timeout=120
    )


def render(
    binary: Path,
    values: Path | Mapping[str, Any] | None = None,
    *,
    release: str = "stowplan",
    namespace: str = "stowplan",
) -> list[Json]:
    """All objects of a release, as `helm install` would send them."""
    text = render_text(binary, values, release=release, namespace=namespace)
    return [each for each in yaml.load_all(text, SafeLoader) if each]


def render_text(
    binary: Path,
    values: Path | Mapping[str, Any] | None = None,
    *,
    release: str = "stowplan",
    namespace: str = "stowplan",
) -> str:
    """The manifests of a release, as YAML."""
    arguments: list[str | Path] = ["template", release, CHART, "--namespace", namespace]
    if isinstance(values, Path):
        done = helm(binary, *arguments, "--values", values)
    else:
        done = helm(binary, *arguments, values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def workloads(objects: Iterable[Json]) -> dict[str, Json]:
    """Pod templates of all Deployments, by the Deployment's name."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in objects
        if each["kind"] == "Deployment"
    }


def pods(objects: Iterable[Json]) -> list[Json]:
    """A pod for each Deployment: Pod Security refuses pods, and only warns of their controllers."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **each["spec"]["template"]["metadata"],
                "name": f"{each['metadata']['name']}-trial",
                "namespace": each["metadata"]["namespace"],
            },
            "spec": each["spec"]["template"]["spec"],
        }
        for each in objects
        if each["kind"] == "Deployment"
    ]
