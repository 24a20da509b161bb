"""Constraints of a claim: devices of some requests share an attribute's value, or differ in it."""

from __future__ import annotations

from typing import Protocol

from stowplan.api.device_objects import Device, DeviceAttribute, DeviceConstraint
from stowplan.plugins.dra.pools import DeviceId


class Constraint(Protocol):
    def add(self, names: tuple[str, str], device: Device, device_id: DeviceId) -> bool:
        """Take a device into account; False if that would violate the constraint. `names` are those
        of the request, and of its alternative or "".
        """

    def remove(self, names: tuple[str, str]) -> None:
        """Take back the last `add` for a request that returned True."""


def constraint_of(constraint: DeviceConstraint) -> Constraint | None:
    """None for a kind of constraint that is not known."""
    requests = frozenset(constraint.requests or ())
    if constraint.match_attribute is not None:
        return SameValue(requests, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return DistinctValues(requests, constraint.distinct_attribute)
    return None


class _OfAttribute:
    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute

    def _applies(self, names: tuple[str, str]) -> bool:
        request, alternative = names
        if not self._requests or request in self._requests:
            return True
        return bool(alternative) and f"{request}/{alternative}" in self._requests

    def _value(self, device: Device, device_id: DeviceId) -> object | None:
        attributes = device.attributes or {}
        found = attributes.get(self._attribute)
        if found is None:
            domain, slash, name = self._attribute.partition("/")
            found = attributes.get(name) if slash and domain == device_id[0] else None
        return None if found is None else _typed(found)


def _typed(attribute: DeviceAttribute) -> object:
    """The value with its kind, so that 1 and true differ; empty if its kind is not known."""
    for kind in ("string_value", "int_value", "bool_value", "version_value"):
        value = getattr(attribute, kind)
        if value is not None:
            return kind, value
    return ()


class SameValue(_OfAttribute):
    """All devices have the value of the first."""

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._common: object = None
        self._devices = 0

    def add(self, names: tuple[str, str], device: Device, device_id: DeviceId) -> bool:
        if not self._applies(names):
            return True
        value = self._value(device, device_id)
        if value is None:
            return False
        if self._devices == 0:
            self._common = value
        elif value == () or value != self._common:
            return False
        self._devices += 1
        return True

    def remove(self, names: tuple[str, str]) -> None:
        if self._applies(names):
            self._devices -= 1


class DistinctValues(_OfAttribute):
    """No two requests have devices of one value.

    Upstream remembers one value per request, the last; requests for several devices compare by it.
    """

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, object] = {}
        self._devices = 0

    def add(self, names: tuple[str, str], device: Device, device_id: DeviceId) -> bool:
        if not self._applies(names):
            return True
        value = self._value(device, device_id)
        if value is None:
            return False
        if self._devices and (value in self._values.values() or (value == () and self._values)):
            return False
        self._values[names[0]] = value
        self._devices += 1
        return True

    def remove(self, names: tuple[str, str]) -> None:
        if self._applies(names):
            self._values.pop(names[0], None)
            self._devices -= 1
