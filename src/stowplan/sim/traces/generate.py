"""Synthetic traces: a description and a seed in, always the same trace out.

Called by `load_trace` and by users who build a description in Python. What must stay true: the
same description gives the same bytes on any machine, under any hash seed, and on each iteration;
pods are made one at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from stowplan.sim.traces.arrivals import moments
from stowplan.sim.traces.description import Application, Description, Neighbours, read_description
from stowplan.sim.traces.dice import Dice
from stowplan.sim.traces.disruptions import DisruptionSchedule
from stowplan.sim.traces.distributions import constant, heaps_of
from stowplan.sim.traces.manifests import (
    HOSTNAME,
    STANDING_NAMESPACES,
    ZONE,
    arrival,
    container,
    namespace,
    node,
    priority_class,
    requests,
)
from stowplan.sim.traces.model import Arrival, Event, Json, Trace

_TOPOLOGIES = {"node": HOSTNAME, "zone": ZONE}
#: Cached specs, for pods of the same application and requests.
_KEPT = 4_096


def generate(
    description: Mapping[str, Any], *, file: Path | None = None, seed: int | None = None
) -> Trace:
    """The trace that a mapping as under `generate:` describes (docs/traces.md).

    `file` is named in mistakes; `seed` goes before the description's own.
    """
    read = read_description(description, file or Path("description"))
    chosen = read.seed if seed is None else seed
    made = _Synthesis(read, chosen)
    source = f"{file or 'generated'} (seed {chosen})"
    return Trace(
        sources=(source,),
        make_objects=made.objects,
        make_events=made.events,
        pods=read.arrivals.count + sum(each.initial for each in read.applications),
        nodes=sum(pool.count for pool in read.pools),
        listed=read.disruptions,
        is_seeded=True,
    )


class _Synthesis:
    """One description with its seed; every walk rolls dice of its own."""

    def __init__(self, description: Description, seed: int) -> None:
        self._description = description
        self._seed = seed

    def objects(self) -> Iterator[Json]:
        applications = self._description.applications
        for name in sorted({each.namespace for each in applications} - STANDING_NAMESPACES):
            yield namespace(name)
        for each in self._description.priority_classes:
            yield priority_class(each.name, each.value, preempts=each.preempts)
        for pool in self._description.pools:
            for index in range(pool.count):
                yield node(
                    f"{pool.name}-{index}",
                    pool.offers,
                    labels=pool.labels,
                    zone=pool.zones[index % len(pool.zones)] if pool.zones else "",
                    taints=pool.taints,
                )

    def events(self) -> Iterator[Event]:
        """Pods and troubles together, with those disruptions that the description lists."""
        if not self._description.disruptions:
            return self._happening()
        listed = (disruption for disruption, _ in self._description.disruptions)
        return heapq.merge(listed, self._happening(), key=lambda event: event.at)

    def _happening(self) -> Iterator[Event]:
        troubles = DisruptionSchedule(self._description.pools, self._seed)
        if not troubles:
            yield from self._pods()
            return
        for pod in self._pods():
            yield from troubles.until(round(pod.at * 1000))
            yield pod
        yield from troubles.until(self._description.until_ms)
        yield from troubles.ending()

    def _pods(self) -> Iterator[Arrival]:
        grain = self._description.resolution_ms
        makers = [_Maker(each, self._seed, grain) for each in self._description.applications]
        for maker in makers:
            for _ in range(maker.application.initial):
                yield maker.next_pod(0)
        left = self._description.arrivals.count
        heaps = heaps_of([maker.application.weight for maker in makers])
        if not left or heaps is None:
            return
        choosing = Dice(self._seed, "applications")
        counting = Dice(self._seed, "replicas")
        for at_ms in moments(self._description.arrivals, Dice(self._seed, "arrivals")):
            maker = makers[choosing.weighted(heaps)]
            at_ms -= at_ms % grain
            # At least one, or a description could go on without end.
            for _ in range(min(max(maker.draw_replicas(counting), 1), left)):
                yield maker.next_pod(at_ms)
                left -= 1
            if not left:
                return


class _Maker:
    """Pods of one application, numbered."""

    def __init__(self, application: Application, seed: int, resolution_ms: int) -> None:
        self.application = application
        self._resolution_ms = resolution_ms
        self.draw_replicas = application.replicas.draw
        amounts = (application.cpu, application.memory, application.gpu)
        self._draws = [constant(0).draw if amount is None else amount.draw for amount in amounts]
        self._amounts = Dice(seed, f"requests of {application.name}")
        self._durations = Dice(seed, f"durations of {application.name}")
        self._labels = {"app": application.name, **application.labels}
        self._fixed = _fixed_spec(application)
        self._spec = lru_cache(maxsize=_KEPT)(self._make_spec)
        self._made = 0

    def next_pod(self, at_ms: int) -> Arrival:
        application, dice = self.application, self._amounts
        spec = self._spec(*[draw(dice) for draw in self._draws])
        run_s = None
        if application.duration is not None:
            run_ms = application.duration.draw(self._durations)
            run_s = (run_ms + -run_ms % self._resolution_ms) / 1000
        name = f"{application.name}-{self._made}"
        self._made += 1
        return arrival(at_ms / 1000, name, application.namespace, self._labels, spec, run_s)

    def _make_spec(self, cpu_milli: int, memory_bytes: int, gpus: int) -> Json:
        made = container(requests(cpu_milli, memory_bytes, gpus))
        return {"containers": [made], **self._fixed}


def _fixed_spec(application: Application) -> Json:
    """All of the spec but its container; what the description's `spec` says goes before."""
    spec: Json = {"restartPolicy": "Always" if application.duration is None else "Never"}
    if application.priority_class:
        spec["priorityClassName"] = application.priority_class
    if application.node_selector:
        spec["nodeSelector"] = dict(application.node_selector)
    if application.tolerations:
        spec["tolerations"] = list(application.tolerations)
    selector = {"matchLabels": {"app": application.name}}
    if application.spread is not None:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": application.spread.max_skew,
                "topologyKey": _topology(application.spread),
                "whenUnsatisfiable": "DoNotSchedule"
                if application.spread.hard
                else "ScheduleAnyway",
                "labelSelector": selector,
            }
        ]
    affinity = {}
    if application.together is not None:
        affinity["podAffinity"] = _affinity(application.together, selector)
    if application.apart is not None:
        affinity["podAntiAffinity"] = _affinity(application.apart, selector)
    if affinity:
        spec["affinity"] = affinity
    return spec | application.spec


def _affinity(neighbours: Neighbours, selector: Json) -> Json:
    term = {"topologyKey": _topology(neighbours), "labelSelector": selector}
    if neighbours.hard:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    preferred = {"weight": 100, "podAffinityTerm": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}


def _topology(neighbours: Neighbours) -> str:
    return _TOPOLOGIES.get(neighbours.by, neighbours.by)
