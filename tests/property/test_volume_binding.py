"""VolumeBinding: both forms say the same of any cluster, and what is believed never goes astray."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import ObjectReference
from stowplan.api.quantity import nanos
from stowplan.api.resources import PERSISTENT_VOLUMES
from stowplan.api.storage_objects import PersistentVolume
from stowplan.cluster.catalog import Catalog
from stowplan.framework.forms import FilterStep
from stowplan.framework.plugin import Plugin
from stowplan.plugins.volume_binding import VolumeBinding
from stowplan.plugins.volume_binding.assumed import BelievedVolumes
from stowplan.plugins.volume_binding.volume_index import Kind, class_of_volume, is_free, known
from stowplan.testing import node
from tests.examples import examples
from tests.unit.plugins.volume_binding_kit import (
    HOSTNAME,
    SELECTED_NODE,
    STATIC,
    ZONE,
    Scene,
    claim,
    csi_node,
    driver,
    pool,
    storage_class,
    using,
    volume,
)

CLAIMS = [f"c{number}" for number in range(4)]
VOLUMES = [f"v{number}" for number in range(9)]
HOSTS = ["a", "b", "c", "d", "e"]
ZONES = ["z1", "z2", "z3"]
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
EBS = "kubernetes.io/aws-ebs"
SIZES = ["1Gi", "2Gi", "3Gi", "3G", "0"]


def _term(key: str, operator: str, *values: str) -> dict[str, Any]:
    requirement: dict[str, Any] = {"key": key, "operator": operator}
    if values:
        requirement["values"] = values
    return requirement


REQUIREMENTS = st.sampled_from(
    [
        *(_term(HOSTNAME, "In", host) for host in HOSTS),
        *(_term(ZONE, "In", zone) for zone in ZONES),
        _term(ZONE, "In", "z1", "z2", "z9"),
        _term(ZONE, "NotIn", "z1"),
        _term(ZONE, "DoesNotExist"),
        _term(HOSTNAME, "Exists"),
        _term("gen", "Gt", "1"),
    ]
)
TERMS = st.lists(REQUIREMENTS, max_size=2).map(lambda all_of: {"matchExpressions": all_of})
AFFINITIES = st.none() | st.lists(TERMS, min_size=1, max_size=2).map(
    lambda terms: {"required": {"nodeSelectorTerms": terms}}
)
REFERENCES = st.builds(
    lambda name, uid: {"namespace": "default", "name": name, "uid": uid and f"uid-{name}"},
    st.sampled_from(CLAIMS),
    st.booleans().map(lambda known: "uid" if known else ""),
)


@st.composite
def volumes(draw: st.DrawFn, name: str) -> PersistentVolume:
    disk = {"volumeID": f"vol-{name}"}
    return volume(
        name,
        storage_class=draw(st.sampled_from(["static", "static", "late"])),
        size=draw(st.sampled_from(SIZES)),
        claim_ref=draw(st.none() | st.none() | REFERENCES),
        phase=draw(st.sampled_from(["Available", "Available", "Available", "Bound"])),
        labels=draw(st.sampled_from([None, {"disk": "ssd"}, {ZONE: "z2"}])),
        nodeAffinity=draw(AFFINITIES),
        awsElasticBlockStore=draw(st.none() | st.just(disk)),
    )


@st.composite
def claims(draw: st.DrawFn, name: str) -> Any:
    return claim(
        name,
        storage_class=draw(st.sampled_from(["static", "static", "late"])),
        size=draw(st.sampled_from([*SIZES, None])),
        bound_to=draw(st.sampled_from(["", "", "", *VOLUMES, "gone"])),
        annotations=draw(st.none() | st.none() | st.sampled_from([{SELECTED_NODE: "a"}])),
        selector=draw(st.none() | st.none() | st.just({"matchLabels": {"disk": "ssd"}})),
    )


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    nodes = [
        node(
            name,
            zone=draw(st.none() | st.sampled_from(ZONES)),
            labels=draw(st.sampled_from([{}, {"gen": "2"}, {EBS_ZONE: "z1"}, {EBS_ZONE: "z2"}])),
        )
        for name in HOSTS[: draw(st.integers(1, 5))]
    ]
    things: list[Any] = [STATIC, storage_class(zones=draw(st.sampled_from([[], ["z1", "z2"]])))]
    things += [draw(volumes(name)) for name in VOLUMES[: draw(st.integers(0, 9))]]
    things += [draw(claims(name)) for name in CLAIMS]
    if draw(st.booleans()):
        things.append(driver())
    topologies = draw(
        st.lists(st.sampled_from([{"matchLabels": {ZONE: z}} for z in ZONES]), max_size=3)
    )
    things += [
        pool(topology, name=f"pool{number}", capacity=draw(st.sampled_from(SIZES)))
        for number, topology in enumerate(topologies)
    ]
    things += [csi_node(name, EBS) for name in HOSTS if draw(st.booleans())]
    return Scene(nodes, *things)


def _only(form: str, scene: Scene) -> FilterStep:
    plugin: Plugin = type("One", (VolumeBinding,), {form: None})(None, scene.handle)
    return FilterStep(plugin)


@examples(150)
@given(scenes(), st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=4), st.data())
def test_columns_say_what_each_node_says(
    scene: Scene, used: list[str], data: st.DataObject
) -> None:
    pod = using(*used)
    cycle = scene.cycle(pod)
    if scene.plugin.pre_filter(cycle) is not None:
        return
    columns, per_node = _only("filter", scene), _only("filter_columns", scene)
    table = scene.cache.table
    some = data.draw(st.lists(st.sampled_from(table.live_rows.tolist()), unique=True))
    for rows in (slice(None), np.array(sorted(some), np.intp)):
        verdicts = np.zeros(table.capacity, np.int32)
        columns.fill(cycle, rows, verdicts)
        for row in table.live_rows.tolist() if isinstance(rows, slice) else some:
            expected = per_node.status_of_row(cycle, row)
            if verdicts[row]:
                assert columns.status(cycle, int(verdicts[row])) == expected
            else:
                assert expected.is_success


@examples(60)
@given(scenes(), st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=4), st.data())
def test_reserving_and_taking_back_leaves_no_trace(
    scene: Scene, used: list[str], data: st.DataObject
) -> None:
    pod = using(*used)
    before = scene.filter(pod) if scene.pre_filter(pod) is None else None
    fitting = [name for name, reasons in (before or {}).items() if not reasons]
    if not fitting:
        return
    where = data.draw(st.sampled_from(fitting))
    cycle = scene.reserve(pod, where)
    assert scene.filter(pod)[where] == [], "what was promised is kept for the pod"
    scene.plugin.unreserve(cycle, pod, where)
    assert scene.filter(pod) == before


CHANGES = st.tuples(
    st.sampled_from(["set", "set", "assume", "restore", "remove"]),
    st.sampled_from(VOLUMES[:3]),
    st.sampled_from(["1Gi", "2Gi"]),
    st.sampled_from(["static", "late"]),
)


@given(st.lists(CHANGES, max_size=30))
def test_the_index_by_class_is_what_is_believed(changes: list[tuple[str, str, str, str]]) -> None:
    catalog = Catalog()
    shelf = catalog[PERSISTENT_VOLUMES]
    believed = catalog.shared(BelievedVolumes)
    for version, (action, name, size, storage) in enumerate(changes):
        stored, current = shelf.get(name), believed.volumes.get(name)
        if action == "set":
            shelf.set(volume(name, size=size, storage_class=storage, version=str(version)))
        elif action == "remove":
            shelf.remove(name)
        elif current is not None and stored is not None:
            if action == "assume":
                ref = ObjectReference(name=size)
                spec = msgspec.structs.replace(current.spec, claim_ref=ref)
                believed.volumes.assume(msgspec.structs.replace(current, spec=spec))
            else:
                believed.volumes.restore(current)
                assert believed.volumes.get(name) == stored
        if version % 3 == 0:
            continue  # Nobody looks: facts are made up later.
        for storage_name in ("static", "late"):
            everything = [v for each in VOLUMES[:3] if (v := believed.volumes.get(each))]
            free = [known(v) for v in everything if class_of_volume(v) == storage_name]
            free = sorted((v for v in free if is_free(v.volume)), key=lambda v: v.order)
            found = believed.index.free(storage_name)
            assert [found[place] for place in range(len(found))] == free
            wanted = Kind("Filesystem", "", frozenset(["ReadWriteOnce"]))
            large = found.suiting(wanted, nanos("2Gi"))
            assert [found[place] for place in large] == [v for v in free if v.size >= nanos("2Gi")]
            promised = [v for v in everything if class_of_volume(v) == storage_name]
            for size_name in ("1Gi", "2Gi"):
                there = believed.index.promised(storage_name, "", size_name)
                assert {v.name for v in there} == {
                    v.metadata.name
                    for v in promised
                    if v.spec.claim_ref is not None and v.spec.claim_ref.name == size_name
                }
