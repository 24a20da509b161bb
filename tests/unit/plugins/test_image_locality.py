"""ImageLocality: kube-scheduler's cases."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import in_place, made, run_scores

MB = 1024 * 1024
SMALL = {
    "gcr.io/40:latest": 40 * MB,
    "gcr.io/300:latest": 300 * MB,
    "gcr.io/2000:latest": 2000 * MB,
}
LARGE = {"gcr.io/250:latest": 250 * MB, "gcr.io/10:v1": 10 * MB}


def running(*images: str, init: tuple[str, ...] = (), volumes: tuple[str, ...] = ()) -> Pod:
    more: dict[str, Any] = {}
    if init:
        more["init_containers"] = [{"name": f"i{n}", "image": name} for n, name in enumerate(init)]
    if volumes:
        more["volumes"] = [
            {"name": f"v{n}", "image": {"reference": name}} for n, name in enumerate(volumes)
        ]
    containers = [{"name": f"c{n}", "image": name} for n, name in enumerate(images)]
    return pod(containers=containers, **more)


def scores(cache: ClusterCache, asking: Pod) -> list[int] | None:
    return run_scores(made("ImageLocality"), asking, cache)


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        # 300 MiB on one of two nodes: 100 * (150 - 23) / (1000 - 23)
        pytest.param(running("gcr.io/300"), [12, 0], id="one-image"),
        # (40 + 300) / 2 = 170 against 125, over two containers
        pytest.param(running("gcr.io/40", "gcr.io/300"), [7, 0], id="two-images"),
        pytest.param(running("gcr.io/40", "gcr.io/250"), [0, 5], id="one-each"),
        # 20 MiB and 5 MiB are below the least that counts.
        pytest.param(running("gcr.io/40"), [0, 0], id="too-small"),
        pytest.param(running("gcr.io/10:v1"), [0, 0], id="too-small-with-tag"),
        pytest.param(running("gcr.io/2000"), [100, 0], id="more-than-counts"),
        pytest.param(running("gcr.io/300:v2", "gcr.io/10"), [0, 0], id="another-tag"),
        pytest.param(running("gcr.io/300:latest"), [12, 0], id="latest-by-name"),
        pytest.param(running("gcr.io/300", "gcr.io/300"), [14, 0], id="named-twice"),
        pytest.param(running("x", init=("gcr.io/300",)), [6, 0], id="init-container"),
        pytest.param(running("x", volumes=("gcr.io/300",)), [12, 0], id="image-volume"),
        pytest.param(running("x", volumes=("",)), [0, 0], id="image-volume-without-reference"),
        pytest.param(running("nowhere"), [0, 0], id="unknown"),
    ],
)
def test_scores(asking: Pod, expected: list[int]) -> None:
    assert scores(in_place([node(images=SMALL), node(images=LARGE)]), asking) == expected


def test_a_colon_before_the_last_slash_is_no_tag() -> None:
    cache = in_place([node(images={"example.com:5000/web:latest": 600 * MB}), node()])
    assert scores(cache, running("example.com:5000/web")) == [28, 0]


def test_scores_follow_other_nodes() -> None:
    """A node's score changes with the number of holders and of nodes, though it did not."""
    web = {"web:1": 500 * MB}
    cache = in_place([node("a", images=web), node("b")])
    asking = running("web:1")
    assert scores(cache, asking) == [23, 0]
    cache.set_node(node("b", images=web))
    assert scores(cache, asking) == [48, 48]
    cache.set_node(node("c"))
    assert scores(cache, asking) == [31, 31, 0]
    cache.remove_node("b")
    assert scores(cache, asking) == [23, 0]
    cache.remove_node("a")
    assert scores(cache, asking) == [0]
    assert len(cache.table.images) == 0


def test_the_first_report_says_how_large_an_image_is() -> None:
    first, second = node("a", images={"web:1": 500 * MB}), node("b", images={"web:1": 900 * MB})
    cache = in_place([first, second])
    asking = running("web:1")
    assert scores(cache, asking) == [48, 48]
    cache.remove_node("a")
    assert scores(cache, asking) == [48]
    # The only holder reports again, with nothing new: now it is the first.
    cache.set_node(second)
    assert scores(cache, asking) == [89]


def test_the_largest_sizes_wrap_around_as_in_go() -> None:
    huge = {"a:1": 2**63 - 1, "b:1": 2**62, "c:1": 2**62}
    cache = in_place([node(images=huge)])
    assert scores(cache, running("a:1")) == [0]
    assert scores(cache, running("b:1")) == [100]
    assert scores(cache, running("b:1", "c:1")) == [0]
