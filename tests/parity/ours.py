"""Our plugins' answers to a question, in the form in which the oracle gives its own.

Every plugin is asked in each of its forms by itself; `decide` then runs the real cycle.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, TypeAlias

import msgspec
import numpy as np

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import CATALOGED
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.config.load import parse_config
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import SUCCESS, Status
from stowplan.plugins.registry import in_tree_registry
from stowplan.queue.nominator import Nominator
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.cycle import decide

Json: TypeAlias = dict[str, Any]

COLUMNS = "columns"
PER_NODE = "per node"
_REGISTRY = in_tree_registry()
_CATALOGED = {resource.kind: resource for resource in CATALOGED}


class World:
    """A question, read by us."""

    def __init__(self, case: Json) -> None:
        config = case["config"]
        self.config = parse_config(config if isinstance(config, str) else json.dumps(config))
        self.engine = build_engine(self.config, registry=_REGISTRY, rng=Random(1))
        self.cache: ClusterCache = self.engine.cache
        for node in case["nodes"]:
            self.cache.set_node(_read(node, Node))
        for pod in (_read(pod, Pod) for pod in case["pods"]):
            # The informer of pods does not ask for those that are over.
            if not pod.is_finished:
                self.cache.add_pod(pod)
        for thing in case["objects"]:
            resource = _CATALOGED[thing["kind"]]
            self.cache.catalog[resource].set(_read(thing, resource.type))
        self.nominated = Nominator()
        for pod in (_read(pod, Pod) for pod in case["nominated"]):
            # Pods of other schedulers are in no queue of ours, and promised nothing.
            if self.engine.serves(pod):
                self.nominated.add(pod)
        self.info: PodInfo = compile_pod(_read(case["pod"], Pod))
        table = self.cache.table
        self.rows = np.array(table.order, np.intp)
        self.order = [table.names[row] for row in self.rows]
        (self.profile,) = self.engine.profiles.values()

    def plugin(self, name: str, method: str, form: str) -> Plugin | None:
        """The plugin with only one form of `filter` or `score`; None if it does not have it."""
        kind = _REGISTRY.get(name)
        wanted, other = f"{method}_columns", method
        if form == PER_NODE:
            wanted, other = other, wanted
        if not hasattr(kind, wanted):
            return None
        args = self.config.profiles[0].plugin_args(name)
        handle = Handle(table=self.cache.table, catalog=self.cache.catalog)
        return make_plugin(type(kind.__name__, (kind,), {other: None}), args, handle)

    def filter(self, name: str, form: str) -> Json | None:
        """Verdicts of one plugin on every node; None if it has no such form."""
        plugin = self.plugin(name, "filter", form)
        if plugin is None:
            return None
        cycle = Cycle(self.cache.table, self.info)
        answer = _pre_filter(plugin, cycle)
        if answer.get("prefilter", {}).get("code", "Success") != "Success":
            return answer
        step = FilterStep(plugin)
        if form == COLUMNS:
            verdicts = np.zeros(self.cache.table.capacity, np.int32)
            step.fill(cycle, slice(None), verdicts)
            ids = verdicts[self.rows].tolist()
            statuses = [step.status(cycle, number) if number else SUCCESS for number in ids]
        else:
            statuses = [step.status_of_row(cycle, row) for row in self.rows.tolist()]
        pairs = zip(self.order, map(_verdict, statuses), strict=True)
        return {**answer, "nodes": dict(pairs)}

    def score(self, name: str, form: str) -> Json | None:
        """Scores of one plugin, as if every node were feasible; None if it has no such form."""
        plugin: Any = self.plugin(name, "score", form)
        if plugin is None:
            return None
        cycle = Cycle(self.cache.table, self.info)
        _pre_filter(plugin, cycle)
        (step,) = [step for step in self.profile.scores if step.name == name]
        answer: Json = {"weight": step.weight}
        if hasattr(plugin, "pre_score"):
            answer["prescore"] = _verdict(plugin.pre_score(cycle, self.rows))
            if answer["prescore"]["code"] != "Success":
                return answer
        alone = ScoreStep(plugin, step.weight)
        raw = np.zeros(self.cache.table.capacity, np.int64)
        alone.fill(cycle, slice(None) if form == COLUMNS else self.rows, raw)
        answer["raw"] = dict(zip(self.order, raw[self.rows].tolist(), strict=True))
        normal = alone.finish(cycle, raw[self.rows])
        answer["normalized"] = dict(zip(self.order, normal.tolist(), strict=True))
        return answer

    def decide(self) -> Json:
        """What the cycle makes of it all."""
        decision = decide(self.cache.table, self.info, self.profile, nominated=self.nominated)
        outcome: Json = {
            "node": decision.node or "",
            "feasible": decision.feasible_nodes,
            "plugins": sorted(decision.unschedulable_plugins),
        }
        if decision.node:
            outcome["evaluated"] = decision.evaluated_nodes
        else:
            outcome["message"] = decision.message
        if decision.scores is not None:
            sheet = decision.scores
            names = [sheet.table.names[row] for row in sheet.rows]
            outcome["totals"] = dict(zip(names, sheet.totals.tolist(), strict=True))
        return outcome


def _read(raw: Json, kind: Any) -> Any:
    return msgspec.convert(raw, kind)


def _pre_filter(plugin: Any, cycle: Cycle) -> Json:
    if not hasattr(plugin, "pre_filter"):
        return {}
    answer = plugin.pre_filter(cycle)
    if isinstance(answer, PreFilterResult):
        said: Json = {"prefilter": _verdict(None)}
        if answer.nodes is not None:
            said["only"] = sorted(answer.nodes)
        return said
    return {"prefilter": _verdict(answer)}


def _verdict(status: Status | None) -> Json:
    status = status or SUCCESS
    said: Json = {"code": status.code.label}
    if status.reasons:
        said["reasons"] = list(status.reasons)
    return said
