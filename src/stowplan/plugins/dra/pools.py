"""Pools of devices: which slices are current, and which of them a node can use.

A driver publishes a pool as several slices of one generation. A pool with slices missing is
*incomplete*, and one that contradicts itself is *invalid*; nothing is allocated from either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stowplan.api.device_objects import CounterSet, Device, ResourceSlice
from stowplan.api.objects import Node, NodeSelector
from stowplan.api.selectors import compile_node_selector

PoolId = tuple[str, str]
DeviceId = tuple[str, str, str]


@dataclass(slots=True)
class Pool:
    id: PoolId
    #: Slices with devices for the node, by name.
    slices: list[ResourceSlice] = field(default_factory=list)
    #: The pool's other slices with devices: they can consume the pool's counters.
    elsewhere: list[ResourceSlice] = field(default_factory=list)
    counter_sets: dict[str, CounterSet] = field(default_factory=dict)
    is_incomplete: bool = False
    is_invalid: bool = False

    @property
    def name(self) -> str:
        return "/".join(self.id)

    @property
    def is_usable(self) -> bool:
        return not (self.is_incomplete or self.is_invalid)


def device_id(one: ResourceSlice, device: Device) -> DeviceId:
    return one.spec.driver, one.spec.pool.name, device.name


def node_matches(
    node: Node, name: str | None, all_nodes: bool | None, selector: NodeSelector | None
) -> bool:
    if name:
        return node.metadata.name == name
    if all_nodes:
        return True
    if selector is None:
        return False
    return compile_node_selector(selector).matches(node.metadata.labels, node.metadata.name)


class Slices:
    """All slices, indexed by node and by pool."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._of_node: dict[str, list[ResourceSlice]] = {}
        self._shared: list[ResourceSlice] = []
        self._of_pool: dict[PoolId, list[ResourceSlice]] = {}
        for one in slices:
            if one.spec.node_name and not one.spec.shared_counters:
                self._of_node.setdefault(one.spec.node_name, []).append(one)
            else:
                self._shared.append(one)
            self._of_pool.setdefault(_pool_id(one), []).append(one)

    def pools(self, node: Node) -> list[Pool]:
        """The pools that have devices for the node, in the order in which they are searched: by
        driver and name, those with binding conditions last.
        """
        relevant: dict[PoolId, list[ResourceSlice]] = {}
        for one in [*self._of_node.get(node.metadata.name, ()), *self._shared]:
            if _is_relevant(one, node):
                _keep_newest(relevant.setdefault(_pool_id(one), []), one)
        made = [self._pool(pool_id, slices) for pool_id, slices in sorted(relevant.items())]
        pools = [pool for pool in made if pool is not None]
        return sorted(pools, key=_has_binding_conditions)

    def _pool(self, pool_id: PoolId, slices: list[ResourceSlice]) -> Pool | None:
        of_pool = slices[0].spec.pool
        everywhere: Sequence[ResourceSlice] = slices
        if len(slices) != of_pool.resource_slice_count:
            known = self._of_pool[pool_id]
            if any(one.spec.pool.generation > of_pool.generation for one in known):
                return None
            everywhere = [one for one in known if one.spec.pool.generation == of_pool.generation]
            if len(everywhere) != of_pool.resource_slice_count:
                return Pool(pool_id, is_incomplete=True)
        slices = sorted(slices, key=lambda one: one.metadata.name)
        names = {one.metadata.name for one in slices}
        elsewhere = [one for one in everywhere if one.metadata.name not in names]
        devices = [one for one in slices if not one.spec.shared_counters]
        counter_sets = _counter_sets(slices)
        if (
            counter_sets is None
            or not _names_are_unique(devices)
            or not _counters_exist(counter_sets, [*slices, *elsewhere])
        ):
            return Pool(pool_id, is_invalid=True)
        return Pool(pool_id, devices, elsewhere, counter_sets)


def _pool_id(one: ResourceSlice) -> PoolId:
    return one.spec.driver, one.spec.pool.name


def _is_relevant(one: ResourceSlice, node: Node) -> bool:
    spec = one.spec
    if spec.shared_counters:
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    return bool(spec.per_device_node_selection) and any(
        node_matches(node, device.node_name, device.all_nodes, device.node_selector)
        for device in spec.devices or ()
    )


def _keep_newest(slices: list[ResourceSlice], one: ResourceSlice) -> None:
    if slices and one.spec.pool.generation > slices[0].spec.pool.generation:
        slices.clear()
    if not slices or one.spec.pool.generation == slices[0].spec.pool.generation:
        slices.append(one)


def _counter_sets(slices: list[ResourceSlice]) -> dict[str, CounterSet] | None:
    """The pool's counters by the name of their set; None if two sets have one name."""
    found: dict[str, CounterSet] = {}
    for one in slices:
        for counters in one.spec.shared_counters or ():
            if counters.name in found:
                return None
            found[counters.name] = counters
    return found


def _names_are_unique(slices: list[ResourceSlice]) -> bool:
    names = [device.name for one in slices for device in one.spec.devices or ()]
    return len(names) == len(set(names))


def _counters_exist(counter_sets: dict[str, CounterSet], slices: list[ResourceSlice]) -> bool:
    for one in slices:
        for device in one.spec.devices or ():
            for consumed in device.consumes_counters or ():
                known = counter_sets.get(consumed.counter_set)
                if known is None or not set(consumed.counters or ()) <= set(known.counters or ()):
                    return False
    return True


def _has_binding_conditions(pool: Pool) -> bool:
    return any(
        device.binding_conditions is not None
        for one in pool.slices
        for device in one.spec.devices or ()
    )
