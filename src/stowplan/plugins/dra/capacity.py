"""Capacity of devices that several claims can share.

A request consumes of each capacity what it asks for, rounded up by the device's policy; what it
does not mention, by the policy's default or whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.api.device_objects import (
    CapacityRange,
    CapacityRequestPolicy,
    CapacityRequirements,
    Device,
    DeviceCapacity,
    Quantity,
)
from stowplan.api.quantity import Family, nanos, parse_quantity
from stowplan.api.quantity import Quantity as ParsedQuantity

_NANO = 1_000_000_000

#: What is consumed of a device's capacities, by name.
Consumed = dict[str, Quantity]


def consumed_by(request: CapacityRequirements | None, device: Device) -> Consumed | None:
    """What a request would consume of a device; None if the device lacks a capacity that it names,
    or its policy forbids the amount.
    """
    capacities = device.capacity or {}
    asked = (request.requests if request is not None else None) or {}
    if not set(asked) <= set(capacities):
        return None
    consumed: Consumed = {}
    for name, capacity in capacities.items():
        amount = _rounded(asked.get(name), capacity)
        if _violates(amount, capacity.request_policy):
            return None
        consumed[name] = amount
    return consumed


def fits(device: Device, held: Mapping[str, int], *parts: Mapping[str, Quantity]) -> bool:
    """Whether a device has room for all parts besides what is held, which is in billionths."""
    return all(
        held.get(name, 0) + sum(nanos(part.get(name, 0)) for part in parts) <= nanos(capacity.value)
        for name, capacity in (device.capacity or {}).items()
    )


def _rounded(asked: Quantity | None, capacity: DeviceCapacity) -> Quantity:
    policy = capacity.request_policy
    if asked is None:
        if policy is not None and policy.default is not None:
            return policy.default
        return capacity.value
    if policy is None:
        return asked
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _up_to_step(asked, policy.valid_range)
    for value in policy.valid_values or ():
        if nanos(asked) <= nanos(value):
            return value
    return asked


def _up_to_step(asked: Quantity, within: CapacityRange) -> Quantity:
    assert within.min is not None
    if nanos(asked) < nanos(within.min):
        return within.min
    if within.step is None:
        return asked
    # Upstream computes steps in whole units.
    least, step = parse_quantity(within.min).value(), parse_quantity(within.step).value()
    above = parse_quantity(asked).value() - least
    return str(ParsedQuantity(least + -(-above // step) * step, 0, Family.BINARY))


def _violates(asked: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    amount = nanos(asked)
    if policy is None or (policy.default is not None and amount == nanos(policy.default)):
        return False
    within = policy.valid_range
    if within is not None:
        if within.max is not None and amount > nanos(within.max):
            return True
        if within.step is None or within.min is None:
            return False
        least, step = parse_quantity(within.min).value(), parse_quantity(within.step).value()
        return (-(-amount // _NANO) - least) % step != 0
    values = policy.valid_values or ()
    return bool(values) and amount not in {nanos(value) for value in values}
