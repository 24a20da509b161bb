"""`stowplan audit` through the console entry point: what it says of mistakes."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from stowplan.audit import save_history
from stowplan.cli.main import main
from tests.unit.audit.cluster import (
    History,
    Json,
    anti,
    claim,
    node,
    pod,
    together,
    uses,
    volume,
)


class Audit:
    """Runs the command in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str, given: str = "") -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
        self._monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(SystemExit) as ended:
            main(["audit", *arguments])
        captured = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, captured.out, captured.err


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Audit:
    return Audit(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (["-f", "nowhere.yaml"], "", "Error: nowhere.yaml: cannot be read: No such file"),
        (["-f", "-"], "[1, 2", "Error: -: "),
        (["-f", "-"], "kind: Secret\n", "Error: -: holds no nodes and pods. Fix: "),
        (["-f", "-"], '{"kind": "Pod", "spec": 5}', "Error: -: "),
        (["-f", "-"], '{"kind": "List", "items": 5}', "Error: -: "),
        (["--only", "taints"], "", "'taints' is no kind of finding; did you mean \"taint\"?"),
        (["-f", "-", "--etcd", "http://x"], "", "Choose one of --filename, --etcd and --history."),
        (["--audit-log", "x"], "", "--audit-log goes with --etcd or --history."),
        (["--save-history", "x"], "", "--save-history goes with --etcd."),
        (["--history", "nowhere"], "", "Error: nowhere: cannot be read: No such file"),
        (["--since", "soon"], "", "'soon' is not a duration"),
    ],
)  # fmt: skip
def test_mistakes(audit: Audit, arguments: list[str], given: str, message: str) -> None:
    code, out, error = audit(*arguments, given=given)
    assert (code, out) == (2, "")
    assert message in error
    assert error.count("Error:") == 1


def test_etcd_that_is_not_there(audit: Audit) -> None:
    code, _, error = audit("--etcd", "http://127.0.0.1:9")
    assert code == 1
    assert error.startswith("Error: etcd at http://127.0.0.1:9: ")
    assert error.count("\n") == 1


def test_lines_that_are_no_history_and_no_audit_log(audit: Audit, tmp_path: Path) -> None:
    file, log = tmp_path / "history.jsonl", tmp_path / "audit.log"
    file.write_text('{"number": 1}\n')
    code, out, error = audit("--history", str(file))
    assert (code, out) == (2, "")
    assert error.startswith(f"Error: {file}:1: not a revision: ")
    file.write_text("")
    log.write_text('{"auditID": 5}\n')
    code, out, error = audit("--history", str(file), "--audit-log", str(log))
    assert (code, out) == (2, "")
    assert error.startswith(f"Error: {log}:1: not an audit event: ")


def test_quantities_that_are_none_are_counted(audit: Audit) -> None:
    junk = {"kind": "List", "items": [node("n1"), pod("a", "n1", cpu="much")]}
    code, out, _ = audit("-f", "-", given=json.dumps(junk))
    assert code == 0
    assert "Note: 1 unreadable objects passed over, such as Pod default/a: invalid" in out


def listed(*things: Json) -> str:
    return json.dumps({"kind": "List", "items": things})


def test_claims_that_a_file_does_not_hold_are_not_missing(audit: Audit) -> None:
    """As of `kubectl get nodes,pods`."""
    bound = [node("n1"), pod("a", "n1", volumes=uses("c"))]
    code, out, _ = audit("-f", "-", given=listed(*bound))
    assert (code, "no persistentvolumeclaims were read" in out) == (0, True)
    code, out, _ = audit("-f", "-", given=listed(*bound, claim("c", "v")))
    assert (code, "no persistentvolumes were read" in out) == (0, True)
    code, out, _ = audit("-f", "-", given=listed(*bound, claim("c")))
    assert (code, "claim c is missing or not bound" in out) == (1, True)
    code, out, _ = audit("-f", "-", given=listed(*bound, claim("other")))
    assert (code, "claim c is missing or not bound" in out) == (1, True)
    code, out, _ = audit("-f", "-", given=listed(*bound, claim("c", "v"), volume("v")))
    assert (code, " were read" in out) == (0, False)
    code, out, _ = audit("-f", "-", "--only", "taint", given=listed(*bound))
    assert (code, " were read" in out) == (0, False)


def test_pending_pods_whose_volumes_a_file_does_not_hold(audit: Audit) -> None:
    waiting = [node("n1"), pod("a", volumes=uses("c"), created=-100_000_000)]
    code, out, _ = audit("-f", "-", given=listed(*waiting, claim("c", "v")))
    assert code == 0
    assert "1 pending pod not checked for a place: claims or volumes that were not read" in out
    made = volume("v")
    made["spec"]["csi"] = {"driver": "disks.example", "volumeHandle": "v"}
    code, out, _ = audit("-f", "-", given=listed(*waiting, claim("c", "v"), made))
    assert code == 0
    assert "1 pending pod not checked for a place: volumes of CSI drivers: no CSINodes" in out


@pytest.mark.parametrize(
    ("rule", "operator", "kind"),
    [(together, "In", "affinity"), (anti, "NotIn", "anti-affinity")],
)
def test_namespaces_that_a_file_does_not_hold(
    audit: Audit, rule: Callable[..., Json], operator: str, kind: str
) -> None:
    """Without their labels it is unknown which pods an affinity means."""
    labels: Json = {"app": "db"}

    def things(key: str) -> list[Json]:
        wanted = {"key": key, "operator": operator, "values": ["a"]}
        choice = rule(labels, namespaceSelector={"matchExpressions": [wanted]})
        beside = pod("db", "n1", namespace="x", labels=labels)
        return [node("n1"), node("n2"), beside, pod("web", "n1", bound=9, affinity=choice)]

    namespaces = [{"kind": "Namespace", "metadata": {"name": name}} for name in ("default", "x")]
    waiting = pod("c", created=-100_000_000)
    code, out, _ = audit("-f", "-", given=listed(*things("team"), *namespaces))
    assert (code, f"{kind} " in out, "were read" in out) == (1, True, False)
    code, out, _ = audit("-f", "-", given=listed(*things("team"), waiting))
    assert (code, "pending pod not checked for a place" in out) == (
        (0, True) if rule is anti else (1, False)
    )
    assert (
        "Note: anti-affinity, affinity not checked for 1 bound pod with a namespaceSelector: "
        "no namespaces were read.\n"
    ) in out
    # The name of a namespace is always known.
    code, out, _ = audit("-f", "-", given=listed(*things("kubernetes.io/metadata.name")))
    assert (code, f"{kind} " in out, "were read" in out) == (1, True, False)
    waiting["spec"]["affinity"] = things("team")[-1]["spec"]["affinity"]
    code, out, _ = audit("-f", "-", given=listed(node("n1"), waiting))
    assert (code, "affinity by labels of namespaces that were not read" in out) == (0, True)


def test_a_scheduler_that_no_pod_has(audit: Audit) -> None:
    things = [node("n1"), pod("a", "n1"), pod("b", "n1"), pod("c", schedulerName="mine")]
    given = listed(*things)
    note = "Note: no pod has schedulerName nope; pods have default-scheduler, mine.\n"
    code, out, _ = audit("-f", "-", "--scheduler-name", "nope", given=given)
    assert (code, note in out) == (0, True)
    assert out.endswith("0 findings. Checked 0 bound pods of 3, 1 node.\n")
    code, out, _ = audit("-f", "-", "--scheduler-name", "mine", given=given)
    assert (code, "no pod has" in out) == (0, False)
    code, out, _ = audit("-f", "-", "--scheduler-name", "default-scheduler", given=given)
    assert out.endswith("0 findings. Checked 2 bound pods of 3, 1 node.\n")


def test_a_scheduler_that_no_pod_of_a_history_has(audit: Audit, tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    history = History().put(node("n1")).bind(pod("a"), "n1", 0).gone("Pod", "a", "default")
    assert len(list(save_history(history.revisions, file))) == 4
    code, out, _ = audit("--history", str(file), "--scheduler-name", "nope")
    assert (code, "Note: no pod has schedulerName nope; pods have default-scheduler.\n" in out) == (
        0,
        True,
    )
    assert out.endswith("0 findings. Checked 0 bindings in 4 revisions, 1 node.\n")


def test_an_export_of_the_simulator(audit: Audit) -> None:
    """Its objects name no kind; those of a list of one kind need not."""

    def kindless(thing: Json) -> Json:
        return {key: value for key, value in thing.items() if key != "kind"}

    things: Json = {
        "nodes": [kindless(node("n1", cpu="1"))],
        "pods": [kindless(pod(name, "n1", cpu="600m")) for name in "ab"],
        "pvcs": None,
        "priorityClasses": [{"metadata": {"name": "high"}, "value": 1}],
        "schedulerConfig": {},
    }
    lists = [
        {"kind": "NodeList", "items": things["nodes"]},
        {"kind": "PodList", "items": things["pods"]},
    ]
    for text in (json.dumps(things), yaml.safe_dump(things), yaml.safe_dump_all(lists)):
        code, out, error = audit("-f", "-", given=text)
        assert (code, error) == (1, "")
        assert out.endswith("1 finding: 1 overcommit. Checked 2 bound pods of 2, 1 node.\n")
    code, out, error = audit("-f", "-", given=json.dumps({**things, "pots": []}))
    assert (code, out) == (2, "")
    assert error.startswith("Error: -: pots: unknown key (known here: namespaces, ")


def test_a_pending_pod_without_times(audit: Audit) -> None:
    made = pod("a")
    del made["metadata"]["creationTimestamp"]
    code, out, _ = audit("-f", "-", given=listed(node("n1"), made))
    assert code == 1
    assert "<none>   pending, since when is unknown, and n1 has a place for it\n" in out
