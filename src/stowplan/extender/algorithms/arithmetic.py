"""Sums over resources: what a node has, what its pods use, what another pod would leave.

Pure functions for the algorithms. Reads and writes share a node's memory bandwidth: a node that can
read r times as fast as it can write loses r units of reading with each unit written, and 1/r of
writing with each unit read. Invariant: nothing here raises for any number; a dimension that is
unknown for the node or the app, or not a number, is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeGuard

from stowplan.extender.data import AppName, Apps, Resource, Resources

#: More bytes than a cluster has, and less than any part of a resource.
_LARGEST: Final = 1e18
_SMALLEST: Final = 1e-12
_READ, _WRITE, _FLAT = Resource.MEMBW_READ, Resource.MEMBW_WRITE, Resource.MEMBW_FLAT


class Balance(NamedTuple):
    """A node and an app, by the dimensions that are known of both."""

    capacity: Resources
    #: By the pods that are on the node already.
    used: Resources
    #: By one pod of the app.
    requested: Resources
    #: How many times as fast as it writes the node can read; None where that plays no part.
    read_write_ratio: float | None

    def free_after(self) -> Resources:
        """What would be left with one pod of the app more."""
        return subtract(self.capacity, self._with_pod(), self.read_write_ratio)

    def fractions(self) -> Resources:
        """Which part of each resource would be used with one pod of the app more; reads and
        writes count as one resource."""
        return divide(self._with_pod(), self.capacity, self.read_write_ratio)

    def _with_pod(self) -> Resources:
        return add(self.requested, self.used)


def used_by(apps: Apps, needs: Mapping[AppName, Resources], known: Iterable[Resource]) -> Resources:
    """What pods use; apps of which nothing is known use nothing."""
    used: Resources = dict.fromkeys(known, 0.0)
    for app, tasks in apps.items():
        need = needs.get(app)
        if need is None:
            continue
        for resource in used:
            amount = need.get(resource)
            if is_number(amount):
                used[resource] += amount * len(tasks)
    return used


def add(a: Resources, b: Resources) -> Resources:
    """`a` with what `b` has of the same dimensions."""
    return {resource: amount + b.get(resource, 0.0) for resource, amount in a.items()}


def subtract(a: Resources, b: Resources, ratio: float | None = None) -> Resources:
    """`a` less what `b` takes of it."""
    rest = {resource: amount - b.get(resource, 0.0) for resource, amount in a.items()}
    if ratio is not None:
        read, write = b.get(_READ, 0.0), b.get(_WRITE, 0.0)
        rest[_READ] = a[_READ] - (read + write * ratio)
        rest[_WRITE] = a[_WRITE] - (write + read / ratio)
    return rest


def divide(a: Resources, b: Resources, ratio: float | None = None) -> Resources:
    """Which part of `b` each of `a` is. Of what there is nothing of, nothing is none of it and
    anything all of it."""
    if ratio is not None:
        a, b = flattened(a, ratio), flattened(b, ratio)
    return {
        resource: amount / b[resource] if b[resource] > 0 else float(amount > 0)
        for resource, amount in a.items()
    }


def flattened(resources: Resources, ratio: float | None) -> Resources:
    """With reads and writes as one number, if there are any."""
    if ratio is None:
        return resources
    flat = {r: amount for r, amount in resources.items() if r not in (_READ, _WRITE)}
    flat[_FLAT] = resources.get(_READ, 0.0) + ratio * resources.get(_WRITE, 0.0)
    return flat


def read_write_ratio(capacity: Resources) -> float | None:
    """None where the capacity has no bandwidths, or one of them is none at all."""
    read, write = capacity.get(_READ, 0.0), capacity.get(_WRITE, 0.0)
    return read / write if read > 0 and write > 0 else None


def numbers(resources: Resources) -> Resources:
    """Only what is a number."""
    return {resource: amount for resource, amount in resources.items() if is_number(amount)}


def is_number(amount: float | None) -> TypeGuard[float]:
    """False also for extreme numbers: they are measuring errors and would break sums."""
    if not isinstance(amount, int | float):
        return False
    return amount == 0 or _SMALLEST <= abs(amount) <= _LARGEST
