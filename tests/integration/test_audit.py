"""`stowplan audit` as a process: files, standard input, the embedded API server, mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.embedded_fixtures import EmbeddedServer
from tests.unit.audit.cluster import Json, node, pod

OVER: list[Json] = [node("n1", cpu="1"), pod("a", "n1", cpu="600m"), pod("b", "n1", cpu="600m")]


def audit(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stowplan", "audit", *arguments]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=60, check=False
    )


def listed(things: list[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": things}


def test_a_file_as_kubectl_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(listed(OVER)))
    done = audit("-f", str(file))
    assert done.returncode == 1
    assert "overcommit   default/b   n1     default-scheduler" in done.stdout
    assert "cpu: 1200m of 1000m held by 2 pods, default/b the last of them" in done.stdout
    assert done.stdout.splitlines()[-1] == (
        "1 finding: 1 overcommit. Checked 2 bound pods of 2, 1 node."
    )
    assert done.stderr == ""


def test_json_and_several_documents_on_standard_input() -> None:
    for text in (
        json.dumps(listed(OVER)),
        "---\n".join(json.dumps(each) + "\n" for each in OVER),
        json.dumps({"kind": "PodList", "items": OVER}),
    ):
        done = audit("-f", "-", "-o", "json", given=text)
        assert done.returncode == 1, done.stderr
        report = json.loads(done.stdout)
        assert [each["kind"] for each in report["findings"]] == ["overcommit"]
        assert (report["nodes"], report["pods"], report["judged"]) == (1, 2, 2)


def test_nothing_to_report(tmp_path: Path) -> None:
    done = audit("-f", "-", "-o", "yaml", given=json.dumps(listed(OVER[:2])))
    assert done.returncode == 0
    assert yaml.safe_load(done.stdout)["findings"] == []


def test_the_embedded_api_server(embedded_server: EmbeddedServer) -> None:
    def create(path: str, thing: Json) -> None:
        body = {"apiVersion": "v1", **thing}
        kubeconfig_free_post(f"{embedded_server.url}{path}", body)

    for thing in OVER:
        name = thing["metadata"]["name"]
        if thing["kind"] == "Node":
            create("/api/v1/nodes", {**thing, "metadata": {"name": name}})
            continue
        pods = "/api/v1/namespaces/default/pods"
        containers = [{**each, "image": "x"} for each in thing["spec"]["containers"]]
        for each in containers:
            each.pop("ports")
        create(
            pods,
            {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}},
        )
        target = {"kind": "Node", "name": "n1"}
        create(f"{pods}/{name}/binding", {"kind": "Binding", "target": target})
    done = audit(
        "--kubeconfig", str(embedded_server.kubeconfig_path), "--grace", "0s", "-o", "json"
    )
    assert done.returncode == 1, done.stderr
    found = {(each["kind"], each["pod"]) for each in json.loads(done.stdout)["findings"]}
    assert ("overcommit", "default/b") in found


def kubeconfig_free_post(url: str, body: Any) -> None:
    import urllib.request

    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 201
