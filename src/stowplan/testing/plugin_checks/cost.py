"""Cost at 5,000 nodes, counted and not timed: function calls, and lines of the plugin's own code.

The limits are multiples of what Stowplan's own plugins do on the same cluster: those of the
costliest in-tree column for column forms, and of the costliest in-tree per-node form at one node
for per-node forms. Small clusters come first, so that a plugin of quadratic cost fails before it
takes minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

from msgspec.structs import replace

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.columns import ColumnCache
from stowplan.framework.plugin import Plugin, points_of
from stowplan.framework.profile import Profile
from stowplan.plugins.inter_pod_affinity import InterPodAffinity
from stowplan.plugins.node_affinity import NodeAffinity
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.plugins.pod_topology_spread import PodTopologySpread
from stowplan.plugins.taint_toleration import TaintToleration
from stowplan.scheduler.cycle import decide
from stowplan.testing.builders import HOSTNAME_LABEL
from stowplan.testing.builders import node as make_node
from stowplan.testing.builders import pod as make_pod
from stowplan.testing.plugin_checks.subject import CaseCluster, CheckFailed, Subject
from stowplan.testing.plugin_checks.vocabulary import Words

NODES = 5_000
_SMALL, _LARGER = 100, 400
#: Work may grow so much faster than the number of nodes: what is done once a pod is in it, too.
_SLACK = 1.5
#: So many times an in-tree plugin's work is still fine.
_TIMES = 10
_PLAIN = (NodeResourcesFit, TaintToleration, NodeAffinity)
_COSTLY = (*_PLAIN, PodTopologySpread, InterPodAffinity)


class _Enough(BaseException):
    """The budget is spent; not an Exception, as those are taken for the plugin's."""


@dataclass
class _Meter:
    """Counts work until the budget is spent."""

    files: frozenset[str]
    budget: float = float("inf")
    work: int = 0

    def count(self, question: Callable[[], Any]) -> int:
        profiler, tracer = sys.getprofile(), sys.gettrace()
        sys.setprofile(self._on_call)
        sys.settrace(self._on_frame)
        try:
            question()
        finally:
            sys.settrace(tracer)
            sys.setprofile(profiler)
        return self.work

    def _add(self) -> None:
        self.work += 1
        if self.work > self.budget:
            raise _Enough

    def _on_call(self, _frame: FrameType, event: str, _argument: Any) -> None:
        if event in ("call", "c_call"):
            self._add()

    def _on_frame(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        """Lines count too, but only the plugin's: a loop that calls nothing is work as well."""
        return self._on_line if frame.f_code.co_filename in self.files else None

    def _on_line(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._add()
        return self._on_line


def check_cost(subject: Subject) -> None:
    """A decision at 5,000 nodes is no more than some times an in-tree plugin's work."""
    plugin = subject.plugin
    is_columnar = _is_columnar(plugin)
    small, larger = (_work(subject, count) for count in (_SMALL, _LARGER))
    if larger > _SLACK * small * _LARGER / _SMALL:
        raise CheckFailed(
            f"{subject.name} does {small:,} calls and lines for a pod on {_SMALL} nodes and"
            f" {larger:,} on {_LARGER}: {larger / small:.0f} times the work for"
            f" {_LARGER // _SMALL} times the nodes.",
            "do not look at all nodes (or all pods) for each node. What is the same for all of"
            " them is computed once, in pre_filter or pre_score, and left in the cycle.",
        )
    budget = _columns_budget() if is_columnar else _rows_budget() * NODES
    spent = _work(subject, NODES, budget)
    if spent > budget:
        measure = "columns" if is_columnar else f"{budget // NODES} a node"
        raise CheckFailed(
            f"{subject.name} does more than {budget:,} calls and lines for one pod on {NODES:,}"
            f" nodes, which is {_TIMES} times what the costliest in-tree plugin does ({measure}).",
            "write the column with numpy, without a loop over rows."
            if is_columnar
            else "do less for each node, or write filter_columns and score_columns.",
        )


def _is_columnar(plugin: type[Plugin]) -> bool:
    """Whether nothing is asked node by node."""
    rows = [name for name in ("filter", "score") if hasattr(plugin, name)]
    return all(hasattr(plugin, f"{name}_columns") for name in rows)


def _work(subject: Subject, count: int, budget: float = float("inf")) -> int:
    cluster = CaseCluster()
    plugin = subject.make(cluster)
    _fill(cluster, count, subject.words)
    module = sys.modules.get(subject.plugin.__module__)
    meter = _Meter(frozenset({getattr(module, "__file__", "") or ""}), budget)
    points = {point: [(plugin, 1)] for point in points_of(subject.plugin)}
    # No column cache: the cost to rebuild a column is what counts.
    profile = Profile("default-scheduler", points, columns=ColumnCache(limit_bytes=0))
    asking = compile_pod(_asking_pod(subject.words))
    return _measured(lambda: decide(cluster.table, asking, profile), meter)


def _measured(question: Callable[[], Any], meter: _Meter) -> int:
    try:
        # Once before: indexes of the table are made when they are first asked for.
        question()
        return meter.count(question)
    except _Enough:
        return meter.work
    except Exception:
        return meter.work  # check_answers and check_dtypes tell


@cache
def _columns_budget() -> int:
    return _TIMES * max(_work(Subject(plugin), NODES) for plugin in _COSTLY)


@cache
def _rows_budget() -> int:
    """Calls and lines a node."""
    return _TIMES * max(_work(Subject(_without_columns(plugin)), 200) for plugin in _PLAIN) // 200


def _without_columns(plugin: type[Plugin]) -> type[Plugin]:
    """A copy that is asked node by node."""
    hidden = {name: None for name in ("filter_columns", "score_columns") if hasattr(plugin, name)}
    return type(plugin.__name__, (plugin,), {**hidden, "__module__": plugin.__module__})


def _fill(cluster: CaseCluster, count: int, words: Words) -> None:
    """Nodes that all take the pod, with a pod on each, so that nothing ends early."""
    labels = _labels(words)
    zones = [make_node("n", cpu=32, memory="128Gi", zone=f"z{n}", labels=labels) for n in range(3)]
    pod = make_pod("standing", node="n", labels=labels)
    for index in range(count):
        name, pattern = f"node-{index}", zones[index % 3]
        own = {**(pattern.metadata.labels or {}), HOSTNAME_LABEL: name}
        cluster.cache.set_node(
            replace(pattern, metadata=replace(pattern.metadata, name=name, uid=name, labels=own))
        )
        metadata = replace(pod.metadata, name=f"standing-{index}", uid=f"standing-{index}")
        cluster.cache.add_pod(
            replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=name))
        )


def _asking_pod(words: Words) -> Pod:
    return make_pod("asking", labels=_labels(words))


def _labels(words: Words) -> dict[str, str]:
    """The plugin's words as keys, with the values that its code names."""
    return {word: words.after[word][0] for word in words.all if word in words.after}
