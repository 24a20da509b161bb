"""Rules about other pods in a topology domain: anti-affinity both ways, affinity, spreading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from stowplan.audit.facts import NodeFacts, PodFacts, Spread
from stowplan.audit.matching import selects
from stowplan.audit.rules import Moment, Problem, named
from stowplan.audit.tallies import Domain, Tally
from stowplan.audit.world import World


def neighbour_problems(
    world: World, pod: PodFacts, node: NodeFacts, moment: Moment | None
) -> list[Problem]:
    """All three rules."""
    found = [*of_anti_affinity(world, pod, node, moment)]
    found += of_affinity(world, pod, node, moment)
    for spread in pod.spread:
        found += of_spread(world, pod, node, spread, moment)
    return found


def of_anti_affinity(
    world: World, pod: PodFacts, node: NodeFacts, moment: Moment | None
) -> Iterator[Problem]:
    """The pod's own terms, and those of pods that stand already."""
    yield from _of_own_anti_affinity(world, pod, node, moment)
    yield from _of_their_anti_affinity(world, pod, node, moment)


def _of_own_anti_affinity(
    world: World, pod: PodFacts, node: NodeFacts, moment: Moment | None
) -> Iterator[Problem]:
    for term in pod.anti:
        if term.topology_key in node.labels and world.knows_namespaces(term):
            domain = (term.topology_key, node.labels[term.topology_key])
            others = world.tallies.of(term).matching(domain).values()
            blamed = _blamed(world, pod, others, moment)
            if blamed:
                text = f"its anti-affinity forbids {named(blamed)} in {_shown(domain)}"
                yield Problem("anti-affinity", text)


def _of_their_anti_affinity(
    world: World, pod: PodFacts, node: NodeFacts, moment: Moment | None
) -> Iterator[Problem]:
    for tally in world.tallies.asking_for(pod):
        for term in tally.terms:
            if term.topology_key not in node.labels or not world.knows_namespaces(term):
                continue
            domain = (term.topology_key, node.labels[term.topology_key])
            blamed = _blamed(world, pod, tally.holding(domain).values(), moment)
            if blamed:
                text = f"the anti-affinity of {named(blamed)} forbids it in {_shown(domain)}"
                yield Problem("anti-affinity", text)


def of_affinity(
    world: World, pod: PodFacts, node: NodeFacts, moment: Moment | None
) -> Iterator[Problem]:
    """Each term needs, in its domain, a pod that matches all terms.

    The first pod of a group that wants to be with its own kind may go anywhere: where no pod
    matches at all and the pod matches its own terms, the domains need only exist.
    """
    if not pod.affinity or not world.knows_namespaces(*pod.affinity):
        return
    tally = world.tallies.of(*pod.affinity)
    if _affinity_holds(world, pod, node, tally, (), ()):
        return
    if moment is not None:
        support = [
            each
            for each in (*world.recent_departures(moment.since), *moment.in_flight)
            if tally.matches(each, world.namespace_labels(each.namespace))
        ]
        strangers = [
            each.key
            for many in tally.all_matching()
            for each in many.values()
            if moment.excuses(pod, each)
        ]
        if _was_elsewhere(world, pod, node, moment) or _affinity_holds(
            world, pod, node, tally, support, strangers
        ):
            return
    missing = [t.topology_key for t in pod.affinity if t.topology_key not in node.labels]
    if missing:
        yield Problem("affinity", f"the node has no label {missing[0]}", "f:labels")
    else:
        where = ", ".join(
            sorted({_shown((t.topology_key, node.labels[t.topology_key])) for t in pod.affinity})
        )
        yield Problem("affinity", f"no pod that its affinity asks for is in {where}")


def _affinity_holds(
    world: World,
    pod: PodFacts,
    node: NodeFacts,
    tally: Tally,
    more: Iterable[PodFacts],
    without: Iterable[str],
) -> bool:
    keys = {term.topology_key for term in pod.affinity}
    if any(key not in node.labels for key in keys):
        return False
    ignored = {pod.key, *without}
    supported: set[Domain] = {
        domain for each in more for domain in _domains(world, each) if domain[0] in keys
    }
    if all(
        _count(tally, (key, node.labels[key]), pod) or (key, node.labels[key]) in supported
        for key in keys
    ):
        return True
    is_first = not supported and all(
        key in ignored for many in tally.all_matching() for key in many
    )
    return is_first and tally.matches(pod, world.namespace_labels(pod.namespace))


def of_spread(
    world: World, pod: PodFacts, node: NodeFacts, spread: Spread, moment: Moment | None
) -> Iterator[Problem]:
    """The pods of the domain, this one included, against those of the emptiest domain."""
    key = spread.term.topology_key
    if key not in node.labels:
        if moment is None or not world.was_relabelled(node.name, moment.since):
            yield Problem("spread", f"the node has no label {key}", "f:labels")
        return
    tally = world.tallies.of_spread(spread)
    assert tally.domains is not None
    here = (key, node.labels[key])
    others = _count(tally, here, pod)
    count = others + int(selects(spread.term.selector, pod.labels))
    least = 0 if len(tally.domains) < spread.min_domains else tally.domains.least
    if pod.key in tally.matching(here):
        least = min(least, others)
    if count - least <= spread.max_skew:
        return
    if moment is not None:
        if _was_elsewhere(world, pod, node, moment):
            return
        lenient, strangers = _lenient_counts(world, pod, spread, tally, here, moment)
        is_steady = not world.changed_nodes(moment.since)
        lenient_least = _least(lenient, spread.min_domains if is_steady else 0)
        if not lenient or count - strangers - lenient_least <= spread.max_skew:
            return
        least = lenient_least
    text = f"{count} matching pods in {_shown(here)}, {least} in the emptiest domain"
    yield Problem("spread", f"{text}, maxSkew {spread.max_skew}")


def _least(counts: dict[str, int], min_domains: int) -> int:
    if not counts or len(counts) < min_domains:
        return 0
    return min(counts.values())


def _lenient_counts(
    world: World,
    pod: PodFacts,
    spread: Spread,
    tally: Tally,
    here: Domain,
    moment: Moment,
) -> tuple[dict[str, int], int]:
    """The most that each domain may have had when the scheduler decided, and the number of pods
    here that it may not have known.

    Pods with the same constraint that the same scheduler bound before this one are no excuse, even
    if it was decided on before them: then the last of them was decided on with this one in place.
    """
    assert tally.admitted is not None
    assert tally.domains is not None
    more: Counter[str] = Counter()
    for each in (*world.recent_departures(moment.since), *moment.in_flight):
        labels = world.namespace_labels(each.namespace)
        if each.key != pod.key and tally.counts(each, labels):
            more.update(value for name, value in _domains(world, each) if name == here[0])
    changed = world.changed_nodes(moment.since)
    counts = dict(tally.domains.items())
    steady = tally.admitted.values_without(changed, here[0]) if changed else set(counts)
    strangers = sum(
        moment.excuses(pod, each) or (each.arrived_at >= moment.since and spread not in each.spread)
        for each in tally.matching(here).values()
        if each.key != pod.key
    )
    return {value: counts[value] + more[value] for value in steady}, strangers


def _was_elsewhere(world: World, pod: PodFacts, node: NodeFacts, moment: Moment) -> bool:
    """True if the node had other labels when the scheduler decided."""
    return any(each.labels != node.labels for each in world.versions(node.name, moment.since))


def _blamed(
    world: World, pod: PodFacts, others: Iterable[PodFacts], moment: Moment | None
) -> list[PodFacts]:
    found = [each for each in others if each.key != pod.key]
    if moment is None:
        return found
    return [
        each
        for each in found
        if not moment.excuses(pod, each)
        and not world.was_relabelled(each.node, moment.since)
        and not (pod.node and world.was_relabelled(pod.node, moment.since))
    ]


def _count(tally: Tally, domain: Domain, pod: PodFacts) -> int:
    """How many pods but this one match in a domain."""
    found = tally.matching(domain)
    return len(found) - (pod.key in found)


def _domains(world: World, pod: PodFacts) -> list[Domain]:
    node = world.nodes.get(pod.node)
    return list(node.labels.items()) if node is not None else []


def _shown(domain: Domain) -> str:
    return f"{domain[0]}={domain[1]}"
