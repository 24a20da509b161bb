"""Devices that claims hold, counted, so that claims can come and go one by one."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.api.device_objects import AllocatedDevice, Quantity, ResourceClaim
from stowplan.api.quantity import nanos
from stowplan.cluster.journal import ChangeLog
from stowplan.plugins.dra.pools import DeviceId


class Allocated:
    """Devices that claims hold.

    DIVERGES: kube-scheduler keeps a set, so a device that two claims hold is free again for it when
    the first of them goes.
    """

    def __init__(self) -> None:
        #: Devices of one claim each, and how many claims say that they have it.
        self.devices: dict[DeviceId, int] = {}
        #: Devices with room for several claims: how many have a share of it.
        self.shares: dict[DeviceId, int] = {}
        #: What their shares consume, in billionths, by the name of the capacity.
        self.consumed: dict[DeviceId, dict[str, int]] = {}
        #: Devices that were taken or given back.
        self.log: ChangeLog[DeviceId] = ChangeLog()

    def __contains__(self, device: DeviceId) -> bool:
        return device in self.devices or device in self.shares

    def add(self, claim: ResourceClaim) -> None:
        for key, device in held(claim):
            counts = self.devices if device.share_id is None else self.shares
            counts[key] = counts.get(key, 0) + 1
            self.log.append(key)
            if device.share_id is not None:
                consumed = self.consumed.setdefault(key, {})
                for name, amount in (device.consumed_capacity or {}).items():
                    consumed[name] = consumed.get(name, 0) + _amount(amount)

    def remove(self, claim: ResourceClaim) -> None:
        for key, device in held(claim):
            counts = self.devices if device.share_id is None else self.shares
            counts[key] -= 1
            self.log.append(key)
            if device.share_id is not None:
                consumed = self.consumed[key]
                for name, amount in (device.consumed_capacity or {}).items():
                    consumed[name] -= _amount(amount)
            if not counts[key]:
                del counts[key]
                if device.share_id is not None:
                    del self.consumed[key]


def held(claim: ResourceClaim) -> Iterator[tuple[DeviceId, AllocatedDevice]]:
    """The devices of a claim, but for admin access, which takes nothing from others."""
    allocation = claim.status.allocation
    for device in (allocation.devices.results if allocation is not None else None) or ():
        if not device.admin_access:
            yield (device.driver, device.pool, device.device), device


def _amount(quantity: Quantity) -> int:
    """In billionths; the API server stores no quantity that cannot be read."""
    try:
        return nanos(quantity)
    except ValueError:
        return 0
