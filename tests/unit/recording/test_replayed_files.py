"""Commands on recordings, in this process: pages, folders, files without nodes, other nodes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stowplan.testing.device_builders import (
    device_class,
    device_request,
    pod_claims,
    resource_claim,
    resource_slice,
)
from tests.unit.recording.test_bad_recordings import (
    COMMANDS,
    END,
    HEADER,
    STORY,
    SYNCED,
    Json,
    Run,
    node,
    packed,
    pod,
    stowplan,
    written,
)

__all__ = ["stowplan"]


def added(manifest: Json) -> Json:
    return {"at": 0.0, "type": "ADDED", "kind": manifest["kind"], "object": manifest}


def test_the_page_of_a_replay_has_its_pods(tmp_path: Path, stowplan: Run) -> None:
    page, result = tmp_path / "page.html", tmp_path / "result.json"
    path = written(tmp_path, packed(*STORY))
    code, out, err = stowplan("replay", path, "--html", page, "--result", result)
    assert (code, err) == (0, ""), out
    assert '"default/p8"' in page.read_text()
    assert len(json.loads(result.read_text())["pods"]) == 9


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_of_other_files_is_not_a_recording(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...]
) -> None:
    code, _, err = stowplan(*command, tmp_path)
    why = "is a folder without recordings. Fix: give a file or folder that `stowplan record` wrote"
    assert (code, err) == (2, f"Error: {tmp_path}: {why}\n")
    for name in "dcba":
        (tmp_path / f"{name}.jsonl.gz").write_bytes(packed(*STORY))
    code, _, err = stowplan(*command, tmp_path)
    files = "b.jsonl.gz, c.jsonl.gz, d.jsonl.gz (and 1 more)"
    why = (
        "has no file with a name that `stowplan record` gives in folders, such as"
        " 2026-01-02T030405Z.jsonl.gz. Fix: rename its recordings, or give one of its files:"
        f" {files}"
    )
    assert (code, err) == (2, f"Error: {tmp_path}: {why}\n")


@pytest.mark.parametrize("option", ["--decisions", "--html", "--result"])
def test_a_recording_is_not_overwritten(tmp_path: Path, stowplan: Run, option: str) -> None:
    path = written(tmp_path, packed(*STORY))
    command = "compare" if option == "--html" else "replay"
    code, _, err = stowplan(command, path, option, path)
    assert (code, err) == (
        2,
        f"Error: {option} {path}: is read by this command. Fix: name another file\n",
    )
    assert path.read_bytes() == packed(*STORY)


@pytest.mark.parametrize("option", ["--decisions", "--html", "--result"])
def test_a_recording_of_a_folder_is_not_overwritten(
    tmp_path: Path, stowplan: Run, option: str
) -> None:
    path = tmp_path / "2026-01-02T030405Z.jsonl.gz"
    path.write_bytes(packed(*STORY))
    command = "compare" if option == "--html" else "replay"
    code, _, err = stowplan(command, tmp_path, option, path)
    assert (code, "is read by this command" in err) == (2, True)
    assert path.read_bytes() == packed(*STORY)
    assert stowplan(command, tmp_path, option, tmp_path / "new")[0] == 0


def test_a_pipe_is_refused(tmp_path: Path, stowplan: Run) -> None:
    path = tmp_path / "r.jsonl.gz"
    os.mkfifo(path)
    for gates in ((), ("--feature-gates", "DRADeviceTaintRules=true")):
        code, _, err = stowplan("replay", path, *gates)
        assert (code, "is not a regular file" in err) == (2, True)


def test_pods_with_priorities_as_a_step_of_a_scenario(tmp_path: Path, stowplan: Run) -> None:
    """In a recording, pods say their priority themselves."""
    important = pod("important", 1.0)
    important["object"]["spec"] |= {"priority": 2_000_001_000}
    normal = pod("normal", 2.0)
    normal["object"]["spec"] |= {"priority": 1000, "preemptionPolicy": "Never"}
    written(tmp_path, packed(HEADER, node(), SYNCED, important, normal, END))
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("steps:\n- workload: {trace: r.jsonl.gz}\n")
    code, out, err = stowplan("simulate", scenario)
    assert (code, err) == (0, ""), out
    assert "2 of 2 pods bound" in out


def test_a_recording_cut_off_before_its_nodes(tmp_path: Path, stowplan: Run) -> None:
    claim = added(resource_claim("gpu", "gpu"))
    path = written(tmp_path, packed(HEADER, claim) + packed(node())[:-20])
    code, _, err = stowplan("replay", path)
    assert code == 2
    (line,) = err.splitlines()
    assert line.startswith(f"Error: {path}: the recording breaks off at byte ")
    assert line.endswith(
        ", before its first snapshot of the cluster ends. Fix: give another recording"
    )


def test_a_recording_of_a_cluster_without_nodes(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, packed(HEADER, SYNCED, pod("p", 1.0)))
    code, _, err = stowplan("replay", path)
    why = "has no node. Fix: name a file of nodes: --nodes FILE, or `nodes: FILE` in a sweep"
    assert (code, err) == (2, f"Error: {path}: {why}\n")


def test_nodes_of_manifests(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, packed(*STORY))
    nodes = tmp_path / "nodes.yaml"
    one = "{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {allocatable: %s}}"
    offers = "{cpu: '4', memory: 8Gi, pods: '3'}"
    nodes.write_text("\n---\n".join(one % (name, offers) for name in ("n1", "n2", "n3")))
    code, out, err = stowplan("replay", path, "--nodes", nodes)
    assert (code, err) == (0, "")
    assert "9 of 9 pods bound" in out
    listed = [json.loads(json.dumps(node(name)["object"])) for name in ("x", "y")]
    whole = [{"apiVersion": "v1", "kind": "Node", **each} for each in listed]
    as_json = tmp_path / "nodes.json"
    as_json.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": whole}))
    code, out, err = stowplan("replay", path, "--nodes", as_json)
    assert (code, err) == (0, "")
    assert "9 of 9 pods bound" in out
    nodes.write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}}")
    code, _, err = stowplan("replay", path, "--nodes", nodes)
    assert (code, err) == (2, f"Error: {nodes}: object 1 is a Pod. Fix: give nodes\n")


@pytest.mark.parametrize(
    "option", [("--keep", "3"), ("--rotate-size", "2Mi"), ("--rotate-after", "1h")], ids=" ".join
)
def test_a_file_is_not_rotated(tmp_path: Path, stowplan: Run, option: tuple[str, str]) -> None:
    code, _, err = stowplan("record", tmp_path / "x.gz", *option)
    fix = "is for folders. Fix: end PATH with /, or leave it out"
    assert (code, err) == (2, f"Error: {option[0]}: {fix}\n")


def test_a_recording_has_the_ending_of_gzip(tmp_path: Path, stowplan: Run) -> None:
    path = tmp_path / "x.jsonl"
    code, _, err = stowplan("record", path)
    fix = f"recordings are gzipped. Fix: name it {path}.gz, or end it with / for a folder"
    assert (code, err) == (2, f"Error: {path}: {fix}\n")


def test_at_least_one_file_is_kept(tmp_path: Path, stowplan: Run) -> None:
    code, _, err = stowplan("record", f"{tmp_path}/", "--keep", "0")
    assert code == 2
    assert "0 is not in the range x>=1" in err


def test_nothing_to_judge(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, packed(*STORY))
    code, out, err = stowplan("replay", path, "--follow")
    assert (code, err) == (0, "")
    assert out == "No binding was seen, so there is nothing to compare\n"


def test_a_pod_whose_selector_fails_waits(
    tmp_path: Path, stowplan: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """The user's CEL expression is wrong; neither the replay nor a plugin has failed."""
    wrong = device_request("gpu", "one", 'device.capacity["gpu.example.com"].memory != null')
    asks = pod("asks", 2.0)
    asks["object"]["spec"]["resourceClaims"] = pod_claims({"gpu": "broken"}, None)
    path = written(
        tmp_path,
        packed(
            HEADER,
            added(device_class("gpu")),
            added(resource_slice("gpu.example.com", node="a")),
            added(resource_claim("broken", wrong)),
            node(),
            SYNCED,
            pod("plain", 1.0),
            asks,
        ),
    )
    code, out, err = stowplan("replay", path)
    assert code == 0, out + err
    assert "1 of 2 pods bound, 1 waiting" in out
    assert "no such key: memory" in out
    assert "FAIL" not in out
    assert "broke" not in caplog.text


@pytest.mark.parametrize("follow", [(), ("--follow",)])
def test_prices_without_a_result_are_refused(
    tmp_path: Path, stowplan: Run, follow: tuple[str, ...]
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("m5.large: 0.096")
    path = written(tmp_path, packed(*STORY))
    code, _, err = stowplan("replay", path, "--prices", prices, *follow)
    why = (
        "cannot be combined with --follow, which does not place pods"
        if follow
        else "prices are for --result. Fix: add --result FILE"
    )
    assert (code, err) == (2, f"Error: --prices: {why}\n")


def test_a_condition_on_costs_needs_prices(tmp_path: Path, stowplan: Run) -> None:
    """Every cost is 0 without them, so the condition could never fail."""
    path, prices = written(tmp_path, packed(*STORY)), tmp_path / "prices.yaml"
    prices.write_text("m5.large: 0.096")
    code, _, err = stowplan("compare", path, path, "--fail-on", "cost_in_use>1.1x")
    assert code == 2
    assert err.startswith(
        "Error: --fail-on cost_in_use>1.1x: r.jsonl.gz: no node has a price. Fix:"
    )
    code, out, err = stowplan("compare", path, "--prices", prices)  # of other instance types
    assert (code, "cost" in out) == (0, False)
    assert err.startswith("Warning: r.jsonl.gz: no price for 1 node without the label node.k")
    labelled = node()
    labelled["object"]["metadata"]["labels"] = {"node.kubernetes.io/instance-type": "m5.large"}
    path = written(tmp_path, packed(HEADER, labelled, *STORY[2:]))
    code, out, err = stowplan("compare", path, "--prices", prices, "--fail-on", "cost>1")
    assert (code, err) == (0, "")


def test_an_empty_file_is_not_a_recording(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, b"")
    code, _, err = stowplan("replay", path)
    assert (code, err) == (
        2,
        f"Error: {path}: is empty. Fix: give a file that `stowplan record` wrote\n",
    )


def test_pods_that_wait_when_a_recording_begins_find_its_nodes_ready(
    tmp_path: Path, stowplan: Run
) -> None:
    decisions = tmp_path / "decisions.jsonl"
    waiting = [pod(f"p{number}", 0.0) for number in range(4)]
    path = written(tmp_path, packed(HEADER, *waiting, node(), SYNCED))
    code, out, err = stowplan("replay", path, "--decisions", decisions)
    assert (code, err) == (0, ""), out
    kinds = [json.loads(line)["kind"] for line in decisions.read_text().splitlines()]
    assert kinds == ["decided"] * 4 + ["bound"] * 4
