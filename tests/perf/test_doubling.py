"""No size of a pod, a node or the cluster multiplies with another in what a pod costs.

Each size of `bench.hostile_sizes` doubles twice, alone and together with others, and work must grow
in proportion: lines of Python, and bytes at their peak. Terms times label sets and terms times
nodes are allowed as elements of arrays, which are no lines. When pods are gone, so is their memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from stowplan.lab.bench.hostile_sizes import NODE_SIZES, OPEN_CLAIMS, POD_SIZES
from tests.perf.doubling import CLUSTER_SIZES, Steps, excess, memory, steps

#: Sizes that one plugin, or one index, reads together.
FAMILIES = {
    "identity": ["labels", "annotations", "owners", "conditions", "match label keys"],
    "resources": [
        *("containers", "init containers", "sidecars", "container statuses", "resources"),
        *("offers", "image volumes", "images", "image names"),
    ],
    "ports": ["ports", "addresses", "containers", "sidecars"],
    "taints": ["tolerations", "toleration values", "taints", "hard taints"],
    "node affinity": [
        *("node selector", "node terms", "node expressions", "node values"),
        *("preferred node terms", "node labels", "topology keys"),
    ],
    "affinity": [
        *("labels", "affinity terms", "anti-affinity terms", "preferred terms"),
        *("preferred anti-affinity terms", "topology keys", "selector keys"),
        *("selector expressions", "selector values", "excluded values", "namespaces"),
        "namespace selector",
    ],
    "spreading": [
        *("spread constraints", "spread keys", "spread values", "match label keys"),
        *("labels", "node terms", "hard taints"),
    ],
    "volumes": ["disks", "shared disks", "monitors", "claims", "empty volumes"],
}
ALL_SIZES = [*POD_SIZES, *NODE_SIZES, *CLUSTER_SIZES]
#: The first of the three sizes that are compared.
_SINGLE, _PAIR = 16, 8
#: Lines beyond proportion that need not mean anything; a product of two sizes takes more.
_SLACK = 300


#: Every node has lists of these sizes: nodes times labels is what there is to read.
_OF_EVERY_NODE = {*NODE_SIZES, "node selector"}


def _pairs() -> list[tuple[str, str]]:
    """Sizes that could meet."""
    return list(
        dict.fromkeys(pair for family in FAMILIES.values() for pair in combinations(family, 2))
    )


def test_every_size_is_in_a_family() -> None:
    in_families = {size for family in FAMILIES.values() for size in family}
    apart = {"features", "node conditions"}
    assert {*POD_SIZES, *NODE_SIZES} == in_families | apart


@pytest.mark.parametrize("crowded", [False, True], ids=["", "crowded"])
@pytest.mark.parametrize("size", ALL_SIZES)
def test_work_grows_in_proportion_to_a_size(size: str, crowded: bool) -> None:
    _assert_proportional([size], _SINGLE, crowded=crowded)


@pytest.mark.parametrize("crowded", [False, True], ids=["", "crowded"])
@pytest.mark.parametrize(("size", "other"), _pairs())
def test_work_does_not_grow_with_the_product_of_two_sizes(
    size: str, other: str, crowded: bool
) -> None:
    _assert_proportional([size, other], _PAIR, crowded=crowded)


@pytest.mark.parametrize("size", [*POD_SIZES, *NODE_SIZES])
def test_work_does_not_grow_with_a_size_times_the_cluster(size: str) -> None:
    more = [each for each in CLUSTER_SIZES if not (each == "nodes" and size in _OF_EVERY_NODE)]
    _assert_proportional([size, *more], _PAIR, crowded=False)


def test_work_does_not_grow_with_the_product_of_any_two_sizes() -> None:
    """All at once: pairs that no plugin is known to read together."""
    together = [size for size in ALL_SIZES if size not in ("nodes", "namespaces")]
    _assert_proportional(together, _PAIR, crowded=False)


def test_open_claims_cost_no_more_than_claims_times_volumes() -> None:
    """Every claim looks at every volume once; what earlier claims took must not multiply it."""
    steps({OPEN_CLAIMS: 1}, crowded=False)  # what a process does only once is not counted
    beyond, culprits = _beyond([OPEN_CLAIMS], _SINGLE, crowded=False)
    assert beyond <= 50 * _SINGLE**2, culprits


def _assert_proportional(sizes: Sequence[str], start: int, *, crowded: bool) -> None:
    # At larger sizes if need be: a cache that is full in one of the lives, a decision that went
    # another way, or a list that is long enough to be combined (`label_columns`: from 65 on) makes
    # a difference that does not grow. What multiplies is four times as much.
    beyond, culprits = _beyond(sizes, start, crowded=crowded)
    for _ in range(3):
        if beyond <= _SLACK:
            break
        start *= 2
        beyond, culprits = _beyond(sizes, start, crowded=crowded)
    assert beyond <= _SLACK, (
        f"{beyond} lines more than in proportion for {', '.join(sizes)} of {start}, {2 * start} "
        f"and {4 * start}; most of them in {culprits}"
    )


def _beyond(sizes: Sequence[str], start: int, *, crowded: bool) -> tuple[int, str]:
    few, some, many = (
        steps(dict.fromkeys(sizes, start * times), crowded=crowded) for times in (1, 2, 4)
    )
    return excess(few.total, some.total, many.total), _culprits(few, some, many)


def _culprits(few: Steps, some: Steps, many: Steps) -> str:
    by_function = {
        code: excess(few.by_function[code], some.by_function[code], lines)
        for code, lines in many.by_function.items()
    }
    worst = sorted(by_function.items(), key=lambda item: -item[1])[:4]
    return ", ".join(f"{code.co_qualname} ({beyond})" for code, beyond in worst)


#: Sizes for memory: large enough that a product of two is not lost among hash tables.
_FEW, _MANY = 200, 400
#: Hash tables grow in leaps.
_LEAPS = 1.4
_KIB = 1024


@pytest.mark.parametrize("family", FAMILIES)
def test_memory_does_not_grow_with_the_product_of_sizes(family: str) -> None:
    few, many = (memory(dict.fromkeys(FAMILIES[family], size)).peak for size in (_FEW, _MANY))
    assert many <= 2 * _LEAPS * few + 64 * _KIB
