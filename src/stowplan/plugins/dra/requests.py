"""Requests of claims, checked, and whether a device meets one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from stowplan.api.device_objects import (
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceRequestDetails,
    DeviceSelector,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from stowplan.api.objects import Node
from stowplan.cel.device import DeviceView, Selector, SelectorError, compile_selector, device_value
from stowplan.cel.errors import CompileError
from stowplan.plugins.dra.pools import DeviceId, Pool, device_id, node_matches

MAX_DEVICES_PER_CLAIM = 32
#: Microseconds that reading a device takes; each unit of CEL's own cost is about another.
_EVALUATION = 20


class AllocationError(Exception):
    """A claim cannot be allocated on any node until something changes; worded as upstream does."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that the node can use."""

    pool: Pool
    slice: ResourceSlice
    device: Device
    id: DeviceId


class KnownMatches(Protocol):
    """Devices that a request for some of them can get, whatever its name and number."""

    def knows(self, one: ResourceSlice, device: DeviceId) -> bool | None:
        """Whether selectors, tolerations and capacity suit a device; None: not known."""


@dataclass(slots=True)
class Request:
    """One request, or one alternative of it."""

    details: DeviceRequestDetails
    device_class: DeviceClass
    #: The name of the request that this is an alternative of.
    parent: str = ""
    #: For mode All: every device that matches.
    all_devices: list[Candidate] | None = None
    #: What is known of devices already.
    known: KnownMatches | None = None
    _matches: dict[DeviceId, bool] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, str]:
        name = self.details.name
        return (self.parent, name) if self.parent else (name, "")

    @property
    def full_name(self) -> str:
        return f"{self.parent}/{self.details.name}" if self.parent else self.details.name

    @property
    def count(self) -> int:
        return self.details.count if self.all_devices is None else len(self.all_devices)

    @property
    def admin_access(self) -> bool:
        return bool(self.details.admin_access) and not self.parent

    def selects(self, claim: ResourceClaim, candidate: Candidate, node: Node) -> tuple[bool, int]:
        """Whether the selectors of class and request match, and what it cost to find out, in
        microseconds, more or less. Raises AllocationError.
        """
        known = self._matches.get(candidate.id)
        if known is None and self.known is not None:
            known = self.known.knows(candidate.slice, candidate.id)
        if known is not None:
            return known, 0
        of_class = self.device_class.spec.selectors or ()
        whose = f"class {self.device_class.metadata.name}"
        matches, cost = _all_match(of_class, candidate, whose)
        if matches:
            whose = f"claim {claim_name(claim)}"
            matches, more = _all_match(self.details.selectors or (), candidate, whose)
            cost += more
        if matches and candidate.slice.spec.per_device_node_selection:
            device = candidate.device
            matches = node_matches(node, device.node_name, device.all_nodes, device.node_selector)
        self._matches[candidate.id] = matches
        return matches, cost

    def tolerates_taints(self, device: Device) -> bool:
        return all(self._tolerates(taint) for taint in device.taints or ())

    def untolerated(self, device: Device) -> list[DeviceTaint]:
        """The taints that keep the request off the device."""
        return [taint for taint in device.taints or () if not self._tolerates(taint)]

    def _tolerates(self, taint: DeviceTaint) -> bool:
        return taint.effect not in ("NoSchedule", "NoExecute") or any(
            _tolerates(toleration, taint) for toleration in self.details.tolerations or ()
        )


def claim_name(claim: ResourceClaim) -> str:
    namespace = claim.metadata.namespace
    return f"{namespace}/{claim.metadata.name}" if namespace else claim.metadata.name


def read_request(
    claim: ResourceClaim,
    details: DeviceRequestDetails,
    parent: str,
    classes: Mapping[str, DeviceClass],
) -> Request:
    """A request with its class. Raises AllocationError."""
    where = f"claim {claim_name(claim)}, request {details.name}"
    for index, selector in enumerate(details.selectors or ()):
        if selector.cel is None:
            raise AllocationError(
                f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)"
            )
    if not details.device_class_name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    device_class = classes.get(details.device_class_name)
    if device_class is None:
        name = details.device_class_name
        raise AllocationError(
            f"{where}: could not retrieve device class {name}: "
            f'deviceclass.resource.k8s.io "{name}" not found'
        )
    if details.allocation_mode not in ("All", "ExactCount"):
        raise AllocationError(f"{where}: unsupported count mode {details.allocation_mode}")
    return Request(details, device_class, parent)


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Selector | str:
    try:
        return compile_selector(expression)
    except CompileError as error:
        return str(error)


def class_selects(
    device_class: DeviceClass, one: ResourceSlice, device: Device
) -> tuple[bool, int]:
    """Whether a device is of a class, and what it cost to find out. Raises AllocationError."""
    candidate = Candidate(Pool(("", "")), one, device, device_id(one, device))
    selectors = tuple(each for each in device_class.spec.selectors or () if each.cel is not None)
    return _all_match(selectors, candidate, f"class {device_class.metadata.name}")


def _all_match(
    selectors: tuple[DeviceSelector, ...], candidate: Candidate, whose: str
) -> tuple[bool, int]:
    """Whether all selectors match, and what that cost."""
    cost = 0
    for index, selector in enumerate(selectors):
        assert selector.cel is not None
        compiled = _compiled(selector.cel.expression)
        if isinstance(compiled, str):
            raise AllocationError(f"{whose}: selector #{index}: CEL compile error: {compiled}")
        try:
            matches, more = compiled.evaluate(device_value(_view(candidate)))
            cost += _EVALUATION + more
            if not matches:
                return False, cost
        except SelectorError as error:
            raise AllocationError(
                f"{whose}: selector #{index}: CEL runtime error: {error}"
            ) from None
    return True, cost


def _view(candidate: Candidate) -> DeviceView:
    device = candidate.device
    return DeviceView(
        candidate.id[0],
        {name: _value(attribute) for name, attribute in (device.attributes or {}).items()},
        {name: str(capacity.value) for name, capacity in (device.capacity or {}).items()},
        bool(device.allow_multiple_allocations),
    )


def _value(attribute: DeviceAttribute) -> object:
    if attribute.version_value is not None and attribute.int_value is None:
        return "version", attribute.version_value
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    return None


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
