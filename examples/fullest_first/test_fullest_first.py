"""pytest --stowplan-plugin fullest_first:FullestFirst"""

from collections.abc import Callable

import pytest
from fullest_first import FullestFirst

from stowplan.testing import MemoryCluster, Verdict

pytestmark = pytest.mark.stowplan(plugins=[FullestFirst], defaults=False)


def test_the_fullest_node_is_best(cluster: MemoryCluster, decide: Callable[..., Verdict]) -> None:
    for name, used in (("empty", "0"), ("half", "2"), ("nearly", "3")):
        cluster.add_node(name, cpu=4)
        cluster.add_pod(f"on-{name}", node=name, cpu=used)
    verdict = decide("web", cpu="500m")
    assert verdict.node == "nearly"
    scores = {name: verdict.score(name, "FullestFirst") for name in verdict.nodes}
    assert scores == {"empty": 0, "half": 50, "nearly": 75}


def test_a_node_without_cpu_is_no_reason_to_stumble(
    decide: Callable[..., Verdict], cluster: MemoryCluster
) -> None:
    cluster.add_node("odd", cpu=0)
    assert decide("web", cpu=None, memory=None).score("odd", "FullestFirst") == 0
