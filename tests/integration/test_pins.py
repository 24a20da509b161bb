"""`stowplan pin`, `unpin` and `pins` on the embedded API server: what they print and change."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.pod_names import PodName
from stowplan.apiserver.faults import Fault
from stowplan.errors import Conflict
from stowplan.plugins.static_placement.labels import PinLabels
from stowplan.static.pinning import apply_wish, read_nodes
from stowplan.static.pins import NodeEdit, Wish
from tests.integration.pin_stage import STATEFUL_SET, PinStage, pin_stage

LABEL, OLDER = "rf.scheduler.test.default/web-0", "rf.scheduler.test/web-0"
LIST = "rf.scheduler.test.default/pods"
LONG = "a-name-that-is-longer-than-the-sixty-three-characters-of-a-label-0"


@pytest.fixture
def stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[PinStage]:
    """Two nodes; the commands find the cluster by the environment."""
    with pin_stage(tmp_path, capsys, monkeypatch, "worker-1", "worker-2") as made:
        yield made


def same(stage: PinStage, transcript: str) -> None:
    assert stage.play(transcript) == transcript


def test_pinning_a_pod_that_exists(stage: PinStage) -> None:
    stage.create_pod("web-0", "worker-1", owner=STATEFUL_SET)
    same(
        stage,
        """\
$ stowplan pin web-0 worker-1
default/web-0 pinned to worker-1 (label rf.scheduler.test.default/web-0)
$ stowplan pin default/web-0 worker-1
default/web-0 is already pinned to worker-1 (label rf.scheduler.test.default/web-0)
$ stowplan pin web-0 worker-2
default/web-0 pinned to worker-2 (label rf.scheduler.test.default/web-0)
Warning: default/web-0 is also pinned to worker-1 and can go there; --only removes that pin
Warning: pod default/web-0 runs on worker-1, and a pin does not move it; to move it: stowplan move \
default/web-0 worker-2
$ stowplan pin web-0 worker-1 --only
default/web-0 is already pinned to worker-1 (label rf.scheduler.test.default/web-0)
default/web-0 no longer pinned to worker-2 (label rf.scheduler.test.default/web-0)
""",
    )
    assert stage.pins("worker-1") == {LABEL: ""}
    assert stage.pins("worker-2") == {}


def test_pinning_pods_that_are_still_to_come(stage: PinStage) -> None:
    same(
        stage,
        """\
$ stowplan pin shop/web-0 worker-1
shop/web-0 pinned to worker-1 (label rf.scheduler.rfcustom.shop/web-0)
Warning: pod shop/web-0 does not exist yet. The pin is for scheduler rfcustom; --name sets another.
$ stowplan pin web-0 worker-1 -n shop --name test
shop/web-0 pinned to worker-1 (label rf.scheduler.test.shop/web-0)
Warning: pod shop/web-0 does not exist yet.
$ stowplan pin web-0 worker-1 --name test --prefix pins.example
default/web-0 pinned to worker-1 (label pins.example.test.default/web-0)
Warning: pod default/web-0 does not exist yet.
""",
    )


def test_the_scheduler_may_be_named_by_the_environment(
    stage: PinStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHED_NAME", "test")
    stage.run("pin", "web-0", "worker-1")
    assert stage.pins("worker-1") == {LABEL: ""}
    stage.run("pin", "web-0", "worker-1", "--name", "other")
    assert "rf.scheduler.other.default/web-0" in stage.pins("worker-1")


def test_pins_that_nobody_would_heed(stage: PinStage) -> None:
    stage.create_pod("web-0")
    stage.create_pod("plain", scheduler="default-scheduler")
    stage.patch_node("worker-2", {"spec": {"unschedulable": True}})
    same(
        stage,
        """\
$ stowplan pin web-0 worker-1 --name other
default/web-0 pinned to worker-1 (label rf.scheduler.other.default/web-0)
Warning: pod default/web-0 uses scheduler test, not other: this pin has no effect
$ stowplan pin plain worker-2
default/plain pinned to worker-2 (label rf.scheduler.default-scheduler.default/plain)
Warning: pod default/plain uses the cluster's own scheduler, default-scheduler, which normally \
reads no pins: then this pin has no effect
Warning: node worker-2 is cordoned; only strict placement ignores that
""",
    )


def test_mistakes_are_told_in_a_line_and_change_nothing(stage: PinStage) -> None:
    same(
        stage,
        """\
$ stowplan pin web-0 worker-3
Error: there is no node 'worker-3'; did you mean worker-2 or worker-1?
[1]
$ stowplan unpin web-0 wroker-1
Error: there is no node 'wroker-1'; did you mean worker-1 or worker-2?
[1]
$ stowplan pins --node gpu
Error: there is no node 'gpu'
[1]
$ stowplan pin Web_0 worker-1
Error: 'Web_0' cannot be the name of a pod: it must be lower case letters, digits, '-' and '.', \
with a letter or digit at both ends (at most 253 characters)
[2]
$ stowplan pin shop/web-0 worker-1 -n other
Error: 'shop/web-0' is in another namespace than --namespace 'other'
[2]
$ stowplan pins -n Shop
Error: 'Shop' cannot be the name of a namespace: it must be lower case letters, digits and '-', \
with a letter or digit at both ends (at most 63 characters)
[2]
""",
    )
    for argv in (
        ("pin", "web-0"),
        ("pin", "web-0", "worker-1", "--name", "Not_A_Label"),
        ("pin", "web-0", "worker-1", "--prefix", "/"),
        ("pin", "web-0", "worker-1", "--prefix", "\udcff"),
        ("pins", "-A", "-n", "default"),
        ("pins", "--context", "none"),
    ):
        code, out, err = stage.run(*argv)
        assert (code, out) == (2, ""), argv
        assert "Error: " in err
        assert "Traceback" not in err
    assert stage.pins("worker-1") == stage.pins("worker-2") == {}


@pytest.mark.parametrize(
    "argv",
    [
        [b"pin", b"\xff", b"worker-1"],
        [b"pin", b"web-0", b"\xff"],
        [b"pin", b"web-0", b"worker-1", b"--name", b"\xff"],
        [b"pins", b"--node", b"\xff"],
    ],
)
def test_bytes_that_are_no_text(stage: PinStage, argv: list[bytes]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stowplan", *argv], capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"Error: ")
    assert b"\\udcff" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_an_api_server_that_fails_is_one_line(stage: PinStage) -> None:
    stage.server.call(
        lambda server: server.faults.append(Fault(path="/nodes", status=500, times=None))
    )
    for argv in (("pin", "web-0", "worker-1"), ("unpin", "web-0"), ("pins",)):
        code, out, err = stage.run(*argv)
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert err.startswith("Error: ")


def test_long_names_go_into_a_list(stage: PinStage) -> None:
    stage.run("pin", LONG, "worker-1", "--name", "test")
    stage.run("pin", f"{LONG}1", "worker-1", "--name", "test")
    assert stage.pins("worker-1") == {LIST: f"{LONG},{LONG}1"}
    same(
        stage,
        f"""\
$ stowplan unpin {LONG} worker-2 --name test
default/{LONG} is not pinned to worker-2 (scheduler test), but to worker-1
$ stowplan unpin {LONG}
default/{LONG} is not pinned to any node (scheduler rfcustom)
Warning: scheduler test has a pin for it on worker-1: --name test
$ stowplan unpin {LONG} --name test
default/{LONG} no longer pinned to worker-1 (annotation {LIST})
""",
    )
    assert stage.pins("worker-1") == {LIST: f"{LONG}1"}


def test_unpinning(stage: PinStage) -> None:
    stage.create_pod("web-0", "worker-1")
    stage.label("worker-1", LABEL, OLDER)
    stage.label("worker-2", LABEL, "rf.scheduler.test.default/web-1")
    stage.patch_node("worker-2", {"metadata": {"annotations": {LIST: "db-0, web-0"}}})
    same(
        stage,
        """\
$ stowplan unpin web-0 worker-1
default/web-0 no longer pinned to worker-1 (label rf.scheduler.test.default/web-0 and older label \
rf.scheduler.test/web-0)
Warning: rf.scheduler.test/web-0 on worker-1 pinned every pod called web-0, in all namespaces
$ stowplan unpin web-0
default/web-0 no longer pinned to worker-2 (label rf.scheduler.test.default/web-0 and annotation \
rf.scheduler.test.default/pods)
$ stowplan unpin web-0
default/web-0 is not pinned to any node (scheduler test)
""",
    )
    assert stage.pins("worker-1") == {}
    assert stage.pins("worker-2") == {"rf.scheduler.test.default/web-1": "", LIST: "db-0"}
    assert stage.node_of("web-0") == "worker-1", "it goes on running"


def test_only_replaces_the_older_label(stage: PinStage) -> None:
    stage.create_pod("web-0")
    stage.label("worker-1", OLDER)
    stage.label("worker-2", OLDER)
    code, out, err = stage.run("pin", "web-0", "worker-1", "--only")
    assert code == 0
    assert out.splitlines() == [
        "default/web-0 pinned to worker-1 (label rf.scheduler.test.default/web-0)",
        "default/web-0 no longer pinned to worker-1 (older label rf.scheduler.test/web-0)",
        "default/web-0 no longer pinned to worker-2 (older label rf.scheduler.test/web-0)",
    ]
    assert err.count("in all namespaces") == 2
    assert stage.pins("worker-1") == {LABEL: ""}
    assert stage.pins("worker-2") == {}


async def _pin_all(stage: PinStage, names: list[str]) -> list[NodeEdit | None]:
    """All from the same version of the node, at the same time."""
    cluster = load_cluster_config(kubeconfig=str(stage.kubeconfig))
    async with ApiClient(cluster) as client:
        node = (await read_nodes(client))[0]
        return await asyncio.gather(
            *(
                apply_wish(client, node, PinLabels("test"), PodName("default", name), Wish.PINNED)
                for name in names
            )
        )


def test_nobody_overwrites_what_another_has_listed(stage: PinStage) -> None:
    names = [f"{LONG}{n}" for n in range(8)]
    edits = asyncio.run(_pin_all(stage, names))
    assert all(edit is not None for edit in edits)
    assert sorted(stage.pins("worker-1")[LIST].split(",")) == names


def test_a_node_that_never_stays_the_same_is_given_up(stage: PinStage) -> None:
    stage.server.call(
        lambda server: server.faults.append(Fault(method="PATCH", status=409, times=None))
    )
    with pytest.raises(Conflict, match="node 'worker-1' changed during each of 20 attempts"):
        asyncio.run(_pin_all(stage, [LONG]))


def drifted(stage: PinStage) -> None:
    """A bit of everything."""
    stage.create_pod("web-0", "worker-1", owner=STATEFUL_SET)
    stage.create_pod("web-1", "worker-1", owner=STATEFUL_SET)
    stage.create_pod("web-10")
    stage.label("worker-1", LABEL, "rf.scheduler.other.shop/db-0")
    stage.label("worker-2", OLDER.replace("web-0", "web-1"), "rf.scheduler.test.default/web-2")
    stage.patch_node("worker-2", {"spec": {"unschedulable": True}})


def test_the_table(stage: PinStage) -> None:
    drifted(stage)
    same(
        stage,
        """\
$ stowplan pins
POD      NAMESPACE   NODES      FORM          STATE     DRIFT
web-0    default     worker-1   label         Running   <none>
web-1    default     worker-2   older label   Running   runs on worker-1; worker-2 is cordoned; \
older label on worker-2
web-2    default     worker-2   label         absent    worker-2 is cordoned
web-10   default     <none>     <none>        Pending   no node has a pin for it
$ stowplan pins -A --node worker-1 --check
POD     NAMESPACE   NODES      FORM    STATE     DRIFT
web-0   default     worker-1   label   Running   <none>
db-0    shop        worker-1   label   absent    <none>
$ stowplan pins --name other
No pins found in namespace default.
$ stowplan pins -A --name nobody --check
No pins found.
$ stowplan pins -A --name other --check
POD    NAMESPACE   NODES      FORM    STATE    DRIFT
db-0   shop        worker-1   label   absent   <none>
""",
    )


def test_the_wide_table(stage: PinStage) -> None:
    drifted(stage)
    _, out, _ = stage.run("pins", "-n", "shop", "-o", "wide")
    cells = [re.split(" {3,}", line) for line in out.splitlines()]
    assert cells[0][5:] == ["DRIFT", "RUNS ON", "SCHEDULER", "KEY"]
    assert [row[0] for row in cells[1:]] == ["db-0", "web-1"]
    assert cells[1][5:] == ["<none>", "<none>", "other", "rf.scheduler.other.shop/db-0"]
    assert cells[2][6:] == ["<none>", "test", "rf.scheduler.test/web-1"]


def test_drift_as_an_exit_code(stage: PinStage) -> None:
    drifted(stage)
    assert stage.run("pins", "--check")[0] == 1
    assert stage.run("pins", "--check", "-o", "json")[0] == 1
    assert stage.run("pins", "--check", "--node", "worker-1")[0] == 0
    assert stage.run("pins")[0] == 0


def test_check_without_any_pin_needs_the_name(stage: PinStage) -> None:
    """All pins are lost: nothing but --name says whose pods wait."""
    stage.create_pod("web-0")
    problem = "Error: no pins at all; name the scheduler with --name\n"
    assert stage.run("pins", "--check") == (1, "", problem)
    code, out, err = stage.run("pins", "-A", "--check", "-o", "json")
    assert (code, json.loads(out), err) == (1, {"pins": []}, problem)
    code, out, err = stage.run("pins", "--check", "--name", "test")
    assert (code, err) == (1, "")
    assert "no node has a pin for it" in out
    assert stage.run("pins") == (0, "", "No pins found in namespace default.\n")
    stage.label("worker-1", LABEL)
    assert stage.run("pins", "--check", "-n", "shop")[0] == 0, "there are pins elsewhere"


def test_rows_for_programs(stage: PinStage) -> None:
    drifted(stage)
    code, out, err = stage.run("pins", "-o", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [row["pod"] for row in found["pins"]] == ["web-0", "web-1", "web-2", "web-10"]
    assert found["pins"][1] == {
        "pod": "web-1",
        "namespace": "default",
        "scheduler": "test",
        "pins": [{"node": "worker-2", "form": "older label", "key": "rf.scheduler.test/web-1"}],
        "state": "Running",
        "runsOn": "worker-1",
        "drift": [
            {"reason": "Elsewhere", "message": "runs on worker-1"},
            {"reason": "Cordoned", "message": "worker-2 is cordoned"},
            {"reason": "OlderLabel", "message": "older label on worker-2"},
        ],
    }
    assert yaml.safe_load(stage.run("pins", "-o", "yaml")[1]) == found
    assert json.loads(stage.run("pins", "-n", "empty", "--name", "x", "-o", "json")[1]) == {
        "pins": []
    }
