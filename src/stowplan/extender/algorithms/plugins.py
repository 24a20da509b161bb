"""`!Plugins`: a profile of Stowplan, or single plugins, as an algorithm for kube-scheduler.

    algorithm: !Plugins
      plugins: [TaintToleration, NodeAffinity]  # of Stowplan, or installed with an entry point; or
      profile: scheduler.yaml                   # a KubeSchedulerConfiguration; or its fields here
      kubeapi: !Kubeapi

With `kubeapi` the algorithm watches the cluster and decides as the scheduler would. Without it,
only the nodes of the request are known (kube-scheduler's nodeCacheCapable: false). That is enough
for plugins that read nodes and the pod; plugins that count pods see empty nodes. Invariant: an
unknown node is accepted, with score 0, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, Final

import msgspec

from stowplan.api.extender_protocol import (
    MAX_SCORE,
    ExtenderArgs,
    ExtenderFilterResult,
    HostPriority,
)
from stowplan.api.objects import Node, Pod
from stowplan.clock import SystemClock
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.config.load import load_config, parse_object
from stowplan.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from stowplan.errors import ConfigError
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.algorithms import gauges
from stowplan.extender.algorithms.apps import node_names
from stowplan.extender.algorithms.fit import UNKNOWN_NODE
from stowplan.extender.followed_cluster import FollowedCluster
from stowplan.extender.kubeapi import Kubeapi
from stowplan.extender.metrics import MetricRegistry
from stowplan.extender.reading import ReceivedArgs
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status
from stowplan.judge.configuration import default_registry
from stowplan.loader.json_text import json_decoder
from stowplan.scheduler.assembly import build_profiles
from stowplan.scheduler.cycle import judge
from stowplan.scheduler.decision import Decision

UNREADABLE_POD: Final = "unreadable_pod"
UNREADABLE_NODE: Final = "unreadable_node"
#: What a plugin's score is at most, before its weight.
_PLUGINS_BEST: Final = 100
#: Every profile has to say how pods wait and are bound, though neither happens here.
_NEEDED: Final = {"queueSort": "PrioritySort", "bind": "DefaultBinder"}
_PROFILES: Final = "profiles"


class Plugins(Algorithm):
    """The plugins' filters and weighted scores, by the profile that a pod asks for."""

    def __init__(
        self,
        profile: str | dict[str, Any] | None = None,
        plugins: list[str] | None = None,
        kubeapi: Kubeapi | None = None,
    ) -> None:
        self._cache = ClusterCache()
        self._profiles, _ = build_profiles(
            _read_config(profile, plugins),
            self._cache,
            registry=default_registry(),
            clock=SystemClock(),
            rng=Random(0),
        )
        #: To be started with the service.
        self.parts: tuple[Any, ...] = ()
        if kubeapi is not None:
            used = {p.name: p for each in self._profiles.values() for p in each.plugins.values()}
            kinds = dict.fromkeys(kind for plugin in used.values() for kind in plugin.looks_up)
            self.parts = (FollowedCluster(kubeapi.cluster_config, self._cache, list(kinds)),)
        #: Whole nodes as they were sent last, by name.
        self._sent: dict[str, Node] = {}
        self._shown = gauges.Shown()

    def __str__(self) -> str:
        return f"Plugins({', '.join(self._profiles)})"

    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        names = node_names(extender_args)
        decision = self._judge(extender_args)
        if decision is None:
            return ExtenderFilterResult(NodeNames=list(names))
        if decision.diagnosis is None:
            return ExtenderFilterResult(Error=decision.message)
        refusals = _refusals(decision.diagnosis)
        result = ExtenderFilterResult()
        for name in names:
            status = refusals.get(name) if self._is_known(name) else None
            if status is None:
                result.NodeNames.append(name)
            elif status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                result.FailedAndUnresolvableNodes[name] = ", ".join(status.reasons)
            else:
                result.FailedNodes[name] = ", ".join(status.reasons)
        return result

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        names = sorted(node_names(extender_args))
        decision = self._judge(extender_args)
        totals: dict[str, int] = {}
        if decision is not None and decision.scores is not None:
            sheet = decision.scores
            rows = [sheet.table.names[row] for row in sheet.rows.tolist()]
            totals = dict(zip(rows, sheet.totals.tolist(), strict=True))
        best = self._best_total(extender_args)
        return [
            HostPriority(name, totals.get(name, 0) * MAX_SCORE // best if best else 0)
            for name in names
        ]

    def get_metrics_registry(self) -> MetricRegistry:
        return self._shown.registry

    def _judge(self, args: ExtenderArgs) -> Decision | None:
        """None, and counted, if the pod cannot be read."""
        try:
            pod = msgspec.convert(args.Pod, Pod)
            info = compile_pod(pod)
        except (msgspec.ValidationError, ValueError, TypeError):
            self._shown.put(gauges.PODS_NOT_JUDGED, 1, reason=UNREADABLE_POD)
            return None
        if not self.parts:
            self._take_nodes(args)
        return judge(self._cache.table, info, self._profile_for(args))

    def _profile_for(self, args: ExtenderArgs) -> Profile:
        """The one that the pod asks for, else the first: kube-scheduler asks about its own pods."""
        spec = args.Pod.get("spec")
        name = spec.get("schedulerName") if isinstance(spec, Mapping) else None
        found = self._profiles.get(name) if isinstance(name, str) else None
        return found or next(iter(self._profiles.values()))

    def _best_total(self, args: ExtenderArgs) -> int:
        return _PLUGINS_BEST * sum(step.weight for step in self._profile_for(args).scores)

    def _is_known(self, name: str) -> bool:
        row = self._cache.table.row_of.get(name)
        if row is not None and self._cache.table.valid[row]:
            return True
        self._shown.put(gauges.NODES_NOT_JUDGED, 1, reason=UNKNOWN_NODE)
        return False

    def _take_nodes(self, args: ExtenderArgs) -> None:
        """The nodes of the request, and no others, are what there is."""
        sent: dict[str, Node] = {}
        for text in _texts(args):
            try:
                node = _decode_node(text)
            except (ValueError, RecursionError):
                self._shown.put(gauges.NODES_NOT_JUDGED, 1, reason=UNREADABLE_NODE)
                continue
            if self._sent.get(node.name) != node:
                self._cache.set_node(node)
            sent[node.name] = node
        for name in self._sent.keys() - sent.keys():
            self._cache.remove_node(name)
        self._sent = sent


_decode_node: Final = json_decoder(Node)


def _texts(args: ExtenderArgs) -> Iterable[bytes | msgspec.Raw]:
    """Whole nodes as JSON: as they came, if they have come over HTTP."""
    if isinstance(args, ReceivedArgs):
        return args.raw_nodes or ()
    return [msgspec.json.encode(node) for node in args.Nodes or ()]


def _refusals(diagnosis: Diagnosis) -> dict[str, Status]:
    """Why each node is refused, by name."""
    table = diagnosis.cycle.table
    if diagnosis.candidates is None:
        return dict.fromkeys(table.row_of, diagnosis.absent)
    refused = {
        name: diagnosis.absent
        for name, row in table.row_of.items()
        if not diagnosis.candidates[row]
    }
    for status, rows in diagnosis.groups():
        for row in rows.tolist():
            refused[table.names[row]] = status
    return refused


def _read_config(
    profile: str | dict[str, Any] | None, plugins: list[str] | None
) -> KubeSchedulerConfiguration:
    if (profile is None) == (plugins is None):
        raise ConfigError("it needs either profile or plugins")
    if isinstance(profile, str):
        config = load_config(profile)
    elif profile is not None:
        whole = profile if _PROFILES in profile else {_PROFILES: [profile]}
        config = parse_object({"apiVersion": API_VERSION, "kind": KIND} | whole)
    else:
        enabled = {
            "multiPoint": {
                "enabled": [{"name": name} for name in plugins or ()],
                "disabled": [{"name": "*"}],
            }
        }
        needed = {point: {"enabled": [{"name": name}]} for point, name in _NEEDED.items()}
        whole = {_PROFILES: [{"plugins": enabled | needed}]}
        config = parse_object({"apiVersion": API_VERSION, "kind": KIND} | whole)
    if config.extenders:
        raise ConfigError("extenders: an extender does not ask others; remove them")
    return config
