"""Audit of a cluster as it is now, from a list of its objects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from stowplan.audit.amounts import PODS, shown, summed
from stowplan.audit.claim_findings import allocation_findings, stale_reservations
from stowplan.audit.devices import RESOURCE_CLAIM, claim_names
from stowplan.audit.facts import NodeFacts, PodFacts, Spread, node_facts, pod_facts
from stowplan.audit.findings import DEFAULTS, Finding, Options, Report, Unread, shown_time
from stowplan.audit.items import Event, Item
from stowplan.audit.neighbours import of_affinity, of_anti_affinity, of_spread
from stowplan.audit.pending import PendingPods
from stowplan.audit.rules import (
    CLAIM,
    VOLUME,
    Problem,
    of_devices,
    of_node_alone,
    of_ports,
    of_single_use,
)
from stowplan.audit.world import World

#: Kinds of findings that need claims, and those of them that need volumes, too.
_NEED_CLAIMS: Final = ("volume-unbound", "volume-affinity", "volume-zone", "rwop")
_NEED_VOLUMES: Final = ("volume-affinity", "volume-zone")
_NO_EVENTS: Final = "Scheduled events not checked: no events were given"


def audit_cluster(
    items: Iterable[Item],
    *,
    now: float,
    options: Options = DEFAULTS,
    notes: Iterable[str] = (),
    unread: Collection[str] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Audit the objects of a cluster, all read at about the same time.

    `now` is in seconds since 1970, by the API server's clock. `notes` go into the report. `unread`
    names kinds of which nothing could be read: checks that need them are skipped, with a note.
    """
    return _Audit(items, now, options, unread, progress).report(list(notes))


class _Audit:
    def __init__(
        self,
        items: Iterable[Item],
        now: float,
        options: Options,
        unread: Collection[str],
        progress: Callable[[str], None],
    ) -> None:
        self._options = options
        self._progress = progress
        self._world = World(unread)
        #: Domains with a finding already: one is enough, not one for each pod.
        self._too_full: set[tuple[Spread, str | None]] = set()
        #: UIDs of pods with a Scheduled event; None if no event was given.
        self._announced: set[str] | None = None
        pods: list[PodFacts] = []
        self._unread = Unread()
        for item in items:
            try:
                self._read(item, pods)
            except ValueError as problem:
                self._unread.add(f"{item.kind} {item.namespace}/{item.name}", problem)
        # Nothing came or went while the objects were read: the clock stands still until now.
        self._world.now = now
        self._excluded: list[Finding] = []
        pods.sort(key=lambda pod: (pod.arrived_at, pod.key))
        for number, pod in enumerate(pods):
            if number % 100 == 0:
                progress(f"pod {number} of {len(pods)}: earlier pods")
            self._world.set_pod(pod)
            self._excluded += self._of_earlier_pods(pod)

    def _read(self, item: Item, pods: list[PodFacts]) -> None:
        if item.kind == "Pod":
            pods.append(pod_facts(item))
        elif item.kind == "Node":
            self._world.set_node(item.name, node_facts(item))
        elif isinstance(item.object, Event):
            self._announced = self._announced or set()
            if item.object.reason == "Scheduled":
                self._announced.add(item.object.uid)
        else:
            self._world.set_other(item)

    def report(self, notes: list[str]) -> Report:
        world, options = self._world, self._options
        notes += options.unknown_schedulers({pod.scheduler for pod in world.pods.values()})
        notes += self._unread.notes()
        bound = [pod for pod in world.pods.values() if pod.occupies]
        found = self._excluded
        if options.wants("overcommit"):
            for node in world.nodes.values():
                found += self._overcommits(node)
        # The latest first: of the pods of a domain that is too full it is the one that is named.
        for number, pod in enumerate(reversed(bound)):
            if number % 100 == 0:
                self._progress(f"pod {number} of {len(bound)}")
            if self._is_judged(pod):
                found += self._of_pod(pod)
        judged = [pod for pod in bound if self._is_judged(pod)]
        notes += [*self._unread_volumes(judged), *self._unread_namespaces(judged)]
        notes += self._unread_resource_claims(judged)
        if options.wants("no-event"):
            if self._announced is None:
                notes.append(_NO_EVENTS)
            found += self._unannounced(bound)
        found += allocation_findings(world)
        found += stale_reservations(world, options)
        if options.wants("pending"):
            pending = PendingPods(world, options, self._progress)
            found += pending.findings()
            notes += pending.notes()
        return Report(
            findings=options.chosen(found),
            nodes=len(world.nodes),
            pods=len(world.pods),
            judged=sum(options.wants_pod(pod.scheduler) for pod in bound),
            notes=notes,
        )

    def _is_judged(self, pod: PodFacts) -> bool:
        if pod.is_direct or pod.pod.is_terminating:
            return False
        return self._is_recent(pod) and self._options.wants_pod(pod.scheduler)

    def _is_recent(self, pod: PodFacts) -> bool:
        since = self._options.since_s
        return not since or pod.arrived_at >= self._world.now - since

    def _of_earlier_pods(self, pod: PodFacts) -> Iterable[Finding]:
        """Of two pods that exclude each other the later is at fault: judge it as it arrives."""
        node = self._world.nodes.get(pod.node)
        if node is None or not pod.occupies or not self._is_judged(pod):
            return
        for problem in of_ports(self._world, pod, node, None):
            yield self._finding(pod, problem)
        for problem in of_single_use(self._world, pod, None):
            yield self._finding(pod, problem)
        for problem in of_anti_affinity(self._world, pod, node, None):
            yield self._finding(pod, problem, later=True)

    def _of_pod(self, pod: PodFacts) -> Iterable[Finding]:
        """What is wrong with a pod in the cluster as it is now."""
        node = self._world.nodes.get(pod.node)
        if node is None:
            yield self._finding(pod, Problem("missing-node", "its node does not exist"), later=True)
            return
        found = [
            *of_node_alone(self._world, pod, node),
            *of_affinity(self._world, pod, node, None),
            *of_devices(self._world, pod, None),
        ]
        for spread in pod.spread:
            domain = (spread, node.labels.get(spread.term.topology_key))
            if domain not in self._too_full:
                problems = list(of_spread(self._world, pod, node, spread, None))
                found += problems
                if problems:
                    self._too_full.add(domain)
        for problem in found:
            yield self._finding(pod, problem, later=_may_be_later(pod, node, problem))

    def _overcommits(self, node: NodeFacts) -> Iterable[Finding]:
        """One finding for each resource of a node that is overcommitted now."""
        here = self._world.on_node[node.name].values()
        sums = {**self._world.held[node.name], PODS: len(here)}
        for name, amount in sums.items():
            there = node.allocatable.get(name, 0)
            if amount <= there:
                continue
            blamed = [
                pod
                for pod in here
                if not pod.is_direct and (name == PODS or pod.held.get(name, 0) > 0)
            ]
            if not blamed or (
                name not in node.allocatable
                and all(pod.pod.status.extended_resource_claim_status for pod in blamed)
            ):
                continue
            last = max(blamed, key=lambda pod: (pod.arrived_at, pod.key))
            if self._is_recent(last):
                text = f"{name}: {shown(name, amount)} of {shown(name, there)} held by"
                text += f" {len(here)} pods, {last.key} the last of them"
                # Pods that no scheduler placed can have come afterwards.
                known = [p for p in here if not p.is_direct or p.arrived_at < last.arrived_at]
                sums_then = {**summed(p.held for p in known), PODS: len(known)}
                later = sums_then.get(name, 0) <= there
                yield self._finding(last, Problem("overcommit", text), later=later)

    def _unread_volumes(self, judged: Iterable[PodFacts]) -> list[str]:
        """The checks of volumes that are skipped, where a pod has claims."""
        unread = self._world.unread
        needy = _NEED_CLAIMS if CLAIM in unread else _NEED_VOLUMES if VOLUME in unread else ()
        count = sum(bool(pod.claims) for pod in judged)
        lacking = "persistentvolumeclaims" if CLAIM in unread else "persistentvolumes"
        return self._skipped(needy, count, "with claims", lacking)

    def _unread_namespaces(self, judged: Iterable[PodFacts]) -> list[str]:
        """The checks of affinity that are skipped, where a pod chooses namespaces by labels."""
        world = self._world
        count = sum(not world.knows_namespaces(*pod.affinity, *pod.anti) for pod in judged)
        which = "with a namespaceSelector"
        return self._skipped(("anti-affinity", "affinity"), count, which, "namespaces")

    def _unread_resource_claims(self, judged: Iterable[PodFacts]) -> list[str]:
        if RESOURCE_CLAIM not in self._world.unread:
            return []
        count = sum(bool(claim_names(pod.pod)) for pod in judged)
        return self._skipped(("device-claim",), count, "with resource claims", "resourceclaims")

    def _skipped(self, needy: Iterable[str], count: int, which: str, lacking: str) -> list[str]:
        skipped = [kind for kind in needy if self._options.wants(kind)]
        if not skipped or not count:
            return []
        pods = f"{count} bound pod{'s' if count > 1 else ''} {which}"
        return [f"{', '.join(skipped)} not checked for {pods}: no {lacking} were read"]

    def _unannounced(self, bound: Iterable[PodFacts]) -> Iterable[Finding]:
        """Bound pods without an event, as long as events are kept and not just written."""
        if self._announced is None:
            return
        now, options = self._world.now, self._options
        for pod in bound:
            age = now - pod.arrived_at
            if (
                options.grace_s <= age < options.event_ttl_s
                and pod.uid not in self._announced
                and not pod.is_direct
                and self._is_recent(pod)
            ):
                yield self._finding(pod, Problem("no-event", "no Scheduled event for it"))

    def _finding(self, pod: PodFacts, problem: Problem, *, later: bool = False) -> Finding:
        return Finding(
            kind=problem.kind,
            pod=pod.key,
            uid=pod.uid,
            node=pod.node,
            scheduler=pod.scheduler,
            message=problem.message,
            maybe_later=later,
            time=shown_time(pod.arrived_at),
        )


def _may_be_later(pod: PodFacts, node: NodeFacts, problem: Problem) -> bool:
    """True unless what the rule reads is known to be as it was when the pod was bound."""
    written = node.field_times.get(problem.field, 0.0) if problem.field else 0.0
    return not written or written >= pod.arrived_at
