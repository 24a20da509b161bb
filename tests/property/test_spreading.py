"""PodTopologySpread on random clusters that change, in both forms, against a plain reading of it.

Sums by domain are kept from one attempt to the next, so the same pods ask again and again while
nodes and pods come, change and go. Hypothesis picks seeds only: drawn by itself, clusters are so
sparse that hardly any constraint is ever violated.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.api.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    ObjectMeta,
    Pod,
    TopologySpreadConstraint,
)
from stowplan.api.resources import SERVICES
from stowplan.api.selectors import compile_label_selector
from stowplan.api.workload_objects import SelectingSpec, Service
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.domains import Domains, Inclusion
from stowplan.cluster.pod_classes import CounterKey
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.handle import Handle
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import SUCCESS, Status
from stowplan.plugins.pod_topology_spread import PodTopologySpread
from stowplan.plugins.pod_topology_spread.constraints import HARD, SOFT, SYSTEM_DEFAULTS
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.examples import examples
from tests.property.reference_spread import HOSTNAME, ReferenceSpread

ZONE = "topology.kubernetes.io/zone"
NAMES = [f"n{number}" for number in range(7)]
DELETED = "2026-01-01T00:00:00Z"
seeds = st.integers(0, 2**32)


class Draw(Random):
    """Nodes and pods whose labels and selectors often meet."""

    def pod_labels(self) -> dict[str, str]:
        labels = {"app": self.choice(["a", "a", "a", "b", ""])}
        return labels | {"tier": self.choice(["x", "y"])} if self.random() < 0.3 else labels

    def selector(self) -> LabelSelector | None:
        chance = self.random()
        if chance < 0.6:
            return LabelSelector(match_labels={"app": "a"})
        if chance < 0.8:
            operator = self.choice(["In", "NotIn", "Exists", "DoesNotExist"])
            values = ("a", "x") if operator in ("In", "NotIn") else None
            key = self.choice(["app", "tier"])
            return LabelSelector(
                match_expressions=(
                    LabelSelectorRequirement(key=key, operator=operator, values=values),
                )
            )
        return LabelSelector() if chance < 0.9 else None

    def constraint(self) -> TopologySpreadConstraint:
        action = self.choice([HARD, SOFT])
        policies = [None, None, "Honor", "Ignore"]
        return TopologySpreadConstraint(
            max_skew=self.choice([1, 1, 1, 2, 5]),
            topology_key=self.choice([HOSTNAME, ZONE, ZONE, "disk"]),
            when_unsatisfiable=action,
            label_selector=self.selector(),
            min_domains=self.choice([None, None, 1, 2, 4]) if action == HARD else None,
            node_affinity_policy=self.choice(policies),
            node_taints_policy=self.choice(policies),
            match_label_keys=self.choice([None, None, ("app",), ("tier", "unheard-of")]),
        )

    def node(self) -> Node:
        labels = {"disk": self.choice("xy")} if self.random() < 0.7 else {}
        if self.random() < 0.1:
            labels[HOSTNAME] = self.choice("xy")
        made = make_node(
            self.choice(NAMES),
            zone=self.choice(["z1", "z2", "z3", "", None]),
            labels=labels,
            taints=self.choice([(), (), (), ("k:NoSchedule",), ("k:PreferNoSchedule",)]),
        )
        if self.random() < 0.05:
            return replace(made, metadata=replace(made.metadata, labels=None))
        return made

    def standing(self) -> Pod:
        return make_pod(
            namespace=self.choice(["default"] * 5 + ["prod"]),
            labels=self.pod_labels() if self.random() < 0.9 else None,
            node=self.choice(NAMES),
            terminating=self.random() < 0.2,
        )

    def asker(self) -> Pod:
        constraints = [self.constraint() for _ in range(self.choice([0, 1, 1, 1, 2, 3]))]
        return make_pod(
            labels=self.pod_labels() if self.random() < 0.9 else None,
            tolerations=["k:NoSchedule"] if self.random() < 0.5 else [],
            node_selector={"disk": "x"} if self.random() < 0.2 else None,
            topology_spread_constraints=constraints or None,
        )

    def change(self) -> tuple[str, Any]:
        chance = self.random()
        if chance < 0.2:
            return ("set", self.node())
        if chance < 0.25:
            return ("remove", self.choice(NAMES))
        if chance < 0.7:
            return ("add", self.standing())
        return (self.choice(["delete", "terminate"]), self.randrange(30))


class World:
    """A cluster with two Services, and the plugin in both forms."""

    def __init__(self) -> None:
        self.cache = ClusterCache()
        self.table = self.cache.table
        for app in ("a", "b"):
            service = Service(
                metadata=ObjectMeta(name=app, namespace="default"),
                spec=SelectingSpec(selector={"app": app}),
            )
            self.cache.catalog[SERVICES].set(service)
        handle = Handle(table=self.table, catalog=self.cache.catalog)
        self.columns: Any = make_plugin(_without("filter", "score"), {}, handle)
        self.per_node: Any = make_plugin(_without("filter_columns", "score_columns"), {}, handle)

    def change(self, action: str, what: Any) -> None:
        if action == "set":
            self.cache.set_node(what)
        elif action == "remove":
            self.cache.remove_node(what)
        elif action == "add":
            self.cache.add_pod(what)
        else:
            standing = sorted(self.cache.placements())
            if not standing:
                return
            uid = standing[what % len(standing)]
            if action == "delete":
                self.cache.remove_pod(uid)
                return
            old = self.cache.pod(uid)
            assert old is not None
            deleted = replace(old.metadata, deletion_timestamp=DELETED)
            self.cache.update_pod(replace(old, metadata=deleted))

    def reference(self, pod: Pod, action: str) -> ReferenceSpread:
        table = self.table
        spelled = pod.spec.topology_spread_constraints
        if not spelled:
            app = (pod.metadata.labels or {}).get("app")
            selected = LabelSelector(match_labels={"app": app or ""})
            spelled = tuple(
                replace(each, label_selector=selected)
                for each in SYSTEM_DEFAULTS
                if app in ("a", "b")
            )
        rows = table.live_rows.tolist()
        return ReferenceSpread(
            pod,
            [each for each in spelled if each.when_unsatisfiable == action],
            {table.names[row]: table.node(row) for row in rows},
            {table.names[row]: [info.pod for info in table.pods[row].values()] for row in rows},
        )


def _without(*methods: str) -> type[PodTopologySpread]:
    return type("PodTopologySpread", (PodTopologySpread,), dict.fromkeys(methods))


def _is_skip(status: object) -> bool:
    return isinstance(status, Status) and status.is_skip


def _verdicts(world: World, cycle: Cycle, rows: list[int]) -> list[str]:
    """What both forms say of some rows."""
    columns, per_node = FilterStep(world.columns), FilterStep(world.per_node)
    whole = np.full(world.table.capacity, -1, np.int32)
    columns.fill(cycle, slice(None), whole)
    partly = np.full(world.table.capacity, -1, np.int32)
    columns.fill(cycle, np.array(rows, np.intp), partly)
    assert partly[rows].tolist() == whole[rows].tolist()
    statuses = [columns.status(cycle, int(v)) if v else SUCCESS for v in whole[rows]]
    assert statuses == [per_node.status_of_row(cycle, row) for row in rows]
    return [status.code.label for status in statuses]


def _check_filter(world: World, pod: Pod, others: list[tuple[Pod, int]]) -> None:
    cycle = Cycle(world.table, compile_pod(pod))
    reference = world.reference(pod, HARD)
    assert _is_skip(world.columns.pre_filter(cycle)) == (not reference.constraints)
    if not reference.constraints:
        return
    reference.pre_filter()
    rows = world.table.live_rows.tolist()
    names = [world.table.names[row] for row in rows]
    before = _verdicts(world, cycle, rows)
    assert before == [reference.verdict(name) for name in names]
    # Pods that come to one node and go from it, one after the other.
    twin = cycle.clone()
    for other, delta in others:
        world.columns.what_if(twin, compile_pod(other), rows[0], delta)
        reference.what_if(other, names[0], delta)
        changed = _verdicts(world, twin, rows)
        assert changed == [reference.verdict(name) for name in names]
        assert _verdicts(world, twin.clone(), rows) == changed
    assert _verdicts(world, cycle, rows) == before


def _check_scores(world: World, pod: Pod, feasible: list[str]) -> None:
    table = world.table
    rows = np.array([r for name in feasible if (r := table.live_row(name)) is not None], np.intp)
    if not len(rows):
        return
    reference = world.reference(pod, SOFT)
    cycle = Cycle(table, compile_pod(pod))
    assert _is_skip(world.columns.pre_score(cycle, rows)) == (not reference.constraints)
    if not reference.constraints:
        return
    names = [table.names[row] for row in rows]
    all_keys = bool(pod.spec.topology_spread_constraints)
    raw, final = reference.scores(names, all_keys=all_keys)
    asked: list[tuple[Any, Any]] = [
        (world.columns, rows),
        (world.columns, slice(None)),
        (world.per_node, rows),
    ]
    for plugin, chosen in asked:
        step = ScoreStep(plugin, 1)
        out = np.full(table.capacity, -1, np.int64)
        step.fill(cycle, chosen, out)
        assert out[rows].tolist() == raw
        assert step.finish(cycle, out[rows]).tolist() == final


@examples(150)
@given(seed=seeds)
def test_both_forms_say_what_a_plain_reading_says(seed: int) -> None:
    draw, world = Draw(seed), World()
    for _ in range(draw.randint(4, 10)):
        world.change("set", draw.node())
    for _ in range(draw.randint(0, 15)):
        world.change("add", draw.standing())
    askers = [draw.asker() for _ in range(3)]
    for _ in range(4):
        feasible = draw.sample(NAMES, draw.choice([1, 3, 7]))
        others = [(draw.standing(), draw.choice([1, -1])) for _ in range(draw.randint(0, 3))]
        for pod in askers:
            if len(world.table):
                _check_filter(world, pod, others)
                _check_scores(world, pod, feasible)
        for _ in range(draw.randint(0, 5)):
            world.change(*draw.change())


@pytest.mark.parametrize("limit", [1, 1024])
@examples(30)
@given(seed=seeds)
def test_kept_sums_equal_a_recount(limit: int, seed: int) -> None:
    draw, world = Draw(seed), World()
    table = world.table
    kept = Domains(table, limit_bytes=limit)
    inclusion = Inclusion(labels=(ZONE,), tolerations=())
    selectors = [compile_label_selector(draw.selector()) for _ in range(3)]
    for _ in range(30):
        # Now and then more changes than are worth replaying.
        for _ in range(draw.choice([1, 1, 2, 5, 150])):
            world.change(*draw.change())
        key = CounterKey(frozenset({"default"}), draw.choice(selectors), live=True)
        expected: dict[str, int] = {}
        by_row = kept.by_row(key)
        for row, pods in enumerate(table.pods):
            count = sum(key.matches(info.pod) for info in pods.values())
            assert by_row[row] == count
            if table.valid[row]:
                node = table.node(row)
                zone = (node.metadata.labels or {}).get(ZONE)
                is_tainted = any(taint.effect == "NoSchedule" for taint in node.spec.taints or ())
                if zone is not None and not is_tainted:
                    expected[zone] = expected.get(zone, 0) + count
        found = kept.counts(key, ZONE, inclusion)
        assert found.domain_count == len(expected)
        assert {
            value: int(found.counts[number])
            for number, value in enumerate(table.labels.values(ZONE).values)
            if found.are_domains[number]
        } == expected
        assert int(found.counts.sum()) == sum(expected.values())
