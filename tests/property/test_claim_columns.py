"""Kept verdicts on claims equal the allocator's, node by node, whatever happens in between."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.device_objects import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.objects import Node
from stowplan.api.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.table import NodeTable
from stowplan.cluster.work import DecisionDeferred
from stowplan.plugins.dra import allocator
from stowplan.plugins.dra.claim_columns import (
    CANNOT_ALLOCATE,
    FITS,
    INVALID_POOLS,
    ClaimColumns,
    ShapeColumn,
)
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.requests import AllocationError
from stowplan.plugins.dra.results import allocation_of

NODES = ("a", "b", "c", "d")
_SELECTORS = (
    'device.attributes["g"].model == "A"',
    'device.attributes["g"].number >= 2',
    "device.allowMultipleAllocations",
    'device.attributes["g"].missing == 1',
)


class _World:
    """A cluster of slices and claims that changes at random."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.catalog = Catalog()
        self.table = NodeTable()
        self.facts = self.catalog.shared(DeviceFacts)
        self.columns = ClaimColumns(self.facts)
        self.claims = 0
        for name in NODES:
            self.set_node(name)
        for name in ("gpu", "any"):
            self.set_class(name)
        for _ in range(draw.randint(1, 8)):
            self.set_slice()

    def change(self) -> None:
        what = self.draw.random()
        if what < 0.15:
            self.set_node(self.draw.choice(NODES))
        elif what < 0.2:
            self.table.remove_node(self.draw.choice(NODES))
            self.set_node(self.draw.choice(NODES))
        elif what < 0.25:
            self.set_class(self.draw.choice(("gpu", "any")))
        elif what < 0.55:
            self.set_slice()
        elif what < 0.65:
            slices = list(self.catalog[RESOURCE_SLICES])
            if slices:
                self.catalog[RESOURCE_SLICES].remove(self.draw.choice(slices).metadata.name)
        elif what < 0.75:
            claims = list(self.catalog[RESOURCE_CLAIMS])
            if claims:
                gone = self.draw.choice(claims).metadata
                self.catalog[RESOURCE_CLAIMS].remove(gone.name, gone.namespace)
        elif what < 0.78:
            self.catalog.rebuild()
        else:
            self.allocate()

    def set_node(self, name: str) -> None:
        labels = {"zone": self.draw.choice("xy")}
        node = {"metadata": {"name": name, "labels": labels}, "status": {}}
        self.table.set_node(msgspec.convert(node, Node))

    def set_class(self, name: str) -> None:
        selectors = []
        if name == "gpu" and self.draw.random() < 0.7:
            selectors.append({"cel": {"expression": self.draw.choice(_SELECTORS[:3])}})
        raw = {"metadata": {"name": name}, "spec": {"selectors": selectors}}
        self.catalog[DEVICE_CLASSES].set(msgspec.convert(raw, DeviceClass))

    def set_slice(self) -> None:
        draw = self.draw
        name = f"slice-{draw.randint(0, 7)}"
        spec: dict[str, Any] = {
            "driver": draw.choice(("d", "e")),
            "pool": {
                "name": draw.choice(("p", "q", *NODES)),
                "generation": draw.choice((1, 1, 1, 2)),
                "resourceSliceCount": draw.choice((1, 1, 1, 2)),
            },
            "devices": [self.device(place) for place in range(draw.randint(0, 4))],
        }
        where = draw.random()
        if where < 0.7:
            spec["nodeName"] = draw.choice(NODES)
        elif where < 0.8:
            spec["allNodes"] = True
        elif where < 0.9:
            wanted = [{"key": "zone", "operator": "In", "values": [draw.choice("xy")]}]
            spec["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
        else:
            spec["perDeviceNodeSelection"] = True
            for device in spec["devices"]:
                device["nodeName"] = draw.choice(NODES)
        if draw.random() < 0.15:
            spec["sharedCounters"] = [{"name": "set", "counters": {"slots": {"value": "2"}}}]
            spec["devices"] = []
        raw = {"metadata": {"name": name}, "spec": spec}
        self.catalog[RESOURCE_SLICES].set(msgspec.convert(raw, ResourceSlice))

    def device(self, place: int) -> dict[str, Any]:
        draw = self.draw
        device: dict[str, Any] = {"name": f"dev-{place}"}
        if draw.random() < 0.9:
            device["attributes"] = {
                "g/model": {"string": draw.choice("AB")},
                "g/number": {"int": draw.randint(0, 4)},
            }
        if draw.random() < 0.15:
            device["allowMultipleAllocations"] = True
            device["capacity"] = {"memory": {"value": "4"}}
        if draw.random() < 0.1:
            device["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
        if draw.random() < 0.1:
            device["consumesCounters"] = [
                {"counterSet": "set", "counters": {"slots": {"value": "1"}}}
            ]
        return device

    def claim(self) -> ResourceClaim:
        draw = self.draw
        self.claims += 1
        requests: list[dict[str, Any]] = []
        for place in range(draw.choice((1, 1, 1, 2))):
            details = self.details()
            if draw.random() < 0.1:
                alternatives = [{**self.details(), "name": f"s{n}"} for n in range(2)]
                requests.append({"name": f"r{place}", "firstAvailable": alternatives})
            else:
                requests.append({"name": f"r{place}", "exactly": details})
        devices: dict[str, Any] = {"requests": requests}
        if draw.random() < 0.15:
            devices["constraints"] = [{"matchAttribute": "g/model"}]
        name = f"claim-{self.claims}"
        meta = {"name": name, "namespace": "default", "uid": name}
        return msgspec.convert({"metadata": meta, "spec": {"devices": devices}}, ResourceClaim)

    def details(self) -> dict[str, Any]:
        draw = self.draw
        details: dict[str, Any] = {
            "deviceClassName": "gone" if draw.random() < 0.02 else draw.choice(("gpu", "any")),
            "allocationMode": "ExactCount",
            "count": draw.choice((1, 1, 2, 3, 33 if draw.random() < 0.05 else 1)),
        }
        if draw.random() < 0.3:
            expression = draw.choice(_SELECTORS)
            details["selectors"] = [{"cel": {"expression": expression}}]
        if draw.random() < 0.1:
            details["tolerations"] = [{"operator": "Exists"}]
        if draw.random() < 0.1:
            details["capacity"] = {"requests": {"memory": draw.choice(("1", "3", "5"))}}
        if draw.random() < 0.05:
            details["allocationMode"], details["count"] = "All", 0
        if draw.random() < 0.05:
            details["adminAccess"] = True
        return details

    def allocate(self) -> None:
        claim = self.claim()
        row = self.draw.choice(self.table.live_rows.tolist())
        try:
            search = self.search(row, [claim])
            if search.advance(10_000):
                allocation = allocation_of(search.claims[0], self.table.names[row])
                status = msgspec.structs.replace(claim.status, allocation=allocation)
                self.catalog[RESOURCE_CLAIMS].set(msgspec.structs.replace(claim, status=status))
        except AllocationError:
            pass

    def search(self, row: int, claims: list[ResourceClaim]) -> allocator.Search:
        facts = self.facts
        node = self.table.node(row)
        return allocator.Search(node, claims, facts.slices, facts.classes, facts.allocated)

    def verdict(self, row: int, claims: list[ResourceClaim]) -> int:
        """The allocator's own."""
        search = self.search(row, claims)
        if search.advance(100_000):
            return FITS
        is_invalid = any(pool.is_invalid for pool in search.pools)
        return INVALID_POOLS if is_invalid else CANNOT_ALLOCATE

    def expected(self, row: int, claims: list[ResourceClaim]) -> int | str:
        try:
            return self.verdict(row, claims)
        except AllocationError as error:
            return str(error)

    def found(self, row: int, claims: list[ResourceClaim]) -> int | str:
        try:
            return int(self.column([row], claims).verdicts[row])
        except AllocationError as error:
            return str(error)

    def column(self, rows: list[int], claims: list[ResourceClaim]) -> ShapeColumn:
        def search(row: int) -> tuple[int, int]:
            return self.verdict(row, claims), 0

        chosen = np.array(rows, np.intp)
        while True:
            self.table.work.limit(self.draw.choice((50_000, 1e9)))
            try:
                return self.columns.column(self.table, claims, chosen, search)
            except DecisionDeferred:
                continue
            finally:
                self.table.work.unlimit()


@given(st.integers(0, 2**32))
def test_kept_verdicts_equal_the_allocators(seed: int) -> None:
    world = _World(Random(seed))
    shapes = [[world.claim() for _ in range(world.draw.choice((1, 1, 2)))] for _ in range(2)]
    for _ in range(6):
        for claims in shapes:
            for row in world.table.live_rows.tolist():
                assert world.found(row, claims) == world.expected(row, claims)
        for _ in range(world.draw.randint(1, 3)):
            world.change()
