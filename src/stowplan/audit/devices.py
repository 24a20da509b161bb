"""Devices allocated twice, allocated beyond capacity, or allocated although they do not exist.

`World` keeps one `Devices`. An allocation is judged when it is written, against the slices of that
moment; a slice that changed since the scheduler may have looked excuses it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from stowplan.api.device_objects import (
    AllocatedDevice,
    Counter,
    Device,
    Quantity,
    ResourceClaim,
    ResourceSlice,
)
from stowplan.api.objects import Pod
from stowplan.api.quantity import format_quantity, nanos

Key: TypeAlias = tuple[str, str]
PoolId: TypeAlias = tuple[str, str]

RESOURCE_CLAIM: Final = "ResourceClaim"


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class Reservation(NamedTuple):
    """A pod that a claim is reserved for."""

    claim: Key
    pod: str
    uid: str


class Fault(NamedTuple):
    """A kind of finding and its message; `about` is the device, counter or claim."""

    kind: str
    message: str
    about: str


class Devices:
    """Claims and slices by name, and which claims hold a device."""

    def __init__(self) -> None:
        self.claims: dict[Key, ResourceClaim] = {}
        #: The version of a claim that was replaced last, and when.
        self._before: dict[Key, tuple[float, ResourceClaim | None]] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._slices_of: defaultdict[PoolId, set[str]] = defaultdict(set)
        self._changed_at: dict[PoolId, float] = {}
        #: Claims that hold a device, with their results for it; not those with admin access.
        self._holders: defaultdict[DeviceId, dict[Key, list[AllocatedDevice]]] = defaultdict(dict)
        self._held_of: defaultdict[PoolId, set[DeviceId]] = defaultdict(set)
        #: When pods with claims went or ended, by UID.
        self.gone_at: dict[str, float] = {}

    # What there is

    def set_slice(self, name: str, found: ResourceSlice | None, now: float) -> None:
        for each in (self._slices.get(name), found):
            if each is not None:
                self._changed_at[each.spec.driver, each.spec.pool.name] = now
        old = self._slices.pop(name, None)
        if old is not None:
            self._slices_of[old.spec.driver, old.spec.pool.name].discard(name)
        if found is not None:
            self._slices[name] = found
            self._slices_of[found.spec.driver, found.spec.pool.name].add(name)

    def set_claim(self, key: Key, found: ResourceClaim | None, now: float) -> None:
        old = self.claims.pop(key, None)
        self._before[key] = (now, old)
        for device, _ in _held(old):
            self._holders[device].pop(key, None)
            if not self._holders[device]:
                del self._holders[device]
                self._held_of[device.driver, device.pool].discard(device)
        if found is None:
            return
        self.claims[key] = found
        for device, result in _held(found):
            self._holders[device].setdefault(key, []).append(result)
            self._held_of[device.driver, device.pool].add(device)

    def is_new(self, key: Key) -> bool:
        """True if the claim was allocated by its last change."""
        before = self._before.get(key, (0.0, None))[1]
        was_allocated = before is not None and before.status.allocation is not None
        found = self.claims.get(key)
        return found is not None and found.status.allocation is not None and not was_allocated

    def changed_at(self, key: Key) -> float:
        return self._before.get(key, (0.0, None))[0]

    # Claims

    def faults_of_claim(self, key: Key, since: float | None) -> list[Fault]:
        """What is wrong with an allocation. Slices that changed since then excuse it."""
        found: list[Fault] = []
        for device in dict(_held(self.claims.get(key))):
            found += self._shared_wrongly(key, device)
            pool = (device.driver, device.pool)
            if since is None or self._changed_at.get(pool, 0.0) < since:
                found += self._too_much(device)
        return found

    def _shared_wrongly(self, key: Key, device: DeviceId) -> Iterator[Fault]:
        holders = self._holders[device]
        everything = [result for results in holders.values() for result in results]
        if len(everything) < 2 or all(result.share_id is not None for result in everything):
            return
        others = sorted("/".join(other) for other in holders if other != key)
        if others:
            text = f"device {device} is allocated to claim {'/'.join(key)} and to {others[0]}"
        else:
            text = f"device {device} is allocated twice to claim {'/'.join(key)}"
        yield Fault("device", text, str(device))

    def _too_much(self, device: DeviceId) -> Iterator[Fault]:
        """Capacity of the device itself, and counters that it shares with others."""
        described = self._described(device)
        if described is None:
            return
        taken: defaultdict[str, int] = defaultdict(int)
        for results in self._holders[device].values():
            for result in results:
                for name, amount in (result.consumed_capacity or {}).items():
                    taken[name] += nanos(amount)
        for name, amount in sorted(taken.items()):
            capacity = (described.capacity or {}).get(name)
            there = nanos(capacity.value) if capacity is not None else 0
            if amount > there:
                sums = f"{_shown(amount)} of {_shown(there)}"
                about = f"{name} of device {device}"
                yield Fault("device-capacity", f"{about}: {sums} is taken", about)
        for use in described.consumes_counters or ():
            yield from self._counters(device, use.counter_set)

    def _counters(self, device: DeviceId, counter_set: str) -> Iterator[Fault]:
        pool = (device.driver, device.pool)
        there: dict[str, Counter] = {}
        for each in self._current(pool):
            for counters in each.spec.shared_counters or ():
                if counters.name == counter_set:
                    there.update(counters.counters or {})
        taken: defaultdict[str, int] = defaultdict(int)
        for held in self._held_of[pool]:
            described = self._described(held)
            for use in (described.consumes_counters if described else None) or ():
                if use.counter_set == counter_set:
                    for name, counter in (use.counters or {}).items():
                        taken[name] += nanos(counter.value)
        for name, amount in sorted(taken.items()):
            most = nanos(there[name].value) if name in there else 0
            if amount > most:
                sums = f"{_shown(amount)} of {_shown(most)} is taken"
                about = f"counter {name} of {counter_set} in pool {'/'.join(pool)}"
                text = f"{about}: {sums}, with device {device.device}"
                yield Fault("device-capacity", text, about)

    def _described(self, device: DeviceId) -> Device | None:
        for each in self._current((device.driver, device.pool)):
            for described in each.spec.devices or ():
                if described.name == device.device:
                    return described
        return None

    def _current(self, pool: PoolId) -> list[ResourceSlice]:
        """The slices of a pool's latest generation."""
        many = [self._slices[name] for name in sorted(self._slices_of[pool])]
        latest = max((each.spec.pool.generation for each in many), default=0)
        return [each for each in many if each.spec.pool.generation == latest]

    # Pods

    def faults_of_pod(self, pod: Pod, since: float | None) -> Iterator[Fault]:
        """Claims that do not serve a bound pod. One that served it since then excuses it."""
        namespace, uid = pod.metadata.namespace, pod.metadata.uid
        for name in claim_names(pod):
            key = (namespace, name)
            problem = _unusable(self.claims.get(key), uid)
            until, before = self._before.get(key, (0.0, None))
            if problem and since is not None and until >= since and not _unusable(before, uid):
                continue
            if problem:
                yield Fault("device-claim", f"resource claim {name} {problem}", name)

    def reservations(self) -> Iterator[Reservation]:
        for key, claim in self.claims.items():
            for consumer in claim.status.reserved_for or ():
                if consumer.resource == "pods" and not consumer.api_group:
                    yield Reservation(key, f"{key[0]}/{consumer.name}", consumer.uid)


def claim_names(pod: Pod) -> list[str]:
    """The resource claims of a pod, as far as they are made."""
    names = [each.resource_claim_name for each in pod.spec.resource_claims or ()]
    names += [each.resource_claim_name for each in pod.status.resource_claim_statuses or ()]
    names.append((pod.status.extended_resource_claim_status or {}).get("resourceClaimName"))
    return [name for name in names if name]


def _held(claim: ResourceClaim | None) -> Iterable[tuple[DeviceId, AllocatedDevice]]:
    allocation = claim.status.allocation if claim is not None else None
    for result in (allocation.devices.results if allocation is not None else None) or ():
        if not result.admin_access:
            yield DeviceId(result.driver, result.pool, result.device), result


def _unusable(claim: ResourceClaim | None, uid: str) -> str:
    if claim is None:
        return "does not exist"
    if claim.status.allocation is None:
        return "is not allocated"
    if not any(consumer.uid == uid for consumer in claim.status.reserved_for or ()):
        return "is not reserved for it"
    return ""


def _shown(amount: int) -> Quantity:
    return format_quantity(f"{amount}n")
