"""Small changes of a pod, of a node or of the pods on it, that could let a pod fit.

Each makes copies; `fixes` tries them on the cluster and takes them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from stowplan.api.objects import Container, Node, Pod, PodSpec, Taint, Toleration
from stowplan.api.quantity import milli_value, value
from stowplan.api.selectors import compile_label_set, compile_node_selector
from stowplan.api.tolerations import HARD_EFFECTS, Tolerations
from stowplan.cluster.requests import CPU
from stowplan.cluster.table import NodeTable
from stowplan.explain.node_details import amount_text, port_holders, taint_text
from stowplan.framework.cycle import Cycle

# What a change costs its people, roughly: a word to a node, an edit of the pod, a lost guarantee,
# a lost pod, a new machine.
_TELL_NODE: Final = 1.0
_EDIT_POD: Final = 2.0
_LABEL_NODE: Final = 3.0
_GIVE_UP: Final = 4.0
_EVICT: Final = 5.0
#: Taints by which the cluster says that something is wrong with a node.
_CONDITION_TAINTS: Final = "node.kubernetes.io/"
#: Pods of these owners come back to their node.
_BOUND_OWNERS: Final = ("DaemonSet", "Node")
#: Pods above this priority are the cluster's own.
_SYSTEM_PRIORITY: Final = 2_000_000_000


@dataclass(frozen=True)
class Change:
    """A pod, a node and victims as they would be; what is None stays as it is."""

    kind: str
    text: str
    cost: float
    command: str = ""
    pod: Pod | None = None
    node: Node | None = None
    victims: tuple[Pod, ...] = ()
    #: The texts of the changes that are combined here.
    parts: tuple[str, ...] = ()


def with_spec(pod: Pod, **changes: object) -> Pod:
    """A copy of a pod with other values in its spec."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **changes))


def tolerate(cycle: Cycle, row: int) -> Change | None:
    """Tolerate all of a node's taints that the pod does not."""
    pod, node = cycle.pod, cycle.table.node(row)
    tolerations = Tolerations(pod.spec.tolerations)
    missing = [
        taint
        for taint in node.spec.taints or ()
        if taint.effect in HARD_EFFECTS and not tolerations.match(taint)
    ]
    if not missing or any(taint.key.startswith(_CONDITION_TAINTS) for taint in missing):
        return None
    added = tuple(_toleration(taint) for taint in missing)
    named = " and ".join(taint_text(taint) for taint in missing)
    return Change(
        "Toleration",
        f"tolerate the taint{'s' if len(missing) > 1 else ''} {named}",
        _EDIT_POD + len(missing) - 1,
        pod=with_spec(pod, tolerations=(*(pod.spec.tolerations or ()), *added)),
    )


def _toleration(taint: Taint) -> Toleration:
    return Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect)


def uncordon(cycle: Cycle, row: int) -> Change | None:
    """Let a cordoned node take pods."""
    node = cycle.table.node(row)
    if not node.spec.unschedulable:
        return None
    spec = msgspec.structs.replace(
        node.spec,
        unschedulable=False,
        taints=tuple(
            t for t in node.spec.taints or () if t.key != "node.kubernetes.io/unschedulable"
        ),
    )
    return Change(
        "Uncordon",
        f"uncordon the node {node.name}",
        _TELL_NODE,
        command=f"kubectl uncordon {node.name}",
        node=msgspec.structs.replace(node, spec=spec),
    )


def label_node(cycle: Cycle, row: int) -> Change | None:
    """Give a node the labels that the pod's node selector and affinity want."""
    spec, node = cycle.pod.spec, cycle.table.node(row)
    labels = dict(node.metadata.labels or {})
    wanted = list(compile_label_set(spec.node_selector).requirements)
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        required = compile_node_selector(affinity.required)
        if not required.matches(labels, node.name):
            terms = [term for term in required.terms if not term.field_requirements]
            if not terms:
                return None
            wanted += terms[0].requirements
    new: dict[str, str] = {}
    for key, operator, values in wanted:
        if operator == "In" and labels.get(key) not in values:
            new[key] = values[0]
        elif operator == "Exists" and key not in labels:
            new[key] = ""
    if not new or any(_is_well_known(key) for key in new):
        return None
    pairs = " ".join(f"{key}={value}" for key, value in new.items())
    overwrites = any(key in labels for key in new)
    metadata = msgspec.structs.replace(node.metadata, labels={**labels, **new})
    return Change(
        "NodeLabel",
        f"label the node {node.name} with {pairs}",
        _LABEL_NODE + len(new) + 2 * overwrites,
        command=f"kubectl label node {node.name} {pairs}{' --overwrite' if overwrites else ''}",
        node=msgspec.structs.replace(node, metadata=metadata),
    )


def _is_well_known(key: str) -> bool:
    """Labels that say where or what a node is must stay true."""
    domain = key.rpartition("/")[0]
    return domain.endswith(("kubernetes.io", "k8s.io"))


def lower_requests(cycle: Cycle, row: int) -> Change | None:
    """Ask for no more than what is free on a node."""
    table, pod = cycle.table, cycle.pod
    said: list[str] = []
    share = 0.0
    for name, amount in cycle.info.request:
        free = max(table.resources.offered_on(name, row) - table.resources.held_on(name, row), 0)
        if amount <= free:
            continue
        lowered = _lowered(pod, name, amount - free) if free else None
        if lowered is None:
            return None
        pod = lowered
        share = max(share, (amount - free) / amount)
        asked, left = amount_text(name, amount - free), amount_text(name, free)
        said.append(f"request {asked} less {name} ({left} in all{_in_container(pod)})")
    if not said:
        return None
    return Change("Request", " and ".join(said), _EDIT_POD + 10 * share, pod=pod)


def _in_container(pod: Pod) -> str:
    containers = pod.spec.containers or ()
    return ", in the container that requests most" if len(containers) > 1 else ""


def _lowered(pod: Pod, name: str, by: int) -> Pod | None:
    """A pod whose largest container, or pod-level request, asks for less; None if it cannot."""
    spec = pod.spec
    if spec.resources is not None and name in (spec.resources.requests or {}):
        return None  # a pod-level request, which the containers' sum must not exceed
    containers = list(spec.containers or ())
    amounts = [_amount(each, name) for each in containers]
    if not amounts or max(amounts) <= by:
        return None
    place = amounts.index(max(amounts))
    containers[place] = _with_request(containers[place], name, amounts[place] - by)
    return with_spec(pod, containers=tuple(containers))


def _amount(container: Container, name: str) -> int:
    requests = (container.resources.requests if container.resources is not None else None) or {}
    raw = requests.get(name, 0)
    return milli_value(raw) if name == CPU else value(raw)


def _with_request(container: Container, name: str, amount: int) -> Container:
    assert container.resources is not None
    text = f"{amount}m" if name == CPU else str(amount)
    requests = {**(container.resources.requests or {}), name: text}
    resources = msgspec.structs.replace(container.resources, requests=requests)
    return msgspec.structs.replace(container, resources=resources)


def evict(cycle: Cycle, row: int) -> Change | None:
    """Evict the fewest pods that free enough: those of lowest priority, the largest first."""
    table = cycle.table
    allowed = int(table.allowed_pods[row])
    short = {
        name: amount - (table.resources.offered_on(name, row) - table.resources.held_on(name, row))
        for name, amount in cycle.info.request
    }
    short = {name: amount for name, amount in short.items() if amount > 0}
    too_many = int(table.pod_count[row]) + 1 - allowed
    if any(
        table.resources.offered_on(name, row) < dict(cycle.info.request)[name] for name in short
    ):
        return None
    standing = sorted(
        [info for info in table.pods[row].values() if may_be_evicted(info.pod)],
        key=lambda info: (
            info.priority,
            -max((dict(info.held).get(n, 0) for n in short), default=0),
        ),
    )
    victims: list[Pod] = []
    for info in standing:
        if info.priority > cycle.pod.priority:
            break
        held = dict(info.held)
        if short and not any(held.get(name) for name in short):
            continue
        victims.append(info.pod)
        short = {name: left - held.get(name, 0) for name, left in short.items()}
        short = {name: left for name, left in short.items() if left > 0}
        if not short and len(victims) >= too_many:
            return _eviction(victims, table.names[row])
    return None


def may_be_evicted(pod: Pod) -> bool:
    """Whether evicting a pod can make room: it neither comes back at once nor runs the cluster."""
    owners = {owner.kind for owner in pod.metadata.owner_references or ()}
    return not owners & set(_BOUND_OWNERS) and pod.priority < _SYSTEM_PRIORITY


def free_ports(cycle: Cycle, row: int) -> Change | None:
    """Evict the pods that use the host ports which the pod asks for."""
    holders = port_holders(cycle, row)
    if not all(may_be_evicted(pod) and pod.priority <= cycle.pod.priority for pod in holders):
        return None
    return _eviction(holders, cycle.table.names[row]) if holders else None


def _eviction(victims: Sequence[Pod], node: str) -> Change:
    keys = [victim.key for victim in victims]
    some = ", ".join(keys[:4]) + (f" and {len(keys) - 4} more" if len(keys) > 4 else "")
    command = ""
    if len({victim.metadata.namespace for victim in victims}) == 1 and len(victims) <= 4:
        names = " ".join(victim.metadata.name for victim in victims)
        command = f"kubectl delete pod -n {victims[0].metadata.namespace} {names}"
    what = "pod" if len(victims) == 1 else f"{len(victims)} pods"
    owners = {owner.kind for victim in victims for owner in victim.metadata.owner_references or ()}
    again = f" (its {min(owners)} creates another)" if owners else ""
    text = f"evict the {what} {some} from {node}{again}"
    cost = _EVICT + 2 * len(victims)
    return Change("Eviction", text, cost, command, victims=tuple(victims))


def relax_spread(cycle: Cycle, row: int) -> Change | None:
    """Spread only as far as possible."""
    constraints = cycle.pod.spec.topology_spread_constraints or ()
    hard = [each for each in constraints if each.when_unsatisfiable == "DoNotSchedule"]
    if not hard:
        return None
    relaxed = tuple(
        msgspec.structs.replace(each, when_unsatisfiable="ScheduleAnyway", min_domains=None)
        for each in constraints
    )
    keys = ", ".join(each.topology_key for each in hard)
    return Change(
        "TopologySpread",
        f"set whenUnsatisfiable of its spread over {keys} to ScheduleAnyway",
        _GIVE_UP,
        pod=with_spec(cycle.pod, topology_spread_constraints=relaxed),
    )


def relax_affinity(cycle: Cycle, row: int) -> Change | None:
    """Require neither pods nearby nor pods elsewhere."""
    affinity = cycle.pod.spec.affinity
    if affinity is None:
        return None
    relaxed = affinity
    named: list[str] = []
    for name, shown in (("pod_affinity", "podAffinity"), ("pod_anti_affinity", "podAntiAffinity")):
        part = getattr(affinity, name)
        if part is not None and part.required:
            named.append(shown)
            part = msgspec.structs.replace(part, required=None)
            relaxed = msgspec.structs.replace(relaxed, **{name: part})
    if not named:
        return None
    return Change(
        "PodAffinity",
        f"make its required {' and '.join(named)} a preferred one",
        _GIVE_UP,
        pod=with_spec(cycle.pod, affinity=relaxed),
    )


def combined(pod: Pod, changes: Sequence[Change]) -> Change:
    """Several changes of a pod, its node and the pods there as one."""
    spec: dict[str, object] = {}
    node: Node | None = None
    for change in changes:
        if change.pod is not None:
            spec |= _differences(pod.spec, change.pod.spec)
        node = _merged(node, change.node)
    commands = [change.command for change in changes]
    return Change(
        "+".join(change.kind for change in changes),
        " and ".join(change.text for change in changes),
        sum(change.cost for change in changes),
        command=" && ".join(commands) if all(commands) else "",
        pod=with_spec(pod, **spec) if spec else None,
        node=node,
        victims=tuple(victim for change in changes for victim in change.victims),
        parts=tuple(change.text for change in changes),
    )


def _differences(one: PodSpec, other: PodSpec) -> dict[str, object]:
    names = one.__struct_fields__
    return {
        name: getattr(other, name) for name in names if getattr(other, name) != getattr(one, name)
    }


def _merged(one: Node | None, other: Node | None) -> Node | None:
    if one is None or other is None:
        return one or other
    labels = {**(one.metadata.labels or {}), **(other.metadata.labels or {})}
    metadata = msgspec.structs.replace(one.metadata, labels=labels)
    spec = one.spec if not one.spec.unschedulable else other.spec
    return msgspec.structs.replace(one, metadata=metadata, spec=spec)


def empty_twin(table: NodeTable, cycle: Cycle) -> Change | None:
    """Another node like the one that offers most of what the pod asks for, with its labels."""
    rows = table.live_rows.tolist()
    if not rows:
        return None
    names = [name for name, _ in cycle.info.request] or [CPU]
    row = max(rows, key=lambda row: [table.resources.offered_on(name, row) for name in names])
    like = table.node(row)
    labels = {**(like.metadata.labels or {}), **(cycle.pod.spec.node_selector or {})}
    name = f"{like.name}-new"
    labels["kubernetes.io/hostname"] = name
    metadata = msgspec.structs.replace(like.metadata, name=name, uid="", labels=labels)
    spec = msgspec.structs.replace(like.spec, unschedulable=False, taints=None)
    node = msgspec.structs.replace(like, metadata=metadata, spec=spec)
    extra = cycle.pod.spec.node_selector or {}
    missing = [f"{k}={v}" for k, v in extra.items() if (like.metadata.labels or {}).get(k) != v]
    labelled = f" with the label {', '.join(missing)}" if missing else ""
    return Change("NewNode", f"add a node like {like.name}{labelled}", 20.0, node=node)
