"""What must be true after a run, read from the API server's history and from the schedulers.

The history is checked from the objects alone, without the scheduler's cache, columns or plugins:
by `stowplan.audit`, as in an audit of etcd, and bind by bind with what the scheduler had seen. A
node that shrank a moment ago may still get a pod, a node whose change it has seen may not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from stowplan.api.quantity import milli_value
from stowplan.apiserver.history import Change
from stowplan.apiserver.kinds import EVENTS, NODES, PODS
from stowplan.apiserver.store import Store
from stowplan.audit.etcd import Revision
from stowplan.audit.findings import Options
from stowplan.audit.history import audit_history
from stowplan.scheduler.process import SchedulerProcess
from stowplan.scheduler.simulator_results import SELECTED_NODE
from stowplan.sim.faults.network import Network
from stowplan.sim.faults.replica import Decided, Replica

Json = dict[str, Any]

_OURS, _OTHER = "default-scheduler", "other"
#: A scheduler whose watch fell silent may not know of changes for so long.
#: A bind that was never answered may have no event if its pod is deleted meanwhile: events are
#: checked at the end.
_AUDIT = Options(in_flight_s=100.0, ignore=frozenset(("no-event",)), schedulers=frozenset((_OURS,)))


# The history


def check_history(changes: list[Change], decided: list[Decided], foreign: set[str]) -> list[str]:
    """Double binds, overcommitted nodes and violated constraints, at every bind.

    `foreign` are the UIDs of pods that others have bound.
    """
    return [*_audit(changes, foreign), *_check_binds(changes, decided, foreign)]


def _audit(changes: Iterable[Change], foreign: set[str]) -> Iterator[str]:
    report = audit_history((_revision(each, foreign) for each in changes), options=_AUDIT)
    for found in report.findings:
        yield f"audit: {found.kind}: {found.pod} on {found.node or 'no node'}: {found.message}"


def _revision(change: Change, foreign: set[str]) -> Revision:
    (namespace, name), obj = change.record.key, change.record.object
    encoded = change.record.encoded
    if obj["metadata"]["uid"] in foreign:
        # The audit tells the pods of schedulers by this name.
        encoded = msgspec.json.encode({**obj, "spec": {**obj["spec"], "schedulerName": _OTHER}})
    raw = None if change.type == "DELETED" else msgspec.Raw(encoded)
    return Revision(change.version, obj["kind"], namespace, name, raw)


def _check_binds(changes: Iterable[Change], decided: list[Decided], foreign: set[str]) -> list[str]:
    nodes = _Nodes()
    pods: dict[str, Json] = {}
    #: Of the binds by others: the version that each is in.
    arrived: dict[str, int] = {}
    by_pod: dict[tuple[str, str], list[Decided]] = defaultdict(list)
    for decision in decided:
        by_pod[decision.uid, decision.node].append(decision)
    findings: list[str] = []
    ordered = list(changes)
    for change in ordered:
        if change.record.object["kind"] == "Node":
            nodes.see(change)
    for change in ordered:
        obj = change.record.object
        if obj["kind"] != "Pod":
            continue
        uid = obj["metadata"]["uid"]
        if change.type == "DELETED":
            pods.pop(uid, None)
            continue
        before = pods.get(uid)
        pods[uid] = obj
        node, old = _node_of(obj), _node_of(before) if before is not None else ""
        if old and node != old:
            findings.append(f"{_name(obj)} was bound to {old}, then to {node or 'none'}")
        elif node and not old and uid in foreign:
            arrived[uid] = change.version
        elif node and not old:
            made = by_pod[uid, node]
            before_bind = [each for each in made if each.nodes_version < change.version]
            if not made:
                findings.append(f"{_name(obj)} was bound to {node}, which was never decided")
            else:
                decision = (before_bind or made)[-1]
                unseen = {uid for uid in arrived if arrived[uid] > decision.pods_version}
                known = [each for uid, each in pods.items() if uid not in unseen]
                findings += _check_bind(obj, known, nodes, decision, change.version)
    return findings


class _Nodes:
    """All versions of all nodes."""

    def __init__(self) -> None:
        self._versions: dict[str, list[int]] = defaultdict(list)
        self._objects: dict[str, list[Json | None]] = defaultdict(list)

    def see(self, change: Change) -> None:
        name = change.record.key[1]
        self._versions[name].append(change.version)
        self._objects[name].append(None if change.type == "DELETED" else change.record.object)

    def between(self, name: str, first: int, last: int) -> list[Json]:
        """The node as it was at version `first`, and its later states up to `last`."""
        versions = self._versions[name]
        begin = max(0, bisect_right(versions, first) - 1)
        found = self._objects[name][begin : bisect_right(versions, last)]
        return [each for each in found if each is not None]

    def at(self, version: int) -> dict[str, Json]:
        states = {name: self.between(name, version, version) for name in self._versions}
        return {name: state[-1] for name, state in states.items() if state}


def _check_bind(
    pod: Json, pods: list[Json], nodes: _Nodes, decision: Decided, version: int
) -> Iterator[str]:
    name = decision.node
    seen = nodes.between(name, decision.nodes_version, version)
    who = f"{_name(pod)} on {name}, decided by {decision.by} at {decision.at:.3f}"
    if not seen:
        yield f"{who}: there was no such node"
        return
    there = [each for each in pods if _node_of(each) == name and not _is_finished(each)]
    for resource in ("cpu", "memory"):
        taken = sum(_request(each, resource) for each in there)
        room = max(milli_value(node["status"]["allocatable"][resource]) for node in seen)
        if taken > room:
            yield f"{who}: {resource} is overcommitted, {taken} of {room}"
    if len(there) > max(int(node["status"]["allocatable"]["pods"]) for node in seen):
        yield f"{who}: too many pods, {len(there)}"
    if not any(_accepts(node, pod) for node in seen):
        yield f"{who}: a taint or a label of the node forbids it"


def _request(pod: Json, resource: str) -> int:
    asked = [each["resources"]["requests"].get(resource, "0") for each in pod["spec"]["containers"]]
    return sum(milli_value(each) for each in asked)


def _accepts(node: Json, pod: Json) -> bool:
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    tolerated = {each.get("key") for each in spec.get("tolerations") or ()}
    return all(
        taint["key"] in tolerated or taint["effect"] == "PreferNoSchedule"
        for taint in node["spec"].get("taints") or ()
    ) and not node["spec"].get("unschedulable")


def _ports(pod: Json) -> set[int]:
    containers = pod["spec"]["containers"]
    ports = [port.get("hostPort", 0) for each in containers for port in each.get("ports") or ()]
    return {port for port in ports if port}


def _keep_apart(one: Json, other: Json) -> bool:
    """Whether two pods must not share a node; they have the same term if they have any."""
    return one["metadata"]["namespace"] == other["metadata"]["namespace"] and all(
        "podAntiAffinity" in (pod["spec"].get("affinity") or {}) for pod in (one, other)
    )


def _node_of(pod: Json) -> str:
    return pod["spec"].get("nodeName") or ""


def _is_ours(pod: Json) -> bool:
    return bool(pod["spec"].get("schedulerName", _OURS) == _OURS)


def _is_finished(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


# The end


def leader(replicas: list[Replica]) -> SchedulerProcess | None:
    """The process that schedules now."""
    for replica in replicas:
        process = replica.process
        if process is not None and process.scheduling.is_set():
            elector = process.elector
            if elector is not None and elector.is_leader:
                return process
    return None


def activity(network: Network, replicas: list[Replica]) -> str:
    """What is going on, in words; "" if nothing is."""
    process = leader(replicas)
    if process is None:
        return "no replica leads"
    counts = process.engine.queue.counts
    has_nodes = len(process.engine.cache.table) > 0
    for number, what in (
        (counts.active, "pods are about to be tried"),
        # Without any node they try for ever.
        (counts.backoff * has_nodes, "pods wait for their next attempt"),
        (process.loop.binds_in_flight, "pods are being bound"),
        (process.loop.evictions_in_flight, "preemptions are under way"),
        (process.reporter.unwritten, "conditions are being written"),
        (process.recorder.unwritten, "events are being written"),
        (process.engine.cache.assumed_count, "pods are assumed"),
        (process.annotator.unwritten if process.annotator else 0, "annotations are being written"),
    ):
        if number:
            return f"{number} {what}"
    return next(_behind(network.cluster.store, process), "")


def _behind(store: Store, process: SchedulerProcess) -> Iterator[str]:
    """Objects that the scheduler's informers know in another version than the API server."""
    for kind, informer in ((PODS, process.pods), (NODES, process.nodes)):
        stored = {record.object["metadata"]["uid"]: record for record in store.records(kind)}
        known = {obj.metadata.uid: obj for obj in informer.store.values()}
        for uid, record in stored.items():
            if uid not in known and not _is_finished(record.object):
                yield f"the scheduler does not know {kind.kind} {record.key[1]}"
            elif uid in known and known[uid].metadata.resource_version != str(record.version):
                yield f"the scheduler knows an old version of {kind.kind} {record.key[1]}"
        for uid in known.keys() - stored.keys():
            name = known[uid].metadata.name
            yield f"the scheduler knows {kind.kind} {name}, which is gone"


def check_end(network: Network, replicas: list[Replica], foreign: set[str]) -> list[str]:
    """What must be true once all is quiet."""
    store = network.cluster.store
    going_on = activity(network, replicas)
    if going_on:
        return [f"not quiet: {going_on}"]
    process = leader(replicas)
    assert process is not None
    pods = [record.object for record in store.records(PODS)]
    return [
        *_cache_differences(process, pods),
        *_pending_that_fit(store, process, pods),
        *_without_event(store, [pod for pod in pods if pod["metadata"]["uid"] not in foreign]),
        *_called_unschedulable(pods),
        *_annotated_otherwise([pod for pod in pods if pod["metadata"]["uid"] not in foreign]),
        *_leaks(process, pods),
    ]


def _cache_differences(process: SchedulerProcess, pods: list[Json]) -> Iterator[str]:
    stored = {
        pod["metadata"]["uid"]: _node_of(pod)
        for pod in pods
        if _node_of(pod) and not _is_finished(pod)
    }
    cached = process.engine.cache.placements()
    for uid in sorted(stored.keys() | cached.keys()):
        if stored.get(uid) != cached.get(uid):
            yield f"pod {uid} is on {stored.get(uid)}, in the cache on {cached.get(uid)}"


def _pending_that_fit(store: Store, process: SchedulerProcess, pods: list[Json]) -> Iterator[str]:
    pending = process.engine.queue.pending()
    rejectors = {queued.uid: queued.rejectors for queued in pending.unschedulable}
    nodes = {record.key[1]: record.object for record in store.records(NODES)}
    on: dict[str, list[Json]] = defaultdict(list)
    for pod in pods:
        if not _is_finished(pod):
            on[_node_of(pod)].append(pod)
    for pod in on[""]:
        if (
            "deletionTimestamp" in pod["metadata"]
            or pod["metadata"]["labels"]["app"] in ("volume", "device")
            or not _is_ours(pod)
        ):
            continue
        fitting = [name for name, node in nodes.items() if _fits(pod, node, nodes, on)]
        if fitting:
            yield f"{_name(pod)} is pending, but fits on {', '.join(fitting)}"
        elif _hears_of_spread(pod, rejectors) and (left := _made_fit(pod, nodes, on)):
            yield f"{_name(pod)} is pending, but would fit without the lesser pods of {left}"


def _hears_of_spread(pod: Json, rejectors: dict[str, set[str]]) -> bool:
    """False if a change of its spread, after which preemption would help, does not wake the pod.

    NodeResourcesFit comes before PodTopologySpread. If it rejects a pod on every node, only its
    events bring the pod back, in kube-scheduler as well (tests/e2e/requeue_rows.py, "a zone goes").
    Five minutes later every pod is tried.
    """
    if not pod["spec"].get("topologySpreadConstraints"):
        return True
    return "PodTopologySpread" in rejectors.get(pod["metadata"]["uid"], ())


def _made_fit(pod: Json, nodes: dict[str, Json], on: dict[str, list[Json]]) -> str:
    """A node on which preemption would make room; "" if there is none."""
    priority = pod["spec"].get("priority", 0)
    for name, node in nodes.items():
        kept = [each for each in on[name] if each["spec"].get("priority", 0) >= priority]
        if len(kept) < len(on[name]) and _fits(pod, node, nodes, {**on, name: kept}):
            return name
    return ""


def _fits(pod: Json, node: Json, nodes: dict[str, Json], on: dict[str, list[Json]]) -> bool:
    there = on[node["metadata"]["name"]]
    room = node["status"]["allocatable"]
    for resource in ("cpu", "memory"):
        if sum(_request(each, resource) for each in (*there, pod)) > milli_value(room[resource]):
            return False
    return (
        len(there) < int(room["pods"])
        and _accepts(node, pod)
        and not _ports(pod) & {port for each in there for port in _ports(each)}
        and not any(_keep_apart(pod, each) for each in there)
        and _spreads(pod, node, nodes, on)
    )


def _spreads(pod: Json, node: Json, nodes: dict[str, Json], on: dict[str, list[Json]]) -> bool:
    for constraint in pod["spec"].get("topologySpreadConstraints") or ():
        key, wanted = constraint["topologyKey"], constraint["labelSelector"]["matchLabels"]
        counts: dict[str, int] = {}
        for name, each in nodes.items():
            domain = each["metadata"]["labels"].get(key)
            if domain is not None:
                counts[domain] = counts.get(domain, 0) + sum(
                    other["metadata"]["labels"] == wanted
                    and other["metadata"]["namespace"] == pod["metadata"]["namespace"]
                    and "deletionTimestamp" not in other["metadata"]
                    for other in on[name]
                )
        own = node["metadata"]["labels"].get(key)
        if own is None or counts[own] + 1 - min(counts.values()) > constraint["maxSkew"]:
            return False
    return True


def _without_event(store: Store, pods: list[Json]) -> Iterator[str]:
    """A pod on a node that is gone may have none: its binding can have arrived after both were
    given up (ARCHITECTURE.md, "Bindings without an answer").
    """
    nodes = {record.object["metadata"]["name"] for record in store.records(NODES)}
    told = {
        record.object["involvedObject"]["uid"]
        for record in store.records(EVENTS)
        if record.object["reason"] == "Scheduled"
    }
    for pod in pods:
        if _node_of(pod) in nodes and pod["metadata"]["uid"] not in told:
            yield f"{_name(pod)} is bound, without a Scheduled event"


def _called_unschedulable(pods: list[Json]) -> Iterator[str]:
    for pod in pods:
        conditions = (pod.get("status") or {}).get("conditions") or ()
        said = {each["type"]: each["status"] for each in conditions}
        if _node_of(pod) and said.get("PodScheduled") == "False":
            yield f"{_name(pod)} is bound, and its condition says that it is not"


def _annotated_otherwise(pods: list[Json]) -> Iterator[str]:
    """Pods that are said to be on another node, as a late annotation of an older attempt would."""
    for pod in pods:
        said = (pod["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if said and _node_of(pod) not in ("", said):
            yield f"{_name(pod)} is on {_node_of(pod)}, its annotation says {said}"


def _leaks(process: SchedulerProcess, pods: list[Json]) -> Iterator[str]:
    pending = {pod["metadata"]["uid"] for pod in pods if not _node_of(pod) and _is_ours(pod)}
    engine = process.engine
    known = set(_queued(process))
    if known != pending:
        yield f"the queue holds {sorted(known - pending)} and lacks {sorted(pending - known)}"
    for number, what in (
        (engine.cache.assumed_count, "assumed pods"),
        (len(engine.pre_binding), "pods in PreBind"),
        (sum(len(handle.waiting) for handle in engine.handles.values()), "pods at Permit"),
    ):
        if number:
            yield f"{number} {what} are left"


def _queued(process: SchedulerProcess) -> Iterator[str]:
    pending = process.engine.queue.pending()
    for place in (
        pending.active,
        pending.backoff,
        pending.error_backoff,
        pending.unschedulable,
        pending.gated,
        pending.in_flight,
    ):
        yield from (queued.pod.uid for queued in place)
