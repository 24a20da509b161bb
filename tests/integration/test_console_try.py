"""The page Try over HTTP: what it changes on an embedded cluster, what it refuses, snapshots."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_console import console, get, refusal
from tests.waiting import wait_for

DATA = Path(__file__).parents[1] / "data" / "kube_scheduler_simulator"
SCENARIO = """
cluster:
  nodes: [{name: n1, cpu: 4}, {name: n2, cpu: 4}]
steps:
- create: {pods: [{name: web, cpu: 1}]}
- expect: {pod: web, bound: true}
"""
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: web}}
spec:
  containers:
  - name: main
    image: web:1
    resources: {requests: {cpu: "1", memory: 1Gi}}
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: big}
status:
  capacity: {cpu: "640", memory: 640Gi, pods: "1000"}
  allocatable: {cpu: "640", memory: 640Gi, pods: "1000"}
"""


@contextmanager
def simulation(folder: Path, *more: str) -> Iterator[tuple[str, subprocess.Popen[bytes], Path]]:
    """The console's address, the process and its log, once the scenario is over."""
    scenario, log = folder / "scenario.yaml", folder / "log"
    scenario.write_text(SCENARIO)
    command = [sys.executable, "-m", "stowplan", "simulate", str(scenario), "--on", "embedded"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--console=0", *more], stdout=out, stderr=subprocess.STDOUT
        )
    try:

        def address() -> str | None:
            text = log.read_text()
            assert process.poll() is None, text
            found = re.search(r"http://127.0.0.1:\d+/console(?=/)", text)
            return found[0] if found and "until Ctrl-C" in text else None

        yield wait_for("the end of the scenario", address), process, log
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with simulation(tmp_path_factory.mktemp("simulation")) as (address, _, _):
        yield address


def post(url: str, action: str, body: Any, **headers: str) -> Any:
    request = write_request(url, action, json.dumps(body).encode(), **headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def refused(url: str, action: str, body: Any, **headers: str) -> tuple[int, str]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(urllib.error.HTTPError) as answer:
        urllib.request.urlopen(write_request(url, action, raw, **headers), timeout=30)
    with answer.value as said:
        return said.code, json.load(said)["Error"]


def write_request(url: str, action: str, body: bytes, **headers: str) -> urllib.request.Request:
    sent = {"Content-Type": "application/json", "Origin": url.removesuffix("/console")}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    given = {name: value for name, value in sent.items() if value}
    return urllib.request.Request(f"{url}/api/try/{action}", body, given)


def place_of(url: str, name: str) -> str:
    def found() -> Any:
        return next((each for each in get(url, f"pods?q={name}") if each["node"]), None)

    return str(wait_for(f"the node of {name}", found)["node"])


def test_writes_that_another_site_could_cause_are_refused(url: str) -> None:
    body = {"text": PODS}
    assert refused(url, "create", body, Origin="http://evil.example")[0] == 403
    assert refused(url, "create", body, Origin="null")[0] == 403
    assert refused(url, "create", body, Origin="")[0] == 403
    assert refused(url, "create", body, Sec_Fetch_Site="cross-site")[0] == 403
    assert refused(url, "create", body, Content_Type="text/plain")[0] == 415
    form = "application/x-www-form-urlencoded"
    assert refused(url, "create", body, Content_Type=form)[0] == 415
    assert refused(url, "create", body, Host="evil.example", Origin="http://evil.example")[0] == 421
    for method in ("PUT", "DELETE", "PATCH"):
        assert refusal(f"{url}/api/try/create", method)[0] == 405
    assert refused(url, "nothing", body)[0] == 404
    assert get(url, "pods?q=NAME") == []


def test_bodies_and_numbers_are_bounded(url: str) -> None:
    assert refused(url, "create", {"text": PODS, "copies": 501}) == (
        400,
        "copies: must be between 1 and 500",
    )
    assert refused(url, "create", {"text": PODS, "copies": 0})[0] == 400
    many = "---".join([PODS] * 21)
    code, said = refused(url, "create", {"text": many, "copies": 500})
    assert (code, "at most 10,000" in said) == (409, True)
    assert refused(url, "create", b"x" * (8 << 20) + b"x")[0] == 413
    assert refused(url, "create", b"{")[0] == 400
    assert refused(url, "create", {"texts": ""})[0] == 400


def test_pods_are_created_placed_and_deleted(url: str) -> None:
    assert get(url, "about") == {"tries": True, "shadows": False, "standby": ""}
    made = post(url, "create", {"text": PODS.replace("NAME", "copy"), "copies": 3})
    assert made["done"] == ["pod/copy-1 created", "pod/copy-2 created", "pod/copy-3 created"]
    again = post(url, "create", {"text": PODS.replace("NAME", "copy"), "copies": 2})
    assert again["done"] == ["pod/copy-4 created", "pod/copy-5 created"]
    assert place_of(url, "copy-5") in ("n1", "n2")
    for number in range(1, 6):
        ask = {"kind": "Pod", "name": f"copy-{number}", "action": "delete"}
        assert post(url, "change", ask)["done"] == [f"pod/copy-{number} deleted"]
    wait_for("the pods to go", lambda: get(url, "pods?q=copy") == [])


def test_nodes_are_cordoned_tainted_and_labelled(url: str) -> None:
    def change(action: str, value: str = "") -> list[str]:
        ask = {"kind": "Node", "name": "n2", "action": action, "value": value}
        done: list[str] = post(url, "change", ask)["done"]
        return done

    assert change("cordon") == ["node/n2 cordoned"]
    wait_for("the cordon", lambda: get(url, "nodes/n2")["cordoned"])
    assert change("uncordon") == ["node/n2 uncordoned"]
    assert change("taint", "gpu=yes:NoSchedule") == ["node/n2 tainted"]
    wait_for("the taint", lambda: get(url, "nodes/n2")["taints"] == ["gpu=yes:NoSchedule"])
    assert change("taint", "gpu-") == ["node/n2 untainted"]
    assert change("label", "disk=ssd") == ["node/n2 labeled"]
    wait_for("the label", lambda: get(url, "nodes/n2")["labels"].get("disk") == "ssd")
    assert change("label", "disk-") == ["node/n2 unlabeled"]
    ask = {"kind": "Node", "name": "n2", "action": "taint", "value": "gpu=yes:Never"}
    code, said = refused(url, "change", ask)
    assert (code, "NoSchedule, PreferNoSchedule, NoExecute" in said) == (400, True)
    code, said = refused(url, "change", {**ask, "action": "label", "value": "a b=c"})
    assert code == 422
    assert 'metadata.labels: Invalid value: "a b"' in said
    assert refused(url, "change", {**ask, "name": "n9"}) == (404, 'nodes "n9" not found')
    assert refused(url, "change", {**ask, "kind": "Secret"})[0] == 400
    assert refused(url, "change", {**ask, "action": "reboot"})[0] == 400


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no object in it"),
        ("kind: Pod", "line 1: apiVersion: Required value"),
        ("apiVersion: v1\nkind: Pod", "line 1: metadata: Required value"),
        ("apiVersion: v9\nkind: Pod\nmetadata: {}", 'no matches for kind "Pod" in version "v9"'),
        ("kind: Pod\n  bad: indent", "line 2, column 6: mapping values are not allowed"),
        ("{\n", "line 1: is not JSON: Expecting property name"),
        ("just words", "line 1: is not JSON"),
        ("pods: 7", "line 1: pods: expected a list of Pod objects"),
        ("pods: [7]", "line 1: pods[0]: expected an object"),
        ("apiVersion: v1\nkind: List\nitems: [{}]", "line 1: items[0]: apiVersion: Required"),
    ],
)
def test_text_that_cannot_be_read_is_an_error_of_one_line(url: str, text: str, said: str) -> None:
    for action in ("create", "import"):
        code, problem = refused(url, action, {"text": text})
        assert code == 400
        assert said in problem
        assert "\n" not in problem


def test_objects_that_the_server_refuses_are_told_by_field_and_others_created(url: str) -> None:
    broken = PODS.replace("NAME", "broken").replace("image: web:1", "imagine: web:1")
    negative = PODS.replace("NAME", "negative").replace('cpu: "1"', 'cpu: "-1"')
    good = PODS.replace("NAME", "good")
    answer = post(url, "create", {"text": f"{broken}---{negative}---{good}"})
    assert answer["done"] == ["pod/good created"]
    assert answer["refused"] == 2
    unknown, invalid = answer["problems"]
    assert 'unknown field "spec.containers[0].imagine"' in unknown
    assert unknown.startswith("line 2: ")
    assert 'Pod "negative" is invalid: spec.containers[0].resources.requests[cpu]' in invalid
    (exists,) = post(url, "create", {"text": good})["problems"]
    assert exists.endswith('pods "good" already exists')


def comparable(snapshot: Any) -> Any:
    """A list without what differs between two clusters of the same objects."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            gone = {"uid", "resourceVersion", "managedFields", "generation", "podIP", "podIPs"}
            return {
                name: plain(each)
                for name, each in value.items()
                if name not in gone and not name.endswith(("Time", "Timestamp"))
            }
        return [plain(each) for each in value] if isinstance(value, list) else value

    return sorted(
        (plain(each) for each in snapshot["items"]),
        key=lambda each: (each["kind"], each["metadata"]["name"]),
    )


@pytest.mark.parametrize("form", ["list", "simulator"])
def test_a_snapshot_that_is_imported_again_is_the_same_cluster(url: str, form: str) -> None:
    post(url, "clear", {"what": "everything"})
    assert get(url, "try/export")["items"] == []
    assert refusal(f"{url}/api/try/export?format=foo") == (
        400,
        'format: Unsupported value: "foo": supported values: list, simulator',
    )
    text = (DATA / "cluster.json").read_text()
    made = post(url, "import", {"text": text})
    assert (made["problems"], len(made["done"])) == ([], 9)
    assert place_of(url, "waits") == "small"
    wait_for("the pod to run", lambda: settled(url))
    before = get(url, "try/export")
    exported = get(url, f"try/export?format={form}")
    again = post(url, "import", {"text": json.dumps(exported), "replaces": True})
    assert again["problems"] == []
    wait_for("the kubelets", lambda: comparable(get(url, "try/export")) == comparable(before))
    claim = next(
        each for each in get(url, "try/export")["items"] if each["kind"] == "PersistentVolumeClaim"
    )
    volume = next(
        each for each in get(url, "try/export")["items"] if each["kind"] == "PersistentVolume"
    )
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]


def settled(url: str) -> bool:
    items = get(url, "try/export")["items"]
    return all(
        each["status"]["phase"] == "Running"
        for each in items
        if each["kind"] == "Pod" and each["spec"].get("nodeName")
    )


def test_the_simulators_own_export_is_imported(url: str) -> None:
    text = (DATA / "export.json").read_text()
    answer = post(url, "import", {"text": text, "replaces": True})
    assert answer["problems"] == []
    assert answer["done"] == [
        "persistentvolumeclaim/pvc1 created",
        "persistentvolume/pv1 created",
        "persistentvolume/pv2 created",
    ]
    shown = get(url, "try/export?format=simulator")
    assert shown.keys() == json.loads(text).keys() | {"namespaces"}
    assert shown["schedulerConfig"]["kind"] == "KubeSchedulerConfiguration"
    assert [each["metadata"]["name"] for each in shown["pvs"]] == ["pv1", "pv2"]
    assert "kind" not in shown["pvs"][0]


def test_explain_and_decide_read_the_simulators_format(tmp_path: Path) -> None:
    file = DATA / "cluster.json"
    command = [sys.executable, "-m", "stowplan"]
    explain = [*command, "explain", "team/huge", "-f", str(file)]
    done = subprocess.run(explain, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("team/huge is pending. ")
    assert "nodes are too small" in done.stdout
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    question = {"objects": [json.loads(file.read_text())], "pod": pod}
    decide = subprocess.run(
        [*command, "decide", "--defaults"],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert decide.returncode == 0, decide.stdout
    assert json.loads(decide.stdout)["nodes"].keys() == {"small", "large"}
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({"nodes": [{"metadata": {"name": 7}}]}))
    done = subprocess.run([*explain[:-1], str(broken)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {broken}: objects[0].nodes[0]: ")


def test_the_demo_survives_the_loss_of_all_its_objects(tmp_path: Path) -> None:
    with console(tmp_path / "log", "demo", "--console=0", "--speed=20") as url:
        assert get(url, "about") == {"tries": True, "shadows": False, "standby": ""}
        wait_for("the story", lambda: sum(get(url, "cluster")["pods"]) > 3)
        assert post(url, "clear", {"what": "everything"})["problems"] == []
        text = PODS.replace("NAME", "mine") + "---" + NODE
        assert post(url, "create", {"text": text})["problems"] == []
        assert place_of(url, "mine") == "big"
        wait_for("the story goes on", lambda: len(get(url, "pods?q=default/")) > 1)


def test_ctrl_c_ends_it_with_the_verdict_of_the_scenario(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with simulation(tmp_path, "--html", str(page)) as (url, process, log):
        post(url, "create", {"text": PODS.replace("NAME", "later")})
        place_of(url, "later")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, log.read_text()
    said = log.read_text()
    assert "1 expectation met; 1 of 1 pods bound" in said
    assert "later" not in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--console",), "Error: --console: shows a cluster of this process in real time. Fix:"),
        (("--console", "--on", "real"), "Error: --console: shows a cluster of this process"),
    ],
)
def test_only_the_embedded_target_has_a_console(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    command = [sys.executable, "-m", "stowplan", "simulate", str(scenario), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == 1
