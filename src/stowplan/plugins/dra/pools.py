"""Pools of devices: which slices are current, and which of them a node can use.

A driver publishes a pool as several slices of one generation. A pool with slices missing is
*incomplete*, and one that contradicts itself is *invalid*; nothing is allocated from either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from stowplan.api.device_objects import CounterSet, Device, ResourceSlice
from stowplan.api.objects import Node, NodeSelector
from stowplan.api.selectors import compile_node_selector
from stowplan.cluster.journal import ChangeLog

PoolId = tuple[str, str]
DeviceId = tuple[str, str, str]
#: A change in a pool of more slices is taken for one of all nodes.
_MOST_NODES_LISTED = 64


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
        #: By identity, as all of these: comparing slices would compare their devices.
        self._shared: dict[int, ResourceSlice] = {}
        self._of_node: dict[str, dict[int, ResourceSlice]] = {}
        self._of_pool: dict[PoolId, dict[int, ResourceSlice]] = {}
        #: Names of nodes whose pools may have changed; None: any node.
        self.log: ChangeLog[str | None] = ChangeLog()
        for one in slices:
            self.add(one)

    def __len__(self) -> int:
        return len(self._shared) + sum(map(len, self._of_node.values()))

    def add(self, one: ResourceSlice) -> None:
        key, spec = id(one), one.spec
        if spec.node_name and not spec.shared_counters:
            self._of_node.setdefault(spec.node_name, {})[key] = one
        else:
            self._shared[key] = one
        self._of_pool.setdefault(_pool_id(one), {})[key] = one
        self._record(one)

    def remove(self, one: ResourceSlice) -> None:
        key, spec = id(one), one.spec
        if spec.node_name and not spec.shared_counters:
            _remove(self._of_node, spec.node_name, key)
        else:
            del self._shared[key]
        self._record(one)
        _remove(self._of_pool, _pool_id(one), key)

    def _record(self, changed: ResourceSlice) -> None:
        """A slice can make the pool complete for every node that has another slice of it."""
        names = self.nodes_of_pool(_pool_id(changed))
        for name in (None,) if names is None else names:
            self.log.append(name)

    def nodes_of_pool(self, pool_id: PoolId) -> set[str] | None:
        """The nodes that can use devices of a pool; None: maybe all, or too many to list."""
        slices = self._of_pool.get(pool_id, {})
        if len(slices) > _MOST_NODES_LISTED:
            return None
        names: set[str] = set()
        for one in slices.values():
            if not one.spec.node_name or one.spec.shared_counters:
                return None
            names.add(one.spec.node_name)
        return names

    def pools(self, node: Node) -> list[Pool]:
        """The pools that have devices for the node, in the order in which they are searched: by
        driver and name, those with binding conditions last.
        """
        relevant: dict[PoolId, list[ResourceSlice]] = {}
        for one in (
            *self._of_node.get(node.metadata.name, {}).values(),
            *self._shared.values(),
        ):
            if _is_relevant(one, node):
                _keep_newest(relevant.setdefault(_pool_id(one), []), one)
        made = [self._pool(pool_id, slices) for pool_id, slices in sorted(relevant.items())]
        pools = [pool for pool in made if pool is not None]
        return sorted(pools, key=_has_binding_conditions)

    def has_counters(self, pool_id: PoolId) -> bool:
        """Whether devices of the pool share counters."""
        return any(one.spec.shared_counters for one in self._of_pool.get(pool_id, {}).values())

    def whole_pool(self, pool_id: PoolId) -> Pool | None:
        """The pool's newest generation, whatever nodes can use its devices."""
        newest: list[ResourceSlice] = []
        for one in self._of_pool.get(pool_id, {}).values():
            _keep_newest(newest, one)
        return self._pool(pool_id, newest) if newest else None

    def _pool(self, pool_id: PoolId, slices: list[ResourceSlice]) -> Pool | None:
        of_pool = slices[0].spec.pool
        everywhere: Sequence[ResourceSlice] = slices
        if len(slices) != of_pool.resource_slice_count:
            known = self._of_pool[pool_id].values()
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


K = TypeVar("K")


def _remove(slices: dict[K, dict[int, ResourceSlice]], group: K, key: int) -> None:
    del slices[group][key]
    if not slices[group]:
        del slices[group]


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
