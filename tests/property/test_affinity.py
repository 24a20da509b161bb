"""Affinity between pods: the table's index against a recount, the plugin against upstream's maps.

The reference below walks over all pods, as kube-scheduler does; it shares no code with the plugin
but the matching of one selector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import Namespace, Node, Pod, PodAffinity, PodAffinityTerm
from stowplan.api.resources import NAMESPACES
from stowplan.api.selectors import compile_label_selector
from stowplan.cluster import domain_sums
from stowplan.cluster.affinity_terms import TermFamily, TermGroup
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.domain_sums import add_domain_sums
from stowplan.cluster.pod_affinity import AffinityTerm, pod_terms
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.row_counts import RowCounts
from stowplan.cluster.table import Int64Array, NodeTable
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.handle import Handle
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import SUCCESS
from stowplan.plugins.inter_pod_affinity import InterPodAffinity
from tests.examples import examples
from tests.property.affinity_clusters import (
    NODE_NAMES,
    TOPOLOGY_KEYS,
    namespaces,
    nodes,
    pods,
)
from tests.property.clusters import change_cache

REASONS = {
    "affinity": "node(s) didn't match pod affinity rules",
    "anti": "node(s) didn't match pod anti-affinity rules",
    "existing": "node(s) didn't satisfy existing pods anti-affinity rules",
}
_changes = st.one_of(
    nodes().map(lambda node: ("set", node)),
    st.sampled_from(NODE_NAMES).map(lambda name: ("remove", name)),
    pods(standing=True).map(lambda pod: ("add", pod)),
    pods(standing=True).map(lambda pod: ("add", pod)),
    # One pod that moves, or changes in place: labels, terms and all.
    pods(standing=True, uid="same").map(lambda pod: ("add", pod)),
    st.integers(0, 10).map(lambda place: ("delete", place)),
)
_histories = st.lists(_changes, min_size=1, max_size=25)


def _grown(history: Iterable[tuple[str, Any]]) -> ClusterCache:
    cache = ClusterCache()
    # Small, so that it grows and rows are used again.
    cache.table = NodeTable(capacity=2)
    for action, what in history:
        change_cache(cache, action, what)
    return cache


# The index


def _recount(table: NodeTable, kind: str) -> dict[tuple[AffinityTerm, int], dict[int, int]]:
    found: dict[tuple[AffinityTerm, int], Counter[int]] = {}
    for row, standing in enumerate(table.pods):
        for info in standing.values():
            for carried in getattr(pod_terms(info.pod), kind):
                weight, term = carried if kind == "preferred" else (1, carried)
                found.setdefault((term, weight), Counter())[row] += 1
    return {key: dict(counts) for key, counts in found.items()}


def _speaking_of(family: TermFamily, pod: Pod, labels: dict[str, str] | None) -> list[TermGroup]:
    return [group for group in family if group.term.matches(pod, labels)]


def _weights(table: NodeTable, groups: list[TermGroup]) -> dict[str, dict[str, int]]:
    """Topology key -> label value -> weights, by walking over nodes and groups."""
    sums: dict[str, Counter[str]] = {}
    for group in groups:
        key = group.term.topology_key
        for row, count in group.counts.items():
            node = table.nodes[row]
            labels = (node.metadata.labels if node is not None else None) or {}
            if key in labels:
                sums.setdefault(key, Counter())[labels[key]] += group.weight * count
    return {key: {v: w for v, w in by_value.items() if w} for key, by_value in sums.items()}


def _by_value(table: NodeTable, weights: dict[str, Int64Array]) -> dict[str, dict[str, int]]:
    found = {}
    for key, sums in weights.items():
        values = table.labels.values(key).values
        *by_id, absent = sums.tolist()
        assert absent == 0
        found[key] = {v: w for v, w in zip(values, by_id, strict=True) if w}
    return found


@examples(150)
@given(
    history=_histories,
    asker=pods(),
    namespace_labels=st.dictionaries(st.sampled_from(["app", "tier"]), st.just("a")),
)
def test_index_equals_a_recount(
    history: list[tuple[str, Any]], asker: Pod, namespace_labels: dict[str, str]
) -> None:
    cache = _grown([])
    index = cache.table.affinity_terms
    for action, what in history:
        change_cache(cache, action, what)
        for kind in ("required", "required_anti", "preferred"):
            family: TermFamily = getattr(index, kind)
            expected = _recount(cache.table, kind)
            assert {(group.term, group.weight): group.counts for group in family} == expected
            assert all(group.total == sum(group.counts.values()) for group in family)
            found = family.about(asker, namespace_labels)
            expected_groups = _speaking_of(family, asker, namespace_labels)
            assert set(found.groups) == set(expected_groups)
            assert _by_value(cache.table, found.weights) == _weights(cache.table, expected_groups)
    for uid in list(cache.placements()):
        cache.remove_pod(uid)
    for family in (index.required, index.required_anti, index.preferred):
        assert not len(family)
        assert not family._files, "whatever was filed is taken out again"


@examples(150)
@given(
    history=_histories,
    few=st.sampled_from([0, 1, 48]),
    weight=st.sampled_from([1, -3]),
    counted=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=5, max_size=20),
)
def test_domain_sums_equal_a_recount(
    history: list[tuple[str, Any]], few: int, weight: int, counted: list[tuple[int, int]]
) -> None:
    cache = _grown([])
    table = cache.table
    source = RowCounts()
    with (
        mock.patch.object(domain_sums, "FEW_ROWS", few),
        mock.patch.object(RowCounts, "_LOG_LIMIT", 2),
    ):
        for turn, (action, what) in enumerate(history):
            change_cache(cache, action, what)
            for row, count in counted[turn * 2 : turn * 2 + 2]:
                change = count - source.counts.get(row, 0)
                if change and row < table.capacity:
                    source.change(row, change)
            for key in TOPOLOGY_KEYS[turn % 2 :]:
                fives = np.full(len(table.labels.values(key)) + 1, 5, np.int64)
                fives[-1] = 0
                into: dict[str, Int64Array] = {}
                beside = {key: fives}
                add_domain_sums(table, source, key, into, weight)
                add_domain_sums(table, source, key, beside, weight)
                expected: Counter[str] = Counter()
                for row, count in source.counts.items():
                    if row < len(table.nodes) and (node := table.nodes[row]) is not None:
                        labels = node.metadata.labels or {}
                        if key in labels:
                            expected[labels[key]] += count
                values = table.labels.values(key).values
                found = [weight * expected[value] for value in values] + [0]
                assert beside[key].tolist() == [5 + each for each in found[:-1]] + [0]
                assert {key: each.tolist() for key, each in into.items()} == (
                    {key: found} if expected else {}
                )


# The plugin


class Reference:
    """Upstream's PreFilter, Filter, PreScore and Score, pod by pod."""

    def __init__(self, world: list[tuple[Node, list[Pod]]], known: list[Namespace], pod: Pod):
        self.world = world
        self.known = {space.metadata.name: space.metadata.labels for space in known}
        self.pod = pod

    def speaks_of(self, term: PodAffinityTerm, owner: Pod, other: Pod) -> bool:
        """Whether a term matches a pod; for the incoming pod's own terms, upstream looks up names
        of namespaces first and then compares with no labels at all."""
        selector = compile_label_selector(term.namespace_selector)
        names = set(term.namespaces or ())
        if not names and term.namespace_selector is None:
            names = {owner.metadata.namespace}
        if owner is self.pod:
            names |= {name for name, labels in self.known.items() if selector.matches(labels)}
            labels = None
        else:
            labels = self.known.get(other.metadata.namespace)
        return (other.metadata.namespace in names or selector.matches(labels)) and (
            compile_label_selector(term.label_selector).matches(other.metadata.labels)
        )

    def maps(self) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
        affinity: Counter[Any] = Counter()
        anti: Counter[Any] = Counter()
        existing: Counter[Any] = Counter()
        near, far = _required(self.pod)
        for node, standing in self.world:
            labels = node.metadata.labels or {}
            for other in standing:
                for term in _required(other)[1]:
                    if self.speaks_of(term, other, self.pod):
                        _count(existing, labels, term)
                if near and all(self.speaks_of(term, self.pod, other) for term in near):
                    for term in near:
                        _count(affinity, labels, term)
                for term in far:
                    if self.speaks_of(term, self.pod, other):
                        _count(anti, labels, term)
        return affinity, anti, existing

    @property
    def skips_filter(self) -> bool:
        return not any(_required(self.pod)) and not self.maps()[2]

    def verdict(self, node: Node) -> str:
        affinity, anti, existing = self.maps()
        labels = node.metadata.labels or {}
        near, far = _required(self.pod)
        if any(term.topology_key not in labels for term in near):
            return REASONS["affinity"]
        is_own = bool(near) and all(self.speaks_of(term, self.pod, self.pod) for term in near)
        for term in near:
            found = affinity[term.topology_key, labels[term.topology_key]]
            if not found and not (is_own and not affinity):
                return REASONS["affinity"]
        if any(anti[term.topology_key, labels.get(term.topology_key)] for term in far):
            return REASONS["anti"]
        if any(existing[pair] for pair in labels.items()):
            return REASONS["existing"]
        return ""

    def weights(self, hard: int, *, ignore: bool) -> dict[Any, int]:
        weights: dict[Any, int] = {}

        def add(term: PodAffinityTerm, owner: Pod, about: Pod, weight: int) -> None:
            value = labels.get(term.topology_key)
            if value is not None and self.speaks_of(term, owner, about):
                pair = (term.topology_key, value)
                weights[pair] = weights.get(pair, 0) + weight

        own = _preferred(self.pod)
        for node, standing in self.world if own or not ignore else ():
            labels = node.metadata.labels or {}
            for other in standing:
                for weight, term in own:
                    add(term, self.pod, other, weight)
                for term in _required(other)[0] if hard else ():
                    add(term, other, self.pod, hard)
                for weight, term in _preferred(other):
                    add(term, other, self.pod, weight)
        return weights


def _wishes(pod: Pod) -> tuple[PodAffinity, PodAffinity]:
    affinity = pod.spec.affinity
    if affinity is None:
        return PodAffinity(), PodAffinity()
    return affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()


def _required(pod: Pod) -> tuple[Sequence[PodAffinityTerm], Sequence[PodAffinityTerm]]:
    near, far = _wishes(pod)
    return near.required or (), far.required or ()


def _preferred(pod: Pod) -> list[tuple[int, PodAffinityTerm]]:
    near, far = _wishes(pod)
    return [
        *((wish.weight, wish.pod_affinity_term) for wish in near.preferred or ()),
        *((-wish.weight, wish.pod_affinity_term) for wish in far.preferred or ()),
    ]


def _count(counts: Counter[Any], labels: dict[str, str], term: PodAffinityTerm) -> None:
    if term.topology_key in labels:
        counts[term.topology_key, labels[term.topology_key]] += 1


def _world(table: NodeTable) -> list[tuple[Node, list[Pod]]]:
    return [
        (table.node(row), [info.pod for info in table.pods[row].values()])
        for row in table.live_rows.tolist()
    ]


def _plugin(cache: ClusterCache, known: list[Namespace], **args: Any) -> InterPodAffinity:
    for namespace in known:
        cache.catalog[NAMESPACES].set(namespace)
    handle = Handle(table=cache.table, catalog=cache.catalog)
    plugin = make_plugin(InterPodAffinity, args, handle)
    assert isinstance(plugin, InterPodAffinity)
    return plugin


@examples(300)
@given(
    placed=st.lists(nodes(), min_size=1, max_size=4),
    history=_histories,
    known=namespaces,
    asker=pods(),
    few=st.sampled_from([0, 48]),
    chosen=st.sets(st.sampled_from(NODE_NAMES)),
)
def test_filter_says_what_upstreams_maps_say(
    placed: list[Node],
    history: list[tuple[str, Any]],
    known: list[Namespace],
    asker: Pod,
    few: int,
    chosen: set[str],
) -> None:
    cache = _grown([*(("set", node) for node in placed), *history])
    table = cache.table
    plugin = _plugin(cache, known)
    step = FilterStep(plugin)
    reference = Reference(_world(table), known, asker)
    cycle = Cycle(table, compile_pod(asker))
    with mock.patch.object(domain_sums, "FEW_ROWS", few):
        skips = plugin.pre_filter(cycle) is not None
    assert skips == reference.skips_filter
    if skips:
        return
    whole = np.full(table.capacity, -1, np.int32)
    step.fill(cycle, slice(None), whole)
    some = np.array([row for n in chosen if (row := table.live_row(n)) is not None], np.intp)
    partly = np.full(table.capacity, -1, np.int32)
    step.fill(cycle, some, partly)
    assert partly[some].tolist() == whole[some].tolist()
    for row in table.live_rows.tolist():
        expected = reference.verdict(table.node(row))
        status = step.status(cycle, int(whole[row])) if whole[row] else SUCCESS
        assert status.message == expected
        assert step.status_of_row(cycle, row) == status


@examples(200)
@given(
    placed=st.lists(nodes(), min_size=1, max_size=4),
    history=_histories,
    known=namespaces,
    asker=pods(),
    coming=st.lists(pods(standing=True), max_size=3),
    every_second_goes=st.booleans(),
)
def test_what_if_pods_count_around_their_own_node(
    placed: list[Node],
    history: list[tuple[str, Any]],
    known: list[Namespace],
    asker: Pod,
    coming: list[Pod],
    every_second_goes: bool,
) -> None:
    cache = _grown([*(("set", node) for node in placed), *history])
    table = cache.table
    plugin = _plugin(cache, known)
    cycle = Cycle(table, compile_pod(asker))
    if plugin.pre_filter(cycle) is not None:
        return
    added: dict[int, list[PodInfo]] = {}
    for pod in coming:
        row = table.live_row(pod.spec.node_name)
        if row is not None:
            added.setdefault(row, []).append(compile_pod(pod))
    removed = {
        row: list(table.pods[row].values())[::2]
        for row in table.live_rows.tolist()
        if every_second_goes and table.pods[row]
    }
    overlay = Overlay(table, added, removed)
    column = np.full(table.capacity, -1, np.int32)
    plugin.filter_columns(cycle, table.live_rows, column, overlay)
    step = FilterStep(plugin)
    for row in table.live_rows.tolist():
        world = _world(table)
        place = table.live_rows.tolist().index(row)
        # A row sees only its own changes.
        world[place] = (table.node(row), NodeView(table, row, overlay).pods)
        status = step.status_of_row(cycle.clone(), row, overlay)
        assert status.message == Reference(world, known, asker).verdict(table.node(row))
        verdict = int(column[row])
        assert (step.status(cycle, verdict) if verdict else SUCCESS) == status


@examples(300)
@given(
    placed=st.lists(nodes(), min_size=1, max_size=4),
    history=_histories,
    known=namespaces,
    asker=pods(),
    few=st.sampled_from([0, 48]),
    hard=st.sampled_from([0, 1, 100]),
    ignore=st.booleans(),
)
def test_score_adds_up_what_upstreams_maps_do(
    placed: list[Node],
    history: list[tuple[str, Any]],
    known: list[Namespace],
    asker: Pod,
    few: int,
    hard: int,
    ignore: bool,
) -> None:
    cache = _grown([*(("set", node) for node in placed), *history])
    table = cache.table
    rows = table.live_rows
    plugin = _plugin(
        cache, known, hardPodAffinityWeight=hard, ignorePreferredTermsOfExistingPods=ignore
    )
    step = ScoreStep(plugin, 1)
    weights = Reference(_world(table), known, asker).weights(hard, ignore=ignore)
    cycle = Cycle(table, compile_pod(asker))
    with mock.patch.object(domain_sums, "FEW_ROWS", few):
        skips = plugin.pre_score(cycle, rows) is not None
    # Weights that cancel each other out are there nevertheless.
    assert skips == (not weights)
    if skips or not len(rows):
        return
    raw = np.full(table.capacity, -1, np.int64)
    step.fill(cycle, slice(None), raw)
    expected = [
        sum(weights.get(pair, 0) for pair in (table.node(row).metadata.labels or {}).items())
        for row in rows.tolist()
    ]
    assert raw[rows].tolist() == expected
    assert [step.score_of_row(cycle, row) for row in rows.tolist()] == expected
    lowest, spread = min(expected), max(expected) - min(expected)
    assert step.finish(cycle, raw[rows]).tolist() == [
        int(100.0 * (float(score - lowest) / float(spread))) if spread else 0 for score in expected
    ]
