"""kube-scheduler's own tests of its allocator, recorded: each gets the same devices or error.

tests/data/dra/allocator_cases.jsonl.gz has one case a line: the claims, slices, classes, node and
devices in use that upstream's table gives to its incubating allocator, and what that returned, with
all features of 1.36.3's defaults on. `python -m tools.device_tables` records it again.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan.api.device_objects import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.objects import Node
from stowplan.api.quantity import nanos
from stowplan.plugins.dra.allocated import Allocated
from stowplan.plugins.dra.allocator import Search
from stowplan.plugins.dra.pools import Slices
from stowplan.plugins.dra.requests import AllocationError
from stowplan.plugins.dra.results import allocation_of

Json = dict[str, Any]

_FILE = Path(__file__).parents[3] / "data" / "dra" / "allocator_cases.jsonl.gz"
_RECORDED: list[Json] = [
    json.loads(line) for line in gzip.decompress(_FILE.read_bytes()).splitlines()
]
#: Cancelled contexts are the plugin's timeout, and none of the allocator's business.
CASES = [one for one in _RECORDED if not one.get("error", "").startswith("filter operation")]
#: Upstream's table has a lister of its own; this is what the API server's informer says.
_NO_CLASS = re.compile(r'device class (\S+):  "not found" not found')
#: Ends a search that never ends; the longest case takes a thousandth of it.
_STEPS = 1_000_000


def test_every_case_was_recorded() -> None:
    assert (len(_RECORDED), len(CASES)) == (208, 205)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_upstream_case(case: Json) -> None:
    error = _NO_CLASS.sub(
        r'device class \1: deviceclass.resource.k8s.io "\1" not found', case.get("error", "")
    )
    assert allocate(case) == (normalized(case.get("result")), error)


def allocate(case: Json) -> tuple[Any, str]:
    classes = {one["metadata"]["name"]: one for one in case.get("classes", ())}
    held = Allocated()
    for driver, pool, device in case.get("allocated", ()):
        held.devices[driver, pool, device] = 1
    for driver, pool, device, used in case.get("capacity", ()):
        held.consumed[driver, pool, device] = {name: nanos(each) for name, each in used.items()}
    for driver, pool, device in [*held.consumed, *case.get("shared", ())]:
        held.shares[driver, pool, device] = 1
    node = msgspec.convert(case["node"], Node)
    try:
        search = Search(
            node,
            [msgspec.convert(one, ResourceClaim) for one in case.get("claims", ())],
            Slices(msgspec.convert(one, ResourceSlice) for one in case.get("slices", ())),
            {name: msgspec.convert(one, DeviceClass) for name, one in classes.items()},
            held,
            lambda: "random",
        )
        found = search.advance(_STEPS)
    except AllocationError as error:
        return None, str(error)
    if found:
        made = [allocation_of(claim, node.metadata.name) for claim in search.claims]
        return normalized(json.loads(msgspec.json.encode(made))), ""
    invalid = any(pool.is_invalid for pool in search.pools)
    return None, "invalid resource pools were encountered" if invalid else ""


def normalized(results: Any) -> Any:
    """Allocations without what is random or empty."""
    if results is None:
        return None
    made = []
    for result in results:
        devices = result.get("devices", {})
        for one in devices.get("results") or ():
            if "shareID" in one:
                one["shareID"] = "random"
        made.append(_filled(result))
    return made


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        filled = {key: _filled(one) for key, one in value.items()}
        return {key: one for key, one in filled.items() if one not in (None, [], {})}
    return [_filled(one) for one in value] if isinstance(value, list) else value
