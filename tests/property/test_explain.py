"""What `explain --fix` proposes is true: with each change made, the scheduler places the pod.

The changes are applied to copies of the objects, and a whole engine that has never seen the cluster
before tries the pod; `explain` itself only ever asked `judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import NODES, PODS
from stowplan.clock import SystemClock
from stowplan.config.defaults import default_config
from stowplan.explain.changes import Change
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


@st.composite
def plain_nodes(draw: st.DrawFn, name: str) -> Node:
    """Nodes that mostly lack one thing."""
    return make_node(
        name,
        cpu=draw(st.integers(1, 4)),
        memory="4Gi",
        labels={"disk": draw(st.sampled_from(["ssd", "hdd"]))},
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


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    names = draw(st.lists(st.sampled_from(NODE_NAMES), unique=True, min_size=1, max_size=4))
    standing = draw(st.lists(pods(standing=True), max_size=6))
    made = [draw(st.one_of(plain_nodes(name), nodes(name))) for name in names]
    return made, _named(standing)


def _named(standing: list[Pod]) -> list[Pod]:
    """Pods of a real cluster have names of their own."""
    return [
        msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, name=f"standing-{place}")
        )
        for place, pod in enumerate(standing)
    ]


def _given(all_nodes: list[Node], standing: list[Pod]) -> GivenCluster:
    cluster = GivenCluster()
    for node in all_nodes:
        cluster.put(thing_of(NODES, node))
    for pod in standing:
        cluster.put(thing_of(PODS, pod))
    return cluster


def _engine(all_nodes: Iterable[Node], standing: Iterable[Pod], asker: Pod) -> Engine:
    """A scheduler that has never seen the cluster before, with the pod in its queue."""
    engine = build_engine(default_config(), rng=Random(1))
    handlers = EventHandlers(engine)
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
    return isinstance(_engine(known.values(), left, change.pod or asker).attempt(), Placement)


def _asker(pod: Pod) -> Pod:
    spec = msgspec.structs.replace(
        pod.spec, scheduler_name="default-scheduler", node_name="", scheduling_gates=None
    )
    return msgspec.structs.replace(pod, spec=spec)


@examples(150)
@given(cluster=clusters(), pod=st.one_of(plain_pods(), pods()))
def test_every_fix_places_the_pod(cluster: tuple[list[Node], list[Pod]], pod: Pod) -> None:
    all_nodes, standing = cluster
    asker = _asker(pod)
    given_cluster = _given(all_nodes, standing)
    explainer = Explainer(given_cluster, SETTINGS)
    thing = thing_of(PODS, asker)
    before = dict(given_cluster.things)
    said = explainer.explain(thing)
    for change, _ in proven_changes(explainer, thing, SystemClock()):
        assert _is_placed(all_nodes, standing, asker, change), change.text
    assert given_cluster.things == before, "the cluster is as it was"
    assert explainer.explain(thing) == said, "and so is the answer"
    assert explanation_text(said).startswith(asker.key)


def test_these_examples_have_fixes_of_many_kinds() -> None:
    """Else the test above would prove nothing."""
    kinds: Counter[str] = Counter()

    @examples(150)
    @given(cluster=clusters(), pod=st.one_of(plain_pods(), pods()))
    def count(cluster: tuple[list[Node], list[Pod]], pod: Pod) -> None:
        explainer = Explainer(_given(*cluster), SETTINGS)
        for change, _ in proven_changes(explainer, thing_of(PODS, _asker(pod)), SystemClock()):
            kinds.update(change.kind.split("+"))

    count()
    assert {"Request", "Eviction", "Toleration", "NodeLabel", "Uncordon", "NewNode"} <= set(kinds)


@examples(100)
@given(cluster=clusters(), pod=st.one_of(plain_pods(), pods()))
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
