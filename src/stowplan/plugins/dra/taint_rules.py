"""Slices with the taints that DeviceTaintRules add to their devices.

Behind the feature gate DRADeviceTaintRules; without it there are no rules here, and every slice
stays what the driver published. A rule without a selector, and a field that it leaves out, match
all devices, as in upstream's tracker.
"""

from __future__ import annotations

from msgspec.structs import replace

from stowplan.api.device_objects import (
    Device,
    DeviceTaintRule,
    DeviceTaintSelector,
    ResourceSlice,
)
from stowplan.cluster.catalog import Shelf

_ALL_DEVICES = DeviceTaintSelector()


class TaintedSlices:
    """What the index of slices holds in place of those that rules change."""

    def __init__(self, rules: Shelf[DeviceTaintRule]) -> None:
        self._rules = rules
        self._changed: dict[str, ResourceSlice] = {}

    def forget(self) -> None:
        self._changed.clear()

    def with_taints(self, one: ResourceSlice) -> ResourceSlice:
        """The slice as rules make it, kept until `pop`."""
        rules = [rule for rule in self._rules if concerns(rule, one)]
        if not rules:
            return one
        devices = tuple(_tainted(device, rules) for device in one.spec.devices or ())
        made = replace(one, spec=replace(one.spec, devices=devices))
        self._changed[one.metadata.name] = made
        return made

    def pop(self, one: ResourceSlice) -> ResourceSlice:
        """What `with_taints` returned last for the slice."""
        return self._changed.pop(one.metadata.name, one)


def concerns(rule: DeviceTaintRule, one: ResourceSlice) -> bool:
    """Whether the rule can match devices of the slice."""
    selector = rule.spec.device_selector or _ALL_DEVICES
    return selector.driver in (None, one.spec.driver) and selector.pool in (
        None,
        one.spec.pool.name,
    )


def _tainted(device: Device, rules: list[DeviceTaintRule]) -> Device:
    selectors = ((rule, rule.spec.device_selector or _ALL_DEVICES) for rule in rules)
    added = [rule.spec.taint for rule, chosen in selectors if chosen.device in (None, device.name)]
    return replace(device, taints=(*(device.taints or ()), *added)) if added else device
