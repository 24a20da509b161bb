"""Findings about claims of devices: allocations that collide, and reservations without a pod."""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.audit.devices import Fault, Key
from stowplan.audit.findings import Finding, Options, shown_time
from stowplan.audit.world import World


def claim_finding(
    world: World, key: Key, fault: Fault, *, revision: int = 0, at: float = 0.0
) -> Finding:
    """A finding about a claim; its pod is the first that the claim is reserved for."""
    consumers = world.devices.claims[key].status.reserved_for or ()
    pods = [world.pods.get(f"{key[0]}/{each.name}") for each in consumers]
    pod = next((each for each in pods if each is not None), None)
    return Finding(
        kind=fault.kind,
        pod=pod.key if pod is not None else "",
        uid=pod.uid if pod is not None else "",
        node=pod.node if pod is not None else "",
        scheduler=pod.scheduler if pod is not None else "",
        message=fault.message,
        time=shown_time(at),
        revision=revision,
    )


def allocation_findings(world: World) -> Iterable[Finding]:
    """Of a cluster as it is: one finding for a device, with the last claim by name."""
    seen: set[tuple[str, str]] = set()
    for key in sorted(world.devices.claims, reverse=True):
        for fault in world.devices.faults_of_claim(key, None):
            if (fault.kind, fault.about) not in seen:
                seen.add((fault.kind, fault.about))
                yield claim_finding(world, key, fault)


def stale_reservations(world: World, options: Options) -> Iterable[Finding]:
    """Pods that went, or ended, longer ago than the grace period, and still hold a claim."""
    for claim, key, uid in world.devices.reservations():
        pod = world.pods.get(key)
        if pod is not None and pod.uid == uid and not pod.pod.is_finished:
            continue
        gone_at = world.devices.gone_at.get(uid)
        since = gone_at if gone_at is not None else world.devices.changed_at(claim)
        if since > world.now - options.grace_s:
            continue
        why = "has ended" if pod is not None and pod.uid == uid else "does not exist"
        yield Finding(
            kind="reservation",
            pod=key,
            uid=uid,
            scheduler=pod.scheduler if pod is not None else "",
            message=f"resource claim {claim[1]} is still reserved for it, and it {why}",
            # The pod is gone: only its claim names it, without a time of deletion.
            maybe_later=gone_at is None,
            time=shown_time(since),
        )
