"""The volume plugins that read an index: columns, single nodes and a recount say the same.

Claims, volumes, classes, CSINodes and attachments come, change and go between questions, and nodes
and pods with them, so that whatever an index missed shows.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import AzureDisk, DiskWithId, Pod
from stowplan.api.resources import CATALOGED
from stowplan.api.storage_objects import CSIVolumeSource
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.views import Overlay
from stowplan.errors import PluginError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SUCCESS, Status
from stowplan.plugins.node_volume_limits import NodeVolumeLimits
from stowplan.plugins.volume_restrictions import VolumeRestrictions
from stowplan.plugins.volume_zone import VolumeZone
from stowplan.testing import node, pod
from tests.examples import examples
from tests.property.clusters import change_cache
from tests.unit.plugins.volume_kit import (
    attachment,
    claim,
    csi_node,
    put,
    storage_class,
    volume,
)
from tests.unit.plugins.volume_kit import using as with_volumes

PLUGINS: tuple[type[Plugin], ...] = (VolumeRestrictions, NodeVolumeLimits, VolumeZone)
NODES = ["n0", "n1", "n2"]
CLAIMS = ["c0", "c1", "c2", "p-v0"]
VOLUMES = ["pv0", "pv1", "pv2"]
DRIVERS = ["d_x", "ebs_csi_aws_com"]
ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
#: The pod that owns the claim `p-v0`.
OWNER = pod("p", uid="uid-p")

Change: TypeAlias = tuple[str, Any]

_labels = st.dictionaries(
    st.sampled_from([ZONE, BETA_ZONE]), st.sampled_from(["a", "b", "a__b", "a____b"])
)
_nodes = st.builds(
    lambda name, labels: node(name, labels=labels),
    st.sampled_from(NODES),
    st.dictionaries(st.sampled_from([ZONE, BETA_ZONE]), st.sampled_from(["a", "b"])),
)
_sources: st.SearchStrategy[str | dict[str, Any]] = st.one_of(
    st.sampled_from(CLAIMS[:3]),
    st.sampled_from(CLAIMS[:3]),
    st.sampled_from(
        [
            {"ephemeral": {}},
            {"emptyDir": {}},
            {"gcePersistentDisk": {"pdName": "g"}},
            {"gcePersistentDisk": {"pdName": "g", "readOnly": True}},
            {"awsElasticBlockStore": {"volumeID": "vol-1"}},
            {"rbd": {"monitors": ["m"], "image": "i"}},
            {"rbd": {"monitors": ["l", "m"], "image": "i", "readOnly": True}},
        ]
    ),
    # Rare: what cannot be translated ends the attempt.
    st.sampled_from([{"cinder": {"volumeID": "c"}}] * 15 + [{"azureDisk": {"kind": "Shared"}}]),
)


@st.composite
def _pods(draw: st.DrawFn, *, standing: bool) -> Pod:
    volumes = draw(st.lists(_sources, max_size=3))
    where = draw(st.sampled_from([*NODES, "ghost"])) if standing else ""
    if draw(st.integers(0, 4)) == 0 and not standing:
        return with_volumes({"ephemeral": {}}, *volumes, name="p", uid="uid-p")
    return with_volumes(
        *volumes, node=where, namespace=draw(st.sampled_from(["default"] * 3 + ["x"]))
    )


_objects = st.one_of(
    st.builds(
        claim,
        st.sampled_from(CLAIMS),
        st.sampled_from([*VOLUMES, *VOLUMES, "", "nowhere"]),
        storage_class=st.sampled_from([None, "late", "moved"]),
        mode=st.sampled_from(["ReadWriteOnce", "ReadWriteOncePod"]),
        owner=st.just(OWNER),
    ),
    st.builds(
        lambda name, labels, source: volume(name, labels, **source),
        st.sampled_from(VOLUMES),
        _labels,
        st.sampled_from(
            [
                {"csi": CSIVolumeSource(driver="d.x", volume_handle="h")},
                {"csi": CSIVolumeSource(driver="d.x", volume_handle="i")},
                {"csi": CSIVolumeSource(driver="ebs.csi.aws.com", volume_handle="vol-1")},
                {"aws_elastic_block_store": DiskWithId(volume_id="vol-1")},
                {"azure_disk": AzureDisk(disk_uri="/d", kind="Shared")},
                {},
            ]
        ),
    ),
    st.sampled_from(
        [storage_class("late", "d.x"), storage_class("moved", "kubernetes.io/aws-ebs")]
    ),
    st.builds(
        lambda name, limits: csi_node(name, **limits),
        st.sampled_from(NODES),
        st.dictionaries(st.sampled_from(DRIVERS), st.sampled_from([None, 0, 1, 1, 2])),
    ),
    st.builds(
        attachment,
        st.sampled_from(["va0", "va1"]),
        st.sampled_from(NODES),
        st.sampled_from(["d.x", "ebs.csi.aws.com"]),
        st.sampled_from([*VOLUMES, None]),
    ),
)
_changes: st.SearchStrategy[Change] = st.one_of(
    _objects.map(lambda thing: ("put", thing)),
    _objects.map(lambda thing: ("put", thing)),
    st.integers(0, 30).map(lambda place: ("take", place)),
    _nodes.map(lambda thing: ("set", thing)),
    st.sampled_from(NODES).map(lambda name: ("remove", name)),
    _pods(standing=True).map(lambda thing: ("add", thing)),
    st.integers(0, 10).map(lambda place: ("delete", place)),
)


def _apply(cache: ClusterCache, change: Change) -> None:
    action, what = change
    if action == "put":
        put(cache, what)
    elif action == "take":
        shelved = [(kind, thing) for kind in CATALOGED for thing in cache.catalog[kind]]
        if shelved:
            kind, thing = shelved[what % len(shelved)]
            cache.catalog[kind].remove(thing.metadata.name, thing.metadata.namespace)
    else:
        change_cache(cache, action, what)


def _copied(catalog: Catalog) -> Catalog:
    """The same objects, of which nobody has an index yet."""
    copy = Catalog()
    for kind in CATALOGED:
        for thing in catalog[kind]:
            copy[kind].set(thing)
    return copy


def _only(plugin: type[Plugin], method: str, catalog: Catalog) -> FilterStep:
    """The plugin with one of its two forms taken away."""
    return FilterStep(
        type(plugin.__name__, (plugin,), {method: None})(None, Handle(catalog=catalog))
    )


def _prepared(step: FilterStep, cache: ClusterCache, mine: Pod) -> Cycle | None:
    cycle = Cycle(cache.table, compile_pod(mine))
    answer = step.plugin.pre_filter(cycle)
    return None if isinstance(answer, Status) else cycle


def _by_columns(
    step: FilterStep, cycle: Cycle, rows: Any, overlay: Overlay | None
) -> dict[int, Status] | str:
    """The verdict of every live row among these, or the error that ends the attempt."""
    table = cycle.table
    column = np.zeros(table.capacity, np.int32)
    try:
        step.fill(cycle, rows, column, overlay)
    except PluginError as problem:
        return str(problem)
    asked = table.live_rows if isinstance(rows, slice) else rows
    numbers = ((row, int(column[row])) for row in asked.tolist())
    return {row: step.status(cycle, number) if number else SUCCESS for row, number in numbers}


def _one_by_one(
    step: FilterStep, cycle: Cycle, overlay: Overlay | None
) -> tuple[dict[int, Status], set[str]]:
    answers, errors = {}, set()
    for row in cycle.table.live_rows.tolist():
        try:
            answers[row] = step.status_of_row(cycle, row, overlay)
        except PluginError as problem:
            errors.add(str(problem))
    return answers, errors


def _agree(
    columns: FilterStep, per_node: FilterStep, cycle: Cycle, overlay: Overlay | None = None
) -> None:
    answers, errors = _one_by_one(per_node, cycle, overlay)
    whole = _by_columns(columns, cycle, slice(None), overlay)
    if isinstance(whole, str):
        assert whole in errors
    else:
        assert not errors
        assert whole == answers
    # Rows that nobody asks about do not matter, whatever is wrong with them.
    fine = np.array(sorted(answers), np.intp)
    if overlay is None:
        assert _by_columns(columns, cycle, fine, None) == answers


@examples(90)
@given(
    changes=st.lists(_changes, min_size=10, max_size=40),
    askers=st.lists(_pods(standing=False), min_size=1, max_size=3),
)
def test_forms_agree_whatever_happens(changes: list[Change], askers: list[Pod]) -> None:
    cache = ClusterCache()
    for name in NODES:
        cache.set_node(node(name))
    kept = [
        (_only(plugin, "filter", cache.catalog), _only(plugin, "filter_columns", cache.catalog))
        for plugin in PLUGINS
    ]
    for turn, change in enumerate(changes):
        _apply(cache, change)
        if turn % 3:
            continue
        mine = askers[turn % len(askers)]
        for (columns, per_node), plugin in zip(kept, PLUGINS, strict=True):
            cycle = _prepared(columns, cache, mine)
            if cycle is None:
                continue
            _agree(columns, per_node, cycle)
            fresh = _only(plugin, "filter", _copied(cache.catalog))
            again = _by_columns(fresh, cycle, slice(None), None)
            assert again == _by_columns(columns, cycle, slice(None), None)


@examples(50)
@given(
    changes=st.lists(_changes, min_size=5, max_size=25),
    mine=_pods(standing=False),
    added=st.lists(st.tuples(st.sampled_from(NODES), _pods(standing=False)), max_size=3),
)
def test_forms_agree_on_what_if(
    changes: list[Change], mine: Pod, added: list[tuple[str, Pod]]
) -> None:
    cache = ClusterCache()
    for change in [*[("set", node(name)) for name in NODES], *changes]:
        _apply(cache, change)
    table = cache.table
    coming: dict[int, list[PodInfo]] = {}
    for name, other in added:
        row = table.live_row(name)
        if row is not None:
            coming.setdefault(row, []).append(compile_pod(other))
    going = {row: list(table.pods[row].values())[::2] for row in table.live_rows.tolist()}
    overlay = Overlay(table, coming, {row: pods for row, pods in going.items() if pods})
    for plugin in PLUGINS:
        columns = _only(plugin, "filter", cache.catalog)
        cycle = _prepared(columns, cache, mine)
        if cycle is not None:
            _agree(columns, _only(plugin, "filter_columns", cache.catalog), cycle, overlay)


@examples(40)
@given(changes=st.lists(_changes, min_size=5, max_size=40))
def test_used_volumes_equal_a_recount(changes: list[Change]) -> None:
    cache = ClusterCache()
    for change in changes:
        _apply(cache, change)
    table = cache.table
    recount = ClusterCache()
    for name in sorted(cache.placements().values()):
        recount.set_node(node(name))
    for row, pods in enumerate(table.pods):
        assert set(table.used_volumes.pods_on(row)) == {u for u, i in pods.items() if i.volumes}
        for info in pods.values():
            recount.add_pod(info.pod)
    assert len(table.used_volumes) == len(recount.table.used_volumes)
    for namespace in ("default", "x"):
        for name in CLAIMS:
            rows = table.used_volumes.rows_using(namespace, name)
            others = recount.table.used_volumes.rows_using(namespace, name)
            assert {table.names[r] for r in rows} == {recount.table.names[r] for r in others}
