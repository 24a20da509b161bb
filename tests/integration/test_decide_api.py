"""POST /v1/decide of a running `stowplan run`: answers, limits, errors, and pods that go on."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import NODES, PODS
from stowplan.lab.controlplane.processes import free_port
from stowplan.server.decide_schema import MAX_QUESTIONS
from stowplan.testing import as_manifest, claim_template, device_class, node, pod, resource_slice
from tests.embedded_fixtures import EmbeddedServer, running_embedded_server
from tests.waiting import wait_for

Json: TypeAlias = dict[str, Any]

JSON_TYPE = {"Content-Type": "application/json"}
#: No API server here reviews tokens; tests/e2e/test_secure_serving.py asks with and without rights.
OPEN = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/v1/*"


class Reply(NamedTuple):
    status: int
    body: Any
    headers: http.client.HTTPMessage


class Scheduler(NamedTuple):
    """A running scheduler, and the API server that it serves."""

    port: int
    api: EmbeddedServer

    def send(
        self,
        body: str | bytes | None,
        path: str = "/v1/decide",
        method: str = "POST",
        **headers: str,
    ) -> Reply:
        tls = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=tls)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body=body, headers=named or JSON_TYPE)
            response = connection.getresponse()
            assert response.headers["Content-Type"] == "application/json"
            return Reply(response.status, json.loads(response.read()), response.headers)
        finally:
            connection.close()

    def ask(self, question: Any, query: str = "") -> Any:
        reply = self.send(json.dumps(question), f"/v1/decide{query}")
        assert reply.status == 200, reply.body
        return reply.body

    def create(self, *objects: Json) -> None:
        async def work() -> None:
            config = load_cluster_config(kubeconfig=str(self.api.kubeconfig_path))
            async with ApiClient(config) as client:
                for each in objects:
                    if each["kind"] == "Node":
                        await client.create(NODES, each)
                    else:
                        await client.create(PODS, each, namespace="default")

        self.api.run(work())

    def objects(self) -> list[Json]:
        """The cluster as `kubectl get nodes,pods -A -o json` prints it."""

        def read(path: str) -> Json:
            connection = http.client.HTTPConnection(self.api.url.removeprefix("http://"))
            connection.request("GET", path)
            found: Json = json.loads(connection.getresponse().read())
            connection.close()
            return found

        return [read("/api/v1/nodes"), read("/api/v1/pods"), read("/api/v1/namespaces")]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    folder = tmp_path_factory.mktemp("decide")
    with running_embedded_server(folder) as api:
        found = Scheduler(free_port(), api)
        found.create(
            as_manifest(node("large", cpu=64)),
            as_manifest(node("gpu", cpu=64, taints=["dedicated=gpu:NoSchedule"])),
            as_manifest(node("small", cpu=1)),
        )
        command = [
            *(sys.executable, "-m", "stowplan", "run", "--leader-elect=false", OPEN),
            *(f"--kubeconfig={api.kubeconfig_path}", f"--secure-port={found.port}"),
        ]
        log = folder / "log"
        with log.open("w") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream)

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return found.send(json.dumps({"questions": []})).status == 200
            except OSError:
                return False

        try:
            wait_for("the scheduler to be ready", is_ready)
            yield found
        finally:
            process.terminate()
            assert process.wait(30) == 0
        assert "Traceback" not in log.read_text()


def manifest(name: str, cpu: int | str = 2) -> Json:
    return as_manifest(pod(name, cpu=cpu))


def decided(question: Json, folder: Path) -> Json:
    """The answer of the command on the same question."""
    file = folder / "question.json"
    file.write_text(json.dumps(question))
    command = [sys.executable, "-m", "stowplan", "decide", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    answer: Json = json.loads(done.stdout)
    return answer


def test_the_live_answer_is_that_of_the_command(scheduler: Scheduler, tmp_path: Path) -> None:
    objects = scheduler.objects()
    for asked in (manifest("web"), manifest("huge", 100), manifest("tiny", "100m")):
        expected = decided({"id": 7, "objects": objects, "pod": asked}, tmp_path)
        assert scheduler.ask({"id": 7, "pod": asked}) == expected
        assert scheduler.ask({"id": 7, "objects": objects, "pod": asked}) == expected
        assert expected["nodes"]["gpu"]["plugin"] == "TaintToleration"


def test_a_summary_has_counts_instead_of_nodes(scheduler: Scheduler) -> None:
    assert scheduler.ask({"pod": manifest("web")}, "?detail=summary") == {
        "id": 1,
        "total": 3,
        "feasible": 1,
        "best": ["large"],
        "bestCount": 1,
        "score": scheduler.ask({"pod": manifest("web")})["totals"]["large"],
        "rejected": [
            {
                "nodes": 1,
                "code": "UnschedulableAndUnresolvable",
                "plugin": "TaintToleration",
                "reasons": ["node(s) had untolerated taint(s)"],
            },
            {
                "nodes": 1,
                "code": "UnschedulableAndUnresolvable",
                "plugin": "NodeResourcesFit",
                "reasons": ["Insufficient cpu"],
            },
        ],
    }
    said = scheduler.ask({"pod": manifest("web", 100)}, "?detail=summary")
    assert said["feasible"] == 0
    assert said["message"].startswith("0/3 nodes are available: ")


def test_devices_are_answered_over_http_as_by_the_command(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    brought = [
        device_class("gpu", driver="gpu.example.com"),
        resource_slice("gpu.example.com", 2, node="large"),
        claim_template("one", "gpu"),
    ]
    asked = as_manifest(pod("job", claim_templates={"gpu": "one"}))
    said = scheduler.ask({"id": 7, "apply": brought, "pod": asked})
    (given,) = said["allocations"]["large"]
    assert (given["claim"], given["device"]) == ("job-gpu", "device-0")
    assert "the node has none" in said["devices"]["small"][0]
    assert said == decided(
        {"id": 7, "objects": [*scheduler.objects(), *brought], "pod": asked}, tmp_path
    )


def test_changes_are_made_on_a_copy(scheduler: Scheduler) -> None:
    """Each question starts from the live cluster; none changes it."""
    question = {"pod": manifest("web")}
    more = as_manifest(node("more", cpu=64))
    gone = {"kind": "Node", "name": "large"}
    batch = [
        question,
        {**question, "apply": [more]},
        {**question, "delete": [gone]},
        {**question, "apply": [as_manifest(pod("fat", cpu=63, node="large"))]},
        {**question, "config": {"profiles": [{"plugins": {"multiPoint": {"disabled": []}}}]}},
        question,
    ]
    answers = scheduler.ask({"questions": batch})["answers"]
    best = [each.get("best") for each in answers]
    assert best == [["large"], ["large", "more"], None, None, ["large"], ["large"]]
    assert "large" not in answers[2]["nodes"]
    assert answers[3]["nodes"]["large"]["reasons"] == ["Insufficient cpu"]
    assert answers[0]["nodes"] == answers[-1]["nodes"]


def test_each_question_of_a_batch_has_its_own_error(scheduler: Scheduler) -> None:
    good = {"id": {"any": ["json"]}, "pod": manifest("web")}
    batch = [good, {}, 3, {"id": "x", "pods": 1}, {**good, "delete": [{"kind": "Node"}]}, good]
    answers = scheduler.ask({"questions": batch}, "?detail=summary")["answers"]
    assert [each["id"] for each in answers] == [good["id"], 2, 3, "x", good["id"], good["id"]]
    assert [each.get("error") for each in answers] == [
        None,
        "pod: Required value: the pod that is to be placed",
        "line 1: expected an object, got a number",
        'pods: unknown key; did you mean "pod"?',
        "delete[0]: name: Required value",
        None,
    ]


def test_defaults_are_asked_for(scheduler: Scheduler) -> None:
    asked = manifest("limited")
    asked["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "100"}}
    assert scheduler.ask({"pod": asked})["best"]
    assert "best" not in scheduler.ask({"pod": asked}, "?defaults=true")


WEB = json.dumps({"pod": manifest("web")})


@pytest.mark.parametrize(
    ("body", "path", "code", "message"),
    [
        ("", "", 400, "line 1, column 1: Expecting value"),
        ("[]", "", 400, "line 1: expected an object, got a list"),
        ("{", "", 400, "line 1, column 2: Expecting property name enclosed in double quotes"),
        ("[" * 100_000, "", 400, "line 1: expected an object, got a list"),
        ('{"id": ' + "[" * 100_000, "", 400, "line 1, column "),
        ("{}", "", 400, "pod: Required value: the pod that is to be placed"),
        ('{"questions": null}', "", 400, "questions: expected a list, got null"),
        ('{"questions": {}}', "", 400, "questions: expected a list, got an object"),
        ('{"questions": [], "pod": {}}', "", 400, "pod: Forbidden beside questions. Fix: put it"),
        (
            json.dumps({"questions": [1] * (MAX_QUESTIONS + 1)}),
            "",
            400,
            "questions: Too many: 101: must have at most 100 items",
        ),
        (WEB.replace('"pod": {', '"pod": {"x": "' + "y" * 70_000 + '",'), "", 400, "pod: Too long"),
        ('{"pod": {"kind": "Node"}}', "", 400, "pod: Node: metadata.name: Required value"),
        ('{"kind": "Pod", "metadata": {}}', "", 400, "kind: this is an object of the cluster"),
        (
            WEB[:-1] + ', "config": {"profiles": [' + ",".join(["{}"] * 17) + "]}}",
            "",
            400,
            "config.profiles: Too many: 17: must have at most 16 items",
        ),
        (
            WEB[:-1] + ', "objects": [], "apply": [{}]}',
            "",
            400,
            "apply: Forbidden: changes are for",
        ),
        (WEB, "?detail=all", 400, "?detail: expected one of nodes, summary"),
        (WEB, "?detial=nodes", 400, '?detial: unknown parameter; did you mean "detail"?'),
        (WEB, "/all", 404, "no such path; there are /v1/openapi.json, "),
        (" " * 4_194_305, "", 413, "the body is longer than 4194304 bytes"),
    ],
)
def test_mistakes_are_told_in_a_line(
    scheduler: Scheduler, body: str, path: str, code: int, message: str
) -> None:
    reply = scheduler.send(body, f"/v1/decide{path}")
    assert (reply.status, reply.body["code"], reply.body["kind"]) == (code, code, "Status")
    assert reply.body["message"].startswith(message)
    assert "\n" not in reply.body["message"]


def test_other_methods_and_types(scheduler: Scheduler) -> None:
    reply = scheduler.send(None, method="GET")
    assert (reply.status, reply.headers["Allow"]) == (405, "POST")
    reply = scheduler.send(WEB, Content_Type="application/yaml")
    assert (reply.status, reply.body["message"]) == (
        415,
        "the Content-Type must be application/json",
    )
    assert scheduler.send(WEB, Content_Type="application/json; charset=utf-8").status == 200
    reply = scheduler.send(WEB, Content_Type="application/json", Authorization="Bearer wrong")
    assert (reply.status, reply.body["reason"]) == (401, "Unauthorized")


def test_schemathesis_finds_nothing(scheduler: Scheduler, tmp_path: Path) -> None:
    """Requests made from the published document, valid and not, have answers that it describes.

    Left out: what a valid pod is (Kubernetes' own schema, and rules that no schema has), and
    credentials, which this server does not ask for.
    """
    document = scheduler.send(None, "/v1/openapi.json", "GET").body
    del document["security"]
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", str(file), "--no-color"),
        *(f"--url=https://127.0.0.1:{scheduler.port}", "--tls-verify=false"),
        *("--generation-deterministic", "--max-examples=8", "--phases=coverage,fuzzing"),
        "--exclude-checks=positive_data_acceptance",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    operations = sum(map(len, document["paths"].values()))
    assert f"Tested: {operations}\n" in done.stdout


def hostile(name: str) -> Json:
    """A pod that takes long to read and long to judge."""
    asked = manifest(name, 1)
    terms = [
        {
            "labelSelector": {"matchLabels": {f"{name}-{number}": "x"}},
            "topologyKey": f"zone-{number}",
        }
        for number in range(500)
    ]
    asked["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    }
    return asked


def test_pods_are_bound_while_hostile_questions_are_answered(scheduler: Scheduler) -> None:
    """Batches come one after another, from two clients, until all pods are bound."""
    count = 30
    objects = [as_manifest(node(f"n{number}", cpu=4)) for number in range(300)]
    batch = [
        {"pod": hostile(f"p{number}"), **({"objects": objects} if number % 3 == 0 else {})}
        for number in range(20)
    ]
    body = json.dumps({"questions": batch})
    replies: list[Reply] = []
    is_over = threading.Event()

    def keep_asking() -> None:
        while not is_over.is_set():
            replies.append(scheduler.send(body))

    asking = [threading.Thread(target=keep_asking) for _ in range(2)]
    for thread in asking:
        thread.start()

    def bound() -> int:
        _, pods, _ = scheduler.objects()
        return sum(bool(each["spec"].get("nodeName")) for each in pods["items"])

    try:
        scheduler.create(*(manifest(f"bound-{number}", "100m") for number in range(count)))
        wait_for("all pods to be bound", lambda: bound() == count)
    finally:
        is_over.set()
        for thread in asking:
            thread.join(60)
    for reply in replies:
        assert reply.status == 200
        assert [len(each["nodes"]) for each in reply.body["answers"]] == [
            300 if number % 3 == 0 else 3 for number in range(20)
        ]
