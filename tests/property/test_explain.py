"""What `explain --fix` proposes is true: with each change made, the scheduler places the pod.

The changes are applied to copies of the objects, and a whole engine that has never seen the cluster
before tries the pod; `explain` itself only ever asked `judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.api.objects import ClaimVolume, Node, Pod, PodSpec, Volume
from stowplan.api.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    Resource,
)
from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim
from stowplan.clock import VirtualClock
from stowplan.config.defaults import default_config
from stowplan.explain.change import Change
from stowplan.explain.fixes import proven_changes
from stowplan.explain.reasoning import Explainer
from stowplan.explain.text import explanation_text
from stowplan.judge.configuration import Configuration, default_registry
from stowplan.judge.given_cluster import GivenCluster
from stowplan.judge.objects import thing_of
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.examples import examples
from tests.property.clusters import NODE_NAMES, nodes, pods

SETTINGS = Configuration(default_config(), default_registry())


_TAINT = "dedicated=gpu:NoSchedule"


_ZONE = "topology.kubernetes.io/zone"
_VOLUME: tuple[tuple[Resource[Any], Any], ...] = (
    (
        PERSISTENT_VOLUMES,
        msgspec.convert(
            {
                "metadata": {"name": "disk"},
                "spec": {
                    "csi": {"driver": "disk.example", "volumeHandle": "1"},
                    "claimRef": {"namespace": "default", "name": "data"},
                    "nodeAffinity": {
                        "required": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": _ZONE, "operator": "In", "values": ["c"]}
                                    ]
                                }
                            ]
                        }
                    },
                },
            },
            PersistentVolume,
        ),
    ),
    (
        PERSISTENT_VOLUME_CLAIMS,
        msgspec.convert(
            {
                "metadata": {
                    "name": "data",
                    "namespace": "default",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "disk"},
            },
            PersistentVolumeClaim,
        ),
    ),
)


@st.composite
def plain_nodes(draw: st.DrawFn, name: str) -> Node:
    """Nodes that mostly lack one thing."""
    zone = draw(st.sampled_from([{}, {_ZONE: "a"}, {_ZONE: "b"}, {_ZONE: "c"}]))
    return make_node(
        name,
        cpu=draw(st.integers(1, 4)),
        memory="4Gi",
        labels={"disk": draw(st.sampled_from(["ssd", "hdd"])), "gen": "3", **zone},
        taints=draw(st.sampled_from([[], [], [_TAINT]])),
        unschedulable=draw(st.sampled_from([False, False, True])),
    )


@st.composite
def plain_pods(draw: st.DrawFn) -> Pod:
    return make_pod(
        "asker",
        cpu=draw(st.integers(1, 6)),
        memory=draw(st.sampled_from(["1Gi", "3Gi", "5Gi"])),
        priority=draw(st.sampled_from([0, 10])),
        node_selector=draw(st.sampled_from([None, {"disk": "ssd"}, {"disk": "nvme"}])),
    )


_EXPRESSIONS = [
    {"key": "gen", "operator": "Gt", "values": ["5"]},
    {"key": "gen", "operator": "Lt", "values": ["2"]},
    {"key": "disk", "operator": "NotIn", "values": ["ssd", "hdd"]},
    {"key": "fast", "operator": "Exists"},
    {"key": "disk", "operator": "DoesNotExist"},
]
_WEB: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "web"}}}


LACKS = ("node", "near", "apart", "spread", "gpu", "data")


@st.composite
def lacking_pods(draw: st.DrawFn, lacks: tuple[str, ...] = LACKS) -> Pod:
    """Pods that small nodes have room for, and that want one or two things besides."""
    spec: dict[str, Any] = {}
    requests: dict[str, Any] = {"cpu": "100m"}
    for lack in draw(st.sets(st.sampled_from(lacks), min_size=1, max_size=2)):
        if lack == "node":
            term = {"matchExpressions": [draw(st.sampled_from(_EXPRESSIONS))]}
            required = {"nodeSelectorTerms": [term]}
            spec["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            }
        elif lack == "near":
            nobody = {"labelSelector": {"matchLabels": {"app": "none"}}, "topologyKey": "gen"}
            spec["affinity"] = {
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [nobody]}
            }
        elif lack == "apart":
            term = {**_WEB, "topologyKey": draw(st.sampled_from([_ZONE, "gen"]))}
            spec["affinity"] = {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            }
        elif lack == "spread":
            hard = {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [{**_WEB, **hard}]
        elif lack == "gpu":
            requests["example.com/gpu"] = "1"
        else:
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    container = {"name": "main", "resources": {"requests": requests}}
    asker = make_pod("asker", labels={"app": "web"})
    return msgspec.structs.replace(
        asker, spec=msgspec.convert({**spec, "containers": [container]}, PodSpec)
    )


@st.composite
def web_pods(draw: st.DrawFn) -> Pod:
    """Small pods that others avoid; some hold the claim."""
    made = make_pod(
        "web",
        cpu="10m",
        labels={"app": "web"},
        node=draw(st.sampled_from(NODE_NAMES)),
    )
    if draw(st.integers(0, 3)):
        return made
    volume = Volume(name="data", persistent_volume_claim=ClaimVolume("data"))
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, volumes=(volume,)))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    names = draw(st.lists(st.sampled_from(NODE_NAMES), unique=True, min_size=1, max_size=4))
    standing = draw(st.lists(st.one_of(pods(standing=True), web_pods()), max_size=6))
    made = [draw(st.one_of(plain_nodes(name), nodes(name))) for name in names]
    return made, _named(standing)


def _named(standing: list[Pod]) -> list[Pod]:
    """Pods of a real cluster have names of their own."""
    return [
        msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(
                pod.metadata, name=f"standing-{place}", uid=f"standing-{place}"
            ),
        )
        for place, pod in enumerate(standing)
    ]


def _given(all_nodes: list[Node], standing: list[Pod]) -> GivenCluster:
    cluster = GivenCluster()
    for node in all_nodes:
        cluster.put(thing_of(NODES, node))
    for pod in standing:
        cluster.put(thing_of(PODS, pod))
    for kind, item in _VOLUME:
        cluster.put(thing_of(kind, item))
    return cluster


def _engine(
    all_nodes: Iterable[Node],
    standing: Iterable[Pod],
    asker: Pod,
    objects: Iterable[tuple[Resource[Any], Any]] = (),
) -> Engine:
    """A scheduler that has never seen the cluster before, with the pod in its queue."""
    engine = build_engine(default_config(), rng=Random(1))
    handlers = EventHandlers(engine)
    for kind, item in (*_VOLUME, *objects):
        engine.cache.catalog[kind].set(item)
    for node in all_nodes:
        handlers.add_node(node)
    for pod in (*standing, asker):
        handlers.add_pod(pod)
    return engine


def _is_placed(all_nodes: list[Node], standing: list[Pod], asker: Pod, change: Change) -> bool:
    known = {node.name: node for node in all_nodes}
    if change.node is not None:
        known[change.node.name] = change.node
    gone = {victim.uid for victim in change.victims}
    left = [pod for pod in standing if pod.uid not in gone]
    engine = _engine(known.values(), left, change.pod or asker, change.objects)
    return isinstance(engine.attempt(), Placement)


def _asker(pod: Pod) -> Pod:
    spec = msgspec.structs.replace(
        pod.spec, scheduler_name="default-scheduler", node_name="", scheduling_gates=None
    )
    return msgspec.structs.replace(pod, spec=spec)


@examples(150)
@given(cluster=clusters(), pod=st.one_of(plain_pods(), lacking_pods(), pods()))
def test_every_fix_places_the_pod(cluster: tuple[list[Node], list[Pod]], pod: Pod) -> None:
    all_nodes, standing = cluster
    asker = _asker(pod)
    given_cluster = _given(all_nodes, standing)
    explainer = Explainer(given_cluster, SETTINGS)
    thing = thing_of(PODS, asker)
    before = dict(given_cluster.things)
    said = explainer.explain(thing)
    for change, _ in proven_changes(explainer, thing, VirtualClock()):
        assert _is_placed(all_nodes, standing, asker, change), change.text
    assert given_cluster.things == before, "the cluster is as it was"
    assert explainer.explain(thing) == said, "and so is the answer"
    assert explanation_text(said).startswith(asker.key)


def test_fixes_of_every_kind_place_the_pod() -> None:
    """Pods that lack one thing, so that each kind is among the fixes."""
    kinds: Counter[str] = Counter()

    def prove(cluster: tuple[list[Node], list[Pod]], pod: Pod) -> None:
        asker = _asker(pod)
        explainer = Explainer(_given(*cluster), SETTINGS)
        for change, _ in proven_changes(explainer, thing_of(PODS, asker), VirtualClock()):
            assert _is_placed(*cluster, asker, change), change.text
            kinds.update(change.kind.split("+"))

    for asked in (plain_pods(), *(lacking_pods((lack,)) for lack in LACKS)):
        settings(max_examples=30)(given(cluster=clusters(), pod=asked)(prove))()
    assert set(kinds) >= {
        "Request", "Eviction", "Toleration", "Taint", "NodeLabel", "Uncordon", "NewNode",
        "TopologySpread", "PodAffinity", "VolumeZone",
    }  # fmt: skip


@examples(100)
@given(cluster=clusters(), pod=st.one_of(plain_pods(), lacking_pods(), pods()))
def test_preemption_is_foretold_as_the_scheduler_does_it(
    cluster: tuple[list[Node], list[Pod]], pod: Pod
) -> None:
    all_nodes, standing = cluster
    asker = _asker(pod)
    explainer = Explainer(_given(all_nodes, standing), SETTINGS)
    foretold = explainer.explain(thing_of(PODS, asker)).preemption
    outcome = _engine(all_nodes, standing, asker).attempt()
    if isinstance(outcome, Placement):
        assert foretold is None
        return
    assert isinstance(outcome, Failure)
    assert foretold is not None
    assert foretold.would_help == (outcome.eviction is not None), foretold.text
    if foretold.would_help:
        left = [each for each in standing if each.key not in foretold.victims]
        assert isinstance(_engine(all_nodes, left, asker).attempt(), Placement), foretold.text
