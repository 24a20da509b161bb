"""Counters that the devices of a pool share: partitions of one GPU, for example."""

from __future__ import annotations

from collections.abc import Callable

from stowplan.api.device_objects import Device
from stowplan.api.quantity import nanos
from stowplan.plugins.dra.pools import DeviceId, Pool, device_id

#: Amounts by counter set and counter.
_Amounts = dict[tuple[str, str], int]


class Counters:
    """What is left of the counters of all pools, and what the current attempt has taken.

    A pool is identified by its name alone, as upstream does, even across drivers.
    """

    def __init__(self, is_allocated: Callable[[DeviceId], bool]) -> None:
        self._is_allocated = is_allocated
        self._available: dict[str, _Amounts] = {}
        self._taken: dict[str, _Amounts] = {}

    def take(self, pool: Pool, device: Device) -> bool:
        """Take what a device consumes; False, and nothing is taken, if that is not left."""
        name = pool.id[1]
        available = self._available.get(name)
        if available is None:
            available = self._available[name] = self.left_of(pool)
        taken = self._taken.setdefault(name, {})
        for key, amount in consumption(device):
            taken[key] = taken.get(key, 0) + amount
        if all(taken.get(key, 0) <= amount for key, amount in available.items()):
            return True
        self.give_back(pool, device)
        return False

    def give_back(self, pool: Pool, device: Device) -> None:
        taken = self._taken[pool.id[1]]
        for key, amount in consumption(device):
            taken[key] -= amount

    def left_of(self, pool: Pool) -> _Amounts:
        """The counters without what allocated devices consume; can be negative."""
        left = {
            (counters.name, name): nanos(counter.value)
            for counters in pool.counter_sets.values()
            for name, counter in (counters.counters or {}).items()
        }
        for one in [*pool.slices, *pool.elsewhere]:
            for device in one.spec.devices or ():
                if device.consumes_counters and self._is_allocated(device_id(one, device)):
                    for key, amount in consumption(device):
                        if key in left:
                            left[key] -= amount
        return left


def consumption(device: Device) -> list[tuple[tuple[str, str], int]]:
    """What a device takes of each counter, by set and name."""
    return [
        ((consumed.counter_set, name), nanos(counter.value))
        for consumed in device.consumes_counters or ()
        for name, counter in (consumed.counters or {}).items()
    ]
