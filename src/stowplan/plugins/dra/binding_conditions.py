"""Devices that must be prepared before a pod is bound: conditions that their driver reports.

An allocated device can name conditions that must become true in the claim's status, and conditions
that mean failure. A pod waits for them in PreBind. A claim whose devices failed, or are not ready
in time, is given back in PostFilter of the next attempt (`DynamicResources`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from stowplan.api.device_objects import AllocatedDevice, DeviceStatus, ResourceClaim
from stowplan.clock import parse_rfc3339

Outcome = Literal["success", "failure", "timeout", "error"]


class BindingProblem(Exception):
    """The reason why devices are not ready; `outcome` is the label that metrics have for it."""

    def __init__(self, text: str, outcome: Outcome) -> None:
        super().__init__(text)
        self.outcome = outcome


def timed_out(detail: str) -> BindingProblem:
    return BindingProblem(f"device binding timeout: {detail}", "timeout")


def has_conditions(claims: Iterable[ResourceClaim]) -> bool:
    """Whether a device of the claims has to be prepared."""
    return any(device.binding_conditions for claim in claims for device in devices_of(claim))


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all devices of an allocated claim are prepared. BindingProblem: one failed."""
    if claim.status.allocation is None:
        return False
    for device in devices_of(claim):
        if not device.binding_conditions:
            continue
        status = _status_of(claim, device)
        if status is None:
            return False
        known = {each.type: each for each in status.conditions or () if each.status == "True"}
        for name in _failures(device):
            condition = known.get(name)
            if condition is not None:
                raise BindingProblem(
                    f"device binding failed: claim={claim.metadata.name}, "
                    f"reason={condition.reason}, message={json.dumps(condition.message)}",
                    "failure",
                )
        if not set(device.binding_conditions) <= set(known):
            return False
    return True


def is_overdue(claim: ResourceClaim, timeout_s: float, now: float) -> bool:
    """Whether a claim with binding conditions was allocated too long before the time of day."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if all(device.binding_conditions is None for device in devices_of(claim)):
        return False
    return parse_rfc3339(allocation.allocation_timestamp) + timeout_s < now


def devices_of(claim: ResourceClaim) -> tuple[AllocatedDevice, ...]:
    allocation = claim.status.allocation
    return (allocation.devices.results if allocation is not None else None) or ()


@dataclass(frozen=True, slots=True)
class Preparation:
    """How far a device with binding conditions is."""

    device: AllocatedDevice
    pending: tuple[str, ...]
    failed: tuple[str, ...]

    def __str__(self) -> str:
        device = self.device
        text = f"<driver={device.driver}, pool={device.pool}> {device.device}"
        if self.failed:
            text += f" failed=[{','.join(self.failed)}]"
        if self.pending:
            text += f" pending=[{','.join(self.pending)}]"
        return text


def preparations(claim: ResourceClaim) -> Iterator[Preparation]:
    """Of every device with binding conditions."""
    for device in devices_of(claim):
        if not device.binding_conditions:
            continue
        status = _status_of(claim, device)
        true = _true(status) if status is not None else frozenset()
        yield Preparation(
            device,
            tuple(each for each in device.binding_conditions if each not in true),
            tuple(each for each in _failures(device) if each in true),
        )


def summary(claims: Iterable[ResourceClaim], outcome: Outcome) -> str:
    """The devices that an outcome is about, for the log."""
    found = [each for claim in claims for each in preparations(claim)]
    if outcome == "success":
        chosen = [each for each in found if not each.pending and not each.failed]
    elif outcome == "failure":
        chosen = [Preparation(each.device, (), each.failed) for each in found if each.failed]
    else:
        chosen = [each for each in found if each.pending and not each.failed]
    return "; ".join(map(str, chosen))


def _failures(device: AllocatedDevice) -> tuple[str, ...]:
    return device.binding_failure_conditions or ()


def _status_of(claim: ResourceClaim, device: AllocatedDevice) -> DeviceStatus | None:
    for status in claim.status.devices or ():
        if (status.device, status.driver, status.pool) == (
            device.device,
            device.driver,
            device.pool,
        ):
            return status
    return None


def _true(status: DeviceStatus) -> frozenset[str]:
    return frozenset(each.type for each in status.conditions or () if each.status == "True")
