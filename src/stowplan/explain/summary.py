"""The cause in one sentence, for the commonest causes with the numbers that decide."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec
import numpy as np

from stowplan.api.objects import Pod
from stowplan.api.selectors import compile_label_set, compile_node_selector
from stowplan.cluster.journal import Rows
from stowplan.cluster.node_masks import required_mask, required_nodes
from stowplan.cluster.pod_volumes import claims_of
from stowplan.explain.explanation import Reason
from stowplan.explain.facts import Obstacle
from stowplan.explain.node_details import amount_text, taint_text, untolerated, values_of
from stowplan.explain.obstacles import detail_on
from stowplan.explain.pod_details import HOSTNAME, NEAR, counts_text, domain_text, key_text
from stowplan.framework.cycle import Cycle
from stowplan.framework.profile import Profile
from stowplan.framework.status import Status

_INSUFFICIENT: Final = "Insufficient "
#: How to say of all nodes what a predicate denies.
_NEGATED: Final = (
    ("offer no", "offers"),
    ("have no pod", "has a pod"),
    ("have no room", "has room"),
    ("have no free", "has a free"),
    ("cannot ", "can "),
)
#: The sentence names at most this many causes; the table has all of them.
_MOST_CAUSES: Final = 3


@dataclass(frozen=True)
class Group:
    """A reason and the rows that it is given for."""

    reason: Reason
    rows: Rows
    profile: Profile

    def verb(self, plural: str, singular: str) -> str:
        return singular if self.reason.nodes == 1 else plural

    def among(self, rows: Rows) -> Group:
        """The same reason for those of its rows that are among some."""
        left = self.rows[np.isin(self.rows, rows)]
        return replace(
            self, reason=msgspec.structs.replace(self.reason, nodes=len(left)), rows=left
        )

    def sample(self, cycle: Cycle) -> Obstacle:
        """What is behind the reason on the first of its rows."""
        return detail_on(self.profile, cycle, int(self.rows[0]), self.reason.plugin)


_Predicate: TypeAlias = Callable[[Cycle, Group], str]


def cause_of(cycle: Cycle, groups: Sequence[Group]) -> str:
    """What keeps the pod off most nodes, as a sentence; `groups` has the largest first.

    If its node selector or affinity leaves some nodes, the cause is what those lack.
    """
    total = len(cycle.table)
    if not groups:
        return ""
    meant = required_mask(cycle.table, required_nodes(cycle.pod), cycle.table.live_rows)
    matching = int(meant.sum())
    if not matching:
        return f"No node matches its {_selector_text(cycle)}.{_label_hint(cycle)}"
    if matching < total:
        rows = cycle.table.live_rows[meant]
        left = [each.among(rows) for each in groups]
        left = sorted((each for each in left if each.reason.nodes), key=lambda g: -g.reason.nodes)
        told = [_told(cycle, each, matching) for each in _merged(left)[:_MOST_CAUSES]]
        one = matching == 1
        return (
            f"Only {matching} of {total} nodes {'matches' if one else 'match'} its"
            f" {_selector_text(cycle)}, and {_joined(told)}."
        )
    groups = _merged(groups)
    first = groups[0]
    if first.reason.nodes == total:
        said = _predicate(cycle, first)
        for negated, positive in _NEGATED:
            if said.startswith(negated):
                return f"No node {positive}{said.removeprefix(negated)}."
        every = nodes_text(total, total)
        return f"{every[0].upper()}{every[1:]} {said}."
    lacking = _offered_nowhere(cycle)
    if lacking:
        return f"No node offers {lacking}."
    told = [f"{each.reason.nodes} {_predicate(cycle, each)}" for each in groups[:_MOST_CAUSES]]
    more = ["others are refused for other reasons"] if len(groups) > _MOST_CAUSES else []
    return f"None of {total} nodes can take it: {_joined([*told, *more])}."


def refusal_of(pod: Pod, status: Status) -> str:
    """Why a pod is refused before any node is looked at, as a sentence."""
    said = status.message
    name = re.search(r'persistentvolumeclaim "([^"]*)"', said)
    if name is not None and "ephemeral volume controller" in said:
        return f"The claim {name[1]} of its ephemeral volume has not been created yet."
    if name is not None and said.endswith("not found"):
        return f"Its claim {name[1]} does not exist in the namespace {pod.metadata.namespace}."
    if "unbound immediate" in said:
        claims = ", ".join(claim.name for claim in claims_of(pod)[:3])
        return f"Its claims are not all bound to volumes yet ({claims})."
    return f"It is refused before any node is looked at: {said} ({status.plugin})."


def _offered_nowhere(cycle: Cycle) -> str:
    table = cycle.table
    for name, amount in cycle.info.request:
        if amount and not table.resources.offered(name)[table.live_rows].any():
            return f"{name} (it asks for {amount_text(name, amount)})"
    return ""


def _merged(groups: Sequence[Group]) -> list[Group]:
    """Of a plugin's reasons for the same nodes, the first: all are in the table."""
    seen: set[tuple[str, bytes]] = set()
    left: list[Group] = []
    for each in groups:
        key = (each.reason.plugin, np.sort(each.rows).tobytes())
        if key not in seen:
            seen.add(key)
            left.append(each)
    return left


def _told(cycle: Cycle, group: Group, of: int) -> str:
    """Of the nodes that a selector means."""
    said = _predicate(cycle, group)
    if of == 1:
        return f"it {said}"
    return f"{'all' if group.reason.nodes == of else group.reason.nodes} {said}"


def _selector_text(cycle: Cycle) -> str:
    spec = cycle.pod.spec
    parts: list[str] = []
    if spec.node_selector:
        wanted = ", ".join(f"{key}={value}" for key, value in list(spec.node_selector.items())[:3])
        parts.append(f"nodeSelector ({wanted})")
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        terms = compile_node_selector(affinity.required).terms
        shown = "; or ".join(", ".join(map(str, each.requirements)) for each in terms[:2])
        parts.append(f"node affinity ({shown})" if shown else "node affinity")
    return " and ".join(parts) or "node affinity"


def _label_hint(cycle: Cycle) -> str:
    """The first requirement that no node meets, and what nodes have instead."""
    spec, table = cycle.pod.spec, cycle.table
    wanted = list(compile_label_set(spec.node_selector).requirements)
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        terms = compile_node_selector(affinity.required).terms
        if len(terms) != 1:
            return ""
        wanted += terms[0].requirements
    for each in wanted:
        meeting = table.valid.copy()
        table.labels.narrow(meeting, (each,))
        if meeting.any():
            continue
        values = [value or '""' for value in values_of(table, each.key, each.values)]
        if not values:
            return f" No node has the label {each.key}."
        more = f" and {len(values) - 3} other values" if len(values) > 3 else ""
        return f" The nodes have {each.key}={', '.join(values[:3])}{more}."
    return " Each of these is true of some node, but no node has them all." if wanted else ""


def nodes_text(count: int, total: int) -> str:
    """`all 5 nodes`, `both nodes`, `3 of 5 nodes`, `the only node`."""
    if total == 1:
        return "the only node"
    if count == total == 2:
        return "both nodes"
    return f"all {total} nodes" if count == total else f"{count} of {total} nodes"


def _joined(parts: Sequence[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def _predicate(cycle: Cycle, group: Group) -> str:
    return _PREDICATES.get(group.reason.plugin, _other)(cycle, group)


def _resources(cycle: Cycle, group: Group) -> str:
    name = group.reason.reason.removeprefix(_INSUFFICIENT)
    if name == group.reason.reason:
        row = int(group.rows[0])
        most = f"{cycle.table.allowed_pods[row]} on {cycle.table.names[row]}"
        return f"{group.verb('hold', 'holds')} as many pods as allowed ({most})"
    amount = dict(cycle.info.request).get(name, 0)
    resources, rows = cycle.table.resources, group.rows
    offered = resources.offered(name)[rows]
    free = offered - resources.held(name)[rows]
    best = int(np.argmax(free))
    asked, largest = amount_text(name, amount), int(offered.max())
    if not largest:
        return f"{group.verb('offer', 'offers')} no {name} (it asks for {asked})"
    if amount > largest:
        most = amount_text(name, largest)
        small = f"it asks for {asked} {name}, and none has more than {most}"
        return f"{group.verb('are', 'is')} too small ({small})"
    most = amount_text(name, max(int(free[best]), 0))
    where = cycle.table.names[int(rows[best])]
    return (
        f"{group.verb('have', 'has')} too little free {name} (it asks for {asked}, at most {most}"
        f" is free, on {where})"
    )


def _taint(cycle: Cycle, group: Group) -> str:
    taints = {untolerated(cycle, int(row)) for row in group.rows[:1000]} - {None}
    have = group.verb("have", "has")
    if len(taints) != 1:
        return f"{have} taints that it does not tolerate"
    (taint,) = taints
    assert taint is not None
    return f"{have} the taint {taint_text(taint)}, which it does not tolerate"


def _selector(cycle: Cycle, group: Group) -> str:
    return f"{group.verb('do not match', 'does not match')} its {_selector_text(cycle)}"


def _cordoned(cycle: Cycle, group: Group) -> str:
    return f"{group.verb('are', 'is')} cordoned"


def _ports(cycle: Cycle, group: Group) -> str:
    ports = ", ".join(f"{each.port}/{each.protocol}" for each in cycle.info.host_ports[:3])
    return f"{group.verb('have', 'has')} no free host port {ports}"


def _spread(cycle: Cycle, group: Group) -> str:
    found = group.sample(cycle).spread
    if not found:
        return _other(cycle, group)
    first = found[0]
    if first.domain is None:
        return (
            f"{group.verb('lack', 'lacks')} the label {first.topology_key} that it is spread over"
        )
    per = key_text(first.topology_key)
    return (
        f"would break its topology spread of {first.selector} per {per}, maxSkew {first.max_skew}"
        f" ({counts_text(first)})"
    )


def _affinity(cycle: Cycle, group: Group) -> str:
    of_others = "existing pods" in group.reason.reason
    kind_text = "anti-affinity" if "anti-affinity" in group.reason.reason else "affinity"
    for found in group.sample(cycle).affinity:
        if (found.kind == NEAR) != (kind_text == "affinity") or found.is_of_others != of_others:
            continue
        first = found.pods[0] if found.pods else None
        if found.domain is None:
            lack = group.verb("lack", "lacks")
            return f"{lack} the label {found.topology_key}, which its pod {kind_text} needs"
        if found.kind == NEAR:
            near = (
                ""
                if found.topology_key == HOSTNAME
                else f" in the same {key_text(found.topology_key)}"
            )
            there = f"there is {first.pod} on {first.node}" if first else "no pod does anywhere"
            have = group.verb("have", "has")
            return f"{have} no pod{near} that matches its affinity to {found.selector} ({there})"
        assert first is not None
        where = (
            ""
            if found.topology_key == HOSTNAME
            else f", {domain_text(found.topology_key, found.domain)}"
        )
        such = f"such as {first.pod} on {first.node}{where}"
        are = group.verb("are", "is")
        if of_others:
            return f"{are} excluded by other pods' anti-affinity to {found.selector} ({such})"
        return f"{are} excluded by its own anti-affinity to {found.selector} ({such})"
    return _other(cycle, group)


def _volumes(cycle: Cycle, group: Group) -> str:
    found = group.sample(cycle)
    if not found.volumes:
        return _other(cycle, group)
    first = found.volumes[0]
    if first.driver:
        have = group.verb("have", "has")
        most = f"{first.attached} of {first.limit} on {cycle.table.names[int(group.rows[0])]}"
        return f"{have} no room for another volume of the driver {first.driver} ({most})"
    if first.used_by is not None:
        what = f"its claim {first.claim}" if first.claim else "a disk that it mounts"
        return f"cannot give it {what}: {first.used_by.pod} on {first.used_by.node} uses it"
    if first.only_where:
        there = "no node is" if not first.nodes else f"only {first.nodes} of {len(cycle.table)} are"
        return (
            f"cannot use the volume {first.volume} (claim {first.claim}): it is only"
            f" {first.only_where}, where {there}"
        )
    return f"cannot serve its claims: {found.detail}"


def _devices(cycle: Cycle, group: Group) -> str:
    found = group.sample(cycle)
    if not found.devices:
        return f"cannot serve its claims: {found.detail}" if found.detail else _other(cycle, group)
    first = found.devices[0]
    if first.needed is None:
        many = "all devices"
    else:
        many = f"{first.needed} device{'' if first.needed == 1 else 's'}"
    on = f"{cycle.table.names[int(group.rows[0])]} has {first.free} of {first.offered} for it"
    return (
        f"cannot give the request {first.request} of its claim {first.claim} {many} of the class"
        f" {first.device_class} ({on})"
    )


def _node_name(cycle: Cycle, group: Group) -> str:
    return f"{group.verb('are', 'is')} not the node that it names"


def _other(cycle: Cycle, group: Group) -> str:
    reason = group.reason
    by = f" ({reason.plugin})" if reason.plugin else ""
    return f"{group.verb('say', 'says')} {reason.reason}{by}"


_PREDICATES: Final[dict[str, _Predicate]] = {
    "NodeResourcesFit": _resources,
    "TaintToleration": _taint,
    "NodeAffinity": _selector,
    "NodeUnschedulable": _cordoned,
    "NodePorts": _ports,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _affinity,
    "NodeName": _node_name,
    "DynamicResources": _devices,
    "VolumeBinding": _volumes,
    "VolumeZone": _volumes,
    "NodeVolumeLimits": _volumes,
    "VolumeRestrictions": _volumes,
}
