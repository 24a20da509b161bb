"""Replays of recordings with volumes, images and labels: hashed names change no decision."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import pytest

from stowplan.recording.entries import BY_KIND
from stowplan.recording.scrub import Hashed, kept
from stowplan.sim.traces.model import Arrival
from stowplan.sim.traces.recorder import read_recording
from tests.unit.recording.test_bad_recordings import HEADER, SYNCED, Json, Run, packed, stowplan

__all__ = ["stowplan"]

Scrub: TypeAlias = Callable[[Any], bytes]
HASHED: Final = Hashed(b"key")
SCRUBS: Final = pytest.mark.parametrize("scrub", [kept, HASHED], ids=["kept", "hashed"])
END: Final = {"at": 30.0, "type": "END", "note": "stopped"}
ZONE: Final = "topology.kubernetes.io/zone"
TYPE: Final = "node.kubernetes.io/instance-type"
EFFECT: Final = "NoSchedule"
CLAIM_SPEC: Final = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "fast",
    "resources": {"requests": {"storage": "1Gi"}},
}
EPHEMERAL: Final = {
    "name": "scratch",
    "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM_SPEC}},
}


def entry(at: float, kind: str, obj: Json, what: str = "ADDED") -> Json:
    return {"at": at, "type": what, "kind": kind, "object": obj}


def node(
    name: str, at: float = 0.0, *, labels: Json | None = None, images: tuple[Json, ...] = ()
) -> Json:
    meta = {"name": name, "uid": name, "labels": {ZONE: f"zone-{name}", **(labels or {})}}
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    status = {"allocatable": allocatable, "images": images}
    return entry(at, "Node", {"metadata": meta, "status": status})


def pod(name: str, at: float, on: str = "", *, cpu: str = "1", **spec: Any) -> Json:
    container = {"name": "c", "image": "reg/web", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "schedulerName": "default-scheduler", **spec}
    if on:
        spec["nodeName"] = on
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": {"type": name[0]}}
    return entry(at, "Pod", {"metadata": meta, "spec": spec})


def storage_class(mode: str) -> Json:
    obj = {"metadata": {"name": "fast"}, "provisioner": "csi.x", "volumeBindingMode": mode}
    return entry(0.0, "StorageClass", obj)


def claim(name: str, at: float, volume: str = "", owner: str = "") -> Json:
    meta: Json = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    spec = {**CLAIM_SPEC}
    if owner:
        reference = {"kind": "Pod", "name": owner, "uid": f"uid-{owner}", "apiVersion": "v1"}
        meta["ownerReferences"] = [{**reference, "controller": True}]
    if volume:
        meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        spec["volumeName"] = volume
    return entry(at, "PersistentVolumeClaim", {"metadata": meta, "spec": spec})


def volume(name: str, at: float, of: str, **labels: str) -> Json:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "csi": {"driver": "csi.x", "volumeHandle": name},
        "claimRef": {"namespace": "shop", "name": of, "uid": f"uid-{of}"},
    }
    return entry(
        at, "PersistentVolume", {"metadata": {"name": name, "labels": labels}, "spec": spec}
    )


def recording(folder: Path, scrub: Scrub, *lines: Json) -> Path:
    """The lines as `stowplan record` writes them."""
    path = folder / "r.jsonl.gz"
    made = []
    for number, line in enumerate(lines, 1):
        if "object" in line:
            obj = msgspec.convert(line["object"], BY_KIND[line["kind"]].type)
            recorded = json.loads(scrub(obj))
            recorded["metadata"]["resourceVersion"] = str(number)
            line = {**line, "object": recorded}
        made.append(line)
    path.write_bytes(packed(HEADER, *made))
    return path


def replayed(stowplan: Run, path: Path) -> Json:
    result = path.parent / "result.json"
    code, out, err = stowplan("replay", path, "--result", result)
    assert (code, err) == (0, ""), out
    made: Json = json.loads(result.read_text())
    return made


def places(stowplan: Run, path: Path) -> dict[str, str]:
    """The nodes of the pods that are bound."""
    pods = replayed(stowplan, path)["pods"]
    found = {key.split("/")[1]: facts.get("node") for key, facts in pods.items()}
    return {name: on for name, on in found.items() if on}


def named(scrub: Scrub, name: str) -> str:
    """A name as recordings have it."""
    return name if scrub is kept else HASHED.names.text(name)


def told(scrub: Scrub, **found: str) -> dict[str, str]:
    return {named(scrub, name): named(scrub, on) for name, on in found.items()}


MADE: Final = (
    claim("p-scratch", 1.1, "pv", owner="p"),
    volume("pv", 1.1, "p-scratch"),
)


@SCRUBS
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            [storage_class("Immediate"), SYNCED, pod("p", 1.0, volumes=[EPHEMERAL]), *MADE],
            id="after the pod",
        ),
        pytest.param(
            [storage_class("Immediate"), SYNCED, *MADE, pod("p", 1.1, volumes=[EPHEMERAL])],
            id="before the pod",
        ),
        pytest.param(
            [
                storage_class("WaitForFirstConsumer"),
                SYNCED,
                pod("p", 1.0, volumes=[EPHEMERAL]),
                claim("p-scratch", 1.0, owner="p"),
            ],
            id="provisioned in the replay",
        ),
    ],
)
def test_a_pod_with_a_generic_ephemeral_volume_is_bound(
    tmp_path: Path, stowplan: Run, scrub: Scrub, lines: list[Json]
) -> None:
    path = recording(tmp_path, scrub, node("n1"), *lines, END)
    assert places(stowplan, path) == told(scrub, p="n1")


@SCRUBS
def test_a_preempted_pod_keeps_the_claim_of_its_ephemeral_volume(
    tmp_path: Path, stowplan: Run, scrub: Scrub
) -> None:
    path = recording(
        tmp_path,
        scrub,
        node("n1"),
        storage_class("Immediate"),
        volume("pv", 0.0, "p-scratch"),
        claim("p-scratch", 0.0, "pv", owner="p"),
        pod("p", 0.0, "n1", cpu="4", volumes=[EPHEMERAL]),
        SYNCED,
        pod("urgent", 1.0, cpu="4", priority=10),
        node("n2", 2.0),
        END,
    )
    again = f"{named(scrub, 'p')}-r1"
    found = told(scrub, p="n1", urgent="n1") | {again: named(scrub, "n2")}
    assert places(stowplan, path) == found


@SCRUBS
@pytest.mark.parametrize("zones", [("a", "b", "c"), ("1", "2", "3")], ids=["names", "numbers"])
def test_zones_of_a_volume(
    tmp_path: Path, stowplan: Run, scrub: Scrub, zones: tuple[str, str, str]
) -> None:
    path = recording(
        tmp_path,
        scrub,
        node("n1", labels={ZONE: zones[0]}),
        node("n2", labels={ZONE: zones[1]}),
        storage_class("Immediate"),
        volume("pv", 0.0, "disk", **{ZONE: f"{zones[1]}__{zones[2]}"}),
        claim("disk", 0.0, "pv"),
        SYNCED,
        pod("p", 1.0, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]),
        END,
    )
    assert places(stowplan, path) == told(scrub, p="n2")


@SCRUBS
@pytest.mark.parametrize("has_image", ["n1", "n2"])
def test_images_of_nodes(tmp_path: Path, stowplan: Run, scrub: Scrub, has_image: str) -> None:
    image = {"names": ["reg/web:latest"], "sizeBytes": 2_000_000_000}
    nodes = [node(name, images=(image,) if name == has_image else ()) for name in ("n1", "n2")]
    path = recording(tmp_path, scrub, *nodes, SYNCED, pod("p", 1.0), END)
    assert places(stowplan, path) == told(scrub, p=has_image)


@SCRUBS
@pytest.mark.parametrize(("first", "second"), [("n1", "n2"), ("n2", "n1")])
def test_pods_of_a_service_spread(
    tmp_path: Path, stowplan: Run, scrub: Scrub, first: str, second: str
) -> None:
    """The selector's label is called like a field of Kubernetes."""
    meta = {"name": "s", "namespace": "shop"}
    path = recording(
        tmp_path,
        scrub,
        node("n1"),
        node("n2"),
        entry(0.0, "Service", {"metadata": meta, "spec": {"selector": {"type": "p"}}}),
        pod("p0", 0.0, first),
        pod("other", 0.0, second),
        SYNCED,
        pod("p1", 1.0),
        END,
    )
    assert places(stowplan, path)[named(scrub, "p1")] == named(scrub, second)


def node_affinity(kind: str, **expression: Any) -> Json:
    terms = [{kind: [expression]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


@SCRUBS
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            node_affinity("matchExpressions", key="rank", operator="Gt", values=["8"]), id="Gt"
        ),
        pytest.param(
            node_affinity("matchExpressions", key="rack", operator="Lt", values=["8"]), id="Lt"
        ),
        pytest.param(
            node_affinity("matchExpressions", key="rank", operator="NotIn", values=["7"]),
            id="NotIn",
        ),
        pytest.param(
            node_affinity("matchFields", key="metadata.name", operator="In", values=["4712"]),
            id="name",
        ),
        pytest.param({"nodeSelector": {"rank": "10"}}, id="nodeSelector"),
        pytest.param({"nodeSelector": {"kubernetes.io/hostname": "4712"}}, id="hostname"),
        pytest.param(
            {"tolerations": [{"key": "k", "operator": "Equal", "value": "6", "effect": EFFECT}]},
            id="toleration",
        ),
    ],
)
def test_numbers_that_nodes_are_matched_with(
    tmp_path: Path, stowplan: Run, scrub: Scrub, spec: Json
) -> None:
    path = recording(
        tmp_path, scrub, *numbered_nodes(spec), SYNCED, pod("998877", 1.0, **spec), END
    )
    assert places(stowplan, path) == told(scrub, **{"998877": "4712"})


def numbered_nodes(spec: Json) -> list[Json]:
    made = []
    for name, rank, rack, taint in (("4711", "7", "9", "5"), ("4712", "10", "007", "6")):
        labels = {"kubernetes.io/hostname": name, "rank": rank, "rack": rack}
        each = node(name, labels=labels)
        if "tolerations" in spec:
            taints = [{"key": "k", "value": taint, "effect": EFFECT}]
            each["object"]["spec"] = {"taints": taints}
        made.append(each)
    return made


@SCRUBS
def test_numbers_that_pods_are_matched_with(tmp_path: Path, stowplan: Run, scrub: Scrub) -> None:
    """Only one of two pods has the number, and the new one goes to its node."""
    term = {
        "topologyKey": ZONE,
        "namespaces": ["4711"],
        "labelSelector": {"matchLabels": {"phone": "491"}},
    }
    spec: Json = {
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    }
    held = [pod("1", 0.0, "n1"), pod("2", 0.0, "n2")]
    for each, phone in zip(held, ("490", "491"), strict=True):
        each["object"]["metadata"] |= {"namespace": "4711", "labels": {"phone": phone}}
    path = recording(
        tmp_path, scrub, node("n1"), node("n2"), *held, SYNCED, pod("3", 1.0, **spec), END
    )
    assert places(stowplan, path) == told(scrub, **{"1": "n1", "2": "n2", "3": "n2"})


@SCRUBS
@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_prices_of_nodes(tmp_path: Path, stowplan: Run, scrub: Scrub, place: str) -> None:
    priced = node("n1", labels={TYPE: "m5.large"})
    prices = {**priced["object"]["metadata"].get(place, {}), "stowplan.io/price-per-hour": "1.2"}
    priced["object"]["metadata"][place] = prices
    path = recording(tmp_path, scrub, priced, SYNCED, pod("p", 1.0), END)
    assert replayed(stowplan, path)["cost"] == pytest.approx(1.2 * 30 / 3600, rel=1e-3)
    code, out, _ = stowplan("compare", path, "-o", "json")
    assert code == 0
    assert json.loads(out)["runs"][0]["figures"]["cost"] == pytest.approx(1.2 * 30 / 3600, rel=1e-3)


@pytest.mark.parametrize(("scrub", "is_known"), [(kept, True), (HASHED, False)])
def test_prices_of_instance_types_need_their_names(
    tmp_path: Path, stowplan: Run, scrub: Scrub, is_known: bool
) -> None:
    """As docs/compare.md says."""
    typed = node("n1", labels={TYPE: "m5.large"})
    path = recording(tmp_path, scrub, typed, SYNCED, pod("p", 1.0), END)
    prices = tmp_path / "prices.yaml"
    prices.write_text("m5.large: 1.2\n")
    code, _, err = stowplan("compare", path, "--prices", prices)
    assert code == 0
    assert ("no price for" in err) is not is_known


def test_recordings_of_the_simulator_name_the_claims_too(tmp_path: Path) -> None:
    """Their claims have no owners here, so no pod could use one as ephemeral."""
    lines = []
    for each in (MADE[0], pod("p", 1.0, volumes=[EPHEMERAL, {"name": "tmp", "emptyDir": {}}])):
        resource = {"apiVersion": "v1", "kind": each["kind"], **each["object"]}
        line = {"time": "2026-01-02T03:04:05Z", "event": "Add", "resource": resource}
        lines.append(json.dumps(line))
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(lines))
    made = [each.manifest for each in read_recording(path).events() if isinstance(each, Arrival)]
    assert "ownerReferences" not in made[0]["metadata"]
    assert made[1]["spec"]["volumes"] == [
        {"name": "scratch", "persistentVolumeClaim": {"claimName": "p-scratch"}},
        {"name": "tmp", "emptyDir": {}},
    ]
