"""Edits of the pod itself: tolerations, requests, weaker spreading and affinity."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stowplan.api.objects import (
    Container,
    Pod,
    PodAffinity,
    Taint,
    Toleration,
    WeightedPodAffinityTerm,
)
from stowplan.api.quantity import milli_value, value
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from stowplan.explain.change import EDIT_POD, GIVE_UP, Change, with_spec
from stowplan.explain.commands import add_tolerations, owner_of, patch_spec, set_requests
from stowplan.explain.node_details import all_untolerated, amount_text, taint_text
from stowplan.framework.cycle import Cycle

#: Taints by which the cluster says that something is wrong with a node.
CONDITION_TAINTS: Final = "node.kubernetes.io/"
#: What the API server's admission adds to every pod.
_ADMITTED: Final = tuple(
    Toleration(f"node.kubernetes.io/{key}", "Exists", "", "NoExecute", 300)
    for key in ("not-ready", "unreachable")
)
_MI: Final = 1 << 20
_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


# Tolerations


def tolerate(cycle: Cycle, row: int, catalog: Catalog) -> Change | None:
    """Tolerate all of a node's taints that the pod does not."""
    pod, missing = cycle.pod, all_untolerated(cycle, row)
    if not missing or any(taint.key.startswith(CONDITION_TAINTS) for taint in missing):
        return None
    added = tuple(_toleration(taint) for taint in missing)
    named = " and ".join(taint_text(taint) for taint in missing)
    return Change(
        "Toleration",
        f"tolerate the taint{'s' if len(missing) > 1 else ''} {named}",
        EDIT_POD + len(missing) - 1,
        _tolerate_command(pod, catalog, added),
        pod=with_spec(pod, tolerations=(*(pod.spec.tolerations or ()), *added)),
        steps=frozenset(f"tolerate {taint_text(taint)}" for taint in missing),
    )


def _toleration(taint: Taint) -> Toleration:
    return Toleration(taint.key, "Equal" if taint.value else "Exists", taint.value, taint.effect)


def _tolerate_command(pod: Pod, catalog: Catalog, added: tuple[Toleration, ...]) -> str:
    """Tolerations of a pod can be added to, so that it needs no owner."""
    owner = owner_of(pod, catalog)
    known = pod.spec.tolerations or ()
    if owner is None:
        return add_tolerations(pod, added)
    own = [
        each
        for each in known
        if each not in _ADMITTED
        and not (owner.kind == "DaemonSet" and each.key.startswith(CONDITION_TAINTS))
    ]
    return patch_spec(pod, catalog, {"tolerations": msgspec.to_builtins((*own, *added))})


# Requests


def lower_requests(cycle: Cycle, row: int, catalog: Catalog) -> Change | None:
    """Request no more than what is free on a node, in the container that requests most."""
    table, pod = cycle.table, cycle.pod
    said: list[str] = []
    share = 0.0
    by_container: dict[str, dict[str, str]] = {}
    lowered: list[tuple[str, str, int]] = []
    for name, amount in cycle.info.request:
        free = max(table.resources.offered_on(name, row) - table.resources.held_on(name, row), 0)
        if amount <= free:
            continue
        place = _largest(pod, name, amount - free) if free else None
        if place is None:
            return None
        container = (pod.spec.containers or ())[place]
        before = _amount(container, name)
        after = _rounded(name, before - (amount - free))
        if after <= 0:
            return None
        pod = _with_request(pod, place, name, after)
        share = max(share, (before - after) / before)
        asked, was = exact_text(name, after), amount_text(name, before)
        said.append(
            f"lower the {name} request of the container {container.name} from {was} to {asked}"
        )
        by_container.setdefault(container.name, {})[name] = asked
        lowered.append((container.name, name, after))
    if not said:
        return None
    commands = [_request_command(pod, catalog, *each) for each in by_container.items()]
    command = " && ".join(commands) if all(commands) else ""
    cost = EDIT_POD + 10 * share
    text = " and ".join(said)
    return Change("Request", text, cost, command, pod=pod, lowered=tuple(lowered))


def _request_command(pod: Pod, catalog: Catalog, container: str, requests: dict[str, str]) -> str:
    # The API server wants requests of extended resources and huge pages to equal the limits.
    limits = {name: text for name, text in requests.items() if name not in _NATIVE}
    return set_requests(pod, catalog, container, requests, limits)


def exact_text(name: str, amount: int) -> str:
    """An amount as manifests have it, not rounded."""
    if name == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-"):
        for suffix, size in (("Gi", _MI << 10), ("Mi", _MI), ("Ki", 1 << 10)):
            if amount and amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


def _rounded(name: str, amount: int) -> int:
    """Round down to whole mebibytes, the unit that manifests use."""
    if name in (MEMORY, EPHEMERAL_STORAGE) and amount > _MI:
        return amount // _MI * _MI
    return amount


def _largest(pod: Pod, name: str, by: int) -> int | None:
    """The container that requests most, if it requests more than `by`."""
    spec = pod.spec
    if spec.resources is not None and name in (spec.resources.requests or {}):
        return None  # a pod-level request, which the containers' sum must not exceed
    amounts = [_amount(each, name) for each in spec.containers or ()]
    return amounts.index(max(amounts)) if amounts and max(amounts) > by else None


def _amount(container: Container, name: str) -> int:
    requests = (container.resources.requests if container.resources is not None else None) or {}
    raw = requests.get(name, 0)
    return milli_value(raw) if name == CPU else value(raw)


def _with_request(pod: Pod, place: int, name: str, amount: int) -> Pod:
    containers = list(pod.spec.containers or ())
    container = containers[place]
    assert container.resources is not None
    requests = {**(container.resources.requests or {}), name: exact_text(name, amount)}
    resources = msgspec.structs.replace(container.resources, requests=requests)
    containers[place] = msgspec.structs.replace(container, resources=resources)
    return with_spec(pod, containers=tuple(containers))


# Spreading and affinity


def relax_spread(cycle: Cycle, _row: int, catalog: Catalog) -> Change | None:
    """Spread only as far as possible."""
    pod = cycle.pod
    constraints = pod.spec.topology_spread_constraints or ()
    hard = [each for each in constraints if each.when_unsatisfiable == "DoNotSchedule"]
    if not hard:
        return None
    relaxed = tuple(
        msgspec.structs.replace(each, when_unsatisfiable="ScheduleAnyway", min_domains=None)
        for each in constraints
    )
    keys = ", ".join(each.topology_key for each in hard)
    command = ""
    if not any(each.match_label_keys for each in constraints):  # the API server has expanded them
        spelled = [{**msgspec.to_builtins(each), "maxSkew": each.max_skew} for each in relaxed]
        command = patch_spec(pod, catalog, {"topologySpreadConstraints": spelled})
    return Change(
        "TopologySpread",
        f"set whenUnsatisfiable of its spread over {keys} to ScheduleAnyway",
        GIVE_UP,
        command,
        pod=with_spec(pod, topology_spread_constraints=relaxed),
    )


def relax_affinity(cycle: Cycle, _row: int, catalog: Catalog) -> Change | None:
    """Prefer what pod affinity and anti-affinity require."""
    affinity = cycle.pod.spec.affinity
    if affinity is None:
        return None
    relaxed = affinity
    patch: dict[str, Any] = {}
    has_keys = False
    for name, shown in (("pod_affinity", "podAffinity"), ("pod_anti_affinity", "podAntiAffinity")):
        part: PodAffinity | None = getattr(affinity, name)
        if part is None or not part.required:
            continue
        has_keys |= any(each.match_label_keys or each.mismatch_label_keys for each in part.required)
        wishes = tuple(WeightedPodAffinityTerm(100, term) for term in part.required)
        weaker = PodAffinity(None, (*(part.preferred or ()), *wishes))
        relaxed = msgspec.structs.replace(relaxed, **{name: weaker})
        patch[shown] = {
            "requiredDuringSchedulingIgnoredDuringExecution": None,
            "preferredDuringSchedulingIgnoredDuringExecution": msgspec.to_builtins(
                weaker.preferred
            ),
        }
    if not patch:
        return None
    return Change(
        "PodAffinity",
        f"make its required {' and '.join(patch)} a preferred one",
        GIVE_UP,
        "" if has_keys else patch_spec(cycle.pod, catalog, {"affinity": patch}),
        pod=with_spec(cycle.pod, affinity=relaxed),
    )
