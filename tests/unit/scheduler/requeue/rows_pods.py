"""Rows of the plugins that look at where other pods are."""

from __future__ import annotations

from typing import Any

from stowplan.api.objects import Pod, Toleration
from stowplan.testing import node, pod
from stowplan.testing.builders import ZONE_LABEL
from tests.unit.scheduler.requeue.matrix import Pair, Row, becomes, comes, goes, updates
from tests.unit.scheduler.requeue.registered_events import (
    ADD,
    DELETE,
    NODE,
    NODE_LABEL,
    POD,
    POD_LABEL,
    TAINT,
    TOLERATION,
)

RED, BLUE = {"colour": "red"}, {"colour": "blue"}
RACK = "example.com/rack"


def _near(name: str, labels: dict[str, str], key: str = ZONE_LABEL, **more: Any) -> Pod:
    """A pod that wants to be where such pods are."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(name, affinity={"podAffinity": required}, **more)


def _apart(name: str, labels: dict[str, str], key: str = ZONE_LABEL, **more: Any) -> Pod:
    """A pod that wants to be where no such pods are."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(name, affinity={"podAntiAffinity": required}, **more)


def _spread(name: str, labels: dict[str, str], key: str = ZONE_LABEL, **more: str) -> Pod:
    """A pod that wants its like (itself one of them) in two domains, evenly."""
    constraint = {
        "maxSkew": 1,
        "minDomains": 2,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
        **more,
    }
    return pod(name, labels=labels, topology_spread_constraints=[constraint])


# InterPodAffinity

_LONELY = (node("n1", zone="z1"),)
_SEEKING = (_near("a", RED), _near("b", BLUE))
_CROWDED = (
    node("n1", zone="z1"),
    pod("red", labels=RED, node="n1"),
    pod("blue", labels=BLUE, node="n1"),
)
_AVOIDING = (_apart("a", RED), _apart("b", BLUE))
_AVOIDED = (node("n1", zone="z1"), _apart("hermit", RED, node="n1"), pod("other", node="n1"))
_INTER_POD_AFFINITY = "InterPodAffinity"
INTER_POD_AFFINITY = [
    Row(
        Pair(_INTER_POD_AFFINITY, POD, ADD),
        "a placed pod comes that one wants to be near",
        _LONELY,
        _SEEKING,
        comes(pod("red", labels=RED, node="n1")),
        placed=("a",),
    ),
    Row(
        Pair(_INTER_POD_AFFINITY, POD, POD_LABEL),
        "a placed pod becomes one to be near of",
        (*_LONELY, pod("grey", node="n1")),
        _SEEKING,
        updates("grey", labels=RED),
        placed=("a",),
    ),
    Row(
        Pair(_INTER_POD_AFFINITY, POD, POD_LABEL),
        "a placed pod is no more one to be apart from",
        _CROWDED,
        _AVOIDING,
        updates("red", labels={"colour": "grey"}),
        placed=("a",),
    ),
    Row(
        Pair(_INTER_POD_AFFINITY, POD, POD_LABEL),
        "its own labels change and another pod minds it no more",
        _AVOIDED,
        (pod("a", labels=RED), pod("b", labels=RED)),
        updates("a", labels=BLUE),
        placed=("a",),
    ),
    Row(
        Pair(_INTER_POD_AFFINITY, POD, DELETE),
        "a placed pod goes that one wants to be apart from",
        _CROWDED,
        _AVOIDING,
        goes("red"),
        placed=("a",),
    ),
    Row(
        Pair(_INTER_POD_AFFINITY, POD, DELETE),
        "a placed pod goes that minded it",
        _AVOIDED,
        (pod("a", labels=RED), _near("b", BLUE)),
        goes("hermit"),
        placed=("a",),
    ),
    Row(
        Pair(_INTER_POD_AFFINITY, POD, DELETE),
        "a placed pod goes that nobody minded",
        _AVOIDED,
        (pod("a", labels=RED), _near("b", BLUE)),
        goes("other"),
    ),
    Row(
        Pair(_INTER_POD_AFFINITY, NODE, ADD),
        "a node comes with the topology label",
        (*_LONELY, pod("red", labels=RED, node="n1")),
        (_near("a", RED, RACK), _near("b", RED, "example.com/row")),
        comes(node("n2", labels={RACK: "r1"})),
        tried=("a",),
    ),
    Row(
        Pair(_INTER_POD_AFFINITY, NODE, ADD),
        "a node comes where nobody is",
        (node("n1", zone="z1"), pod("red", labels=RED, node="n1")),
        (_apart("a", RED), _near("b", BLUE, RACK)),
        comes(node("n2", zone="z2")),
        placed=("a",),
    ),
    Row(
        Pair(_INTER_POD_AFFINITY, NODE, NODE_LABEL),
        "the node gets the topology label",
        (*_LONELY, pod("red", labels=RED, node="n1")),
        (_near("a", RED, RACK), _near("b", RED, "example.com/row")),
        becomes(node("n1", zone="z1", labels={RACK: "r1"})),
        placed=("a",),
    ),
    Row(
        Pair(_INTER_POD_AFFINITY, NODE, NODE_LABEL),
        "a node moves to another domain",
        (node("n1", zone="z1"), node("n2", zone="z1"), pod("red", labels=RED, node="n1")),
        (_apart("a", RED), _near("b", BLUE, RACK)),
        becomes(node("n2", zone="z2")),
        placed=("a",),
    ),
]

# PodTopologySpread: two domains are asked for and there is one, with one pod of each colour. On
# racks no node has the label, so whoever spreads over them waits for that.

_UNEVEN = (
    node("n1", zone="z1"),
    pod("red", labels=RED, node="n1"),
    pod("blue", labels=BLUE, node="n1"),
)
_BY_COLOUR = (_spread("a", RED), _spread("b", BLUE))
_BY_KEY = (_spread("a", RED), _spread("b", BLUE, RACK))
_BY_POLICY = (_spread("a", RED, nodeTaintsPolicy="Honor"), _spread("b", RED))
_TOLERANT = (Toleration(key="soft", operator="Exists"),)
_SPREAD = "PodTopologySpread"
POD_TOPOLOGY_SPREAD = [
    Row(
        Pair(_SPREAD, POD, ADD),
        "a placed pod comes that one counts",
        _UNEVEN,
        _BY_COLOUR,
        comes(pod("red-2", labels=RED, node="n1")),
        tried=("a",),
    ),
    Row(
        Pair(_SPREAD, POD, POD_LABEL),
        "a placed pod counts no more",
        _UNEVEN,
        _BY_COLOUR,
        updates("red", labels={"colour": "grey"}),
        placed=("a",),
    ),
    Row(
        Pair(_SPREAD, POD, POD_LABEL),
        "another label of a placed pod changes",
        _UNEVEN,
        _BY_COLOUR,
        updates("red", labels={**RED, "size": "big"}),
    ),
    Row(
        Pair(_SPREAD, POD, TOLERATION),
        "it tolerates more and heeds taints",
        _UNEVEN,
        _BY_POLICY,
        updates("a", tolerations=_TOLERANT),
        tried=("a",),
    ),
    Row(
        Pair(_SPREAD, POD, TOLERATION),
        "it tolerates more and does not heed taints",
        _UNEVEN,
        _BY_POLICY,
        updates("b", tolerations=_TOLERANT),
    ),
    Row(
        Pair(_SPREAD, POD, DELETE),
        "a placed pod goes that one counted",
        _UNEVEN,
        _BY_COLOUR,
        goes("red"),
        placed=("a",),
    ),
    Row(
        Pair(_SPREAD, NODE, ADD),
        "a node comes in a domain of its own",
        _UNEVEN,
        _BY_KEY,
        comes(node("n2", zone="z2")),
        placed=("a",),
    ),
    Row(
        Pair(_SPREAD, NODE, DELETE),
        "a node goes that was in a domain of one",
        (*_UNEVEN, node("n2", zone="z1")),
        _BY_KEY,
        goes("n2"),
        tried=("a",),
    ),
    Row(
        Pair(_SPREAD, NODE, NODE_LABEL),
        "a node gets the topology label of one",
        (*_UNEVEN, node("n2")),
        _BY_KEY,
        becomes(node("n2", zone="z2")),
        placed=("a",),
    ),
    Row(
        Pair(_SPREAD, NODE, TAINT),
        "a taint changes in a domain of one",
        _UNEVEN,
        _BY_KEY,
        becomes(node("n1", zone="z1", taints=["soft=:PreferNoSchedule"])),
        tried=("a",),
    ),
]

ROWS = [*INTER_POD_AFFINITY, *POD_TOPOLOGY_SPREAD]
