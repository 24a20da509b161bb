"""Random clusters and pods that reach the corners of the resource plugins.

Nodes that offer nothing, next to nothing or nearly all that an int64 holds; resources that only
some of them know; taints, cordons, pods on nodes that are gone.
"""

from __future__ import annotations

from hypothesis import strategies as st

from stowplan.api.objects import (
    Container,
    ContainerPort,
    Node,
    Pod,
    Quantities,
    ResourceRequirements,
    Taint,
    Toleration,
)
from stowplan.cluster.cache import ClusterCache
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod

GPU = "example.com/gpu"
NIC = "example.com/nic"
PAGES = "hugepages-2Mi"
STORAGE = "ephemeral-storage"
NODE_NAMES = [f"n{i}" for i in range(6)]

_HUGE = 2**58
amounts = st.one_of(
    st.integers(0, 10),
    st.integers(0, 10_000),
    st.integers(2**40, 2**50),
    st.integers(_HUGE - 5, _HUGE),
)
node_amounts = st.one_of(amounts, st.integers(2**62 - 5, 2**62))
_effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
_taint_keys = st.sampled_from(["a", "b", "node.kubernetes.io/unschedulable"])
taints = st.builds(Taint, key=_taint_keys, value=st.sampled_from(["", "x"]), effect=_effects)
tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["", "a", "b", "node.kubernetes.io/unschedulable"]),
    operator=st.sampled_from(["", "Equal", "Exists"]),
    value=st.sampled_from(["", "x"]),
    effect=st.one_of(st.just(""), _effects),
)
host_ports = st.builds(
    ContainerPort,
    host_port=st.sampled_from([0, 80, 80, 443]),
    host_ip=st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
    protocol=st.sampled_from(["", "TCP", "UDP"]),
)


@st.composite
def nodes(draw: st.DrawFn, name: str = "") -> Node:
    resources = draw(
        st.fixed_dictionaries(
            {}, optional={GPU: node_amounts, PAGES: node_amounts, STORAGE: node_amounts}
        )
    )
    return make_node(
        name or draw(st.sampled_from(NODE_NAMES)),
        cpu=f"{draw(node_amounts)}m",
        memory=draw(node_amounts),
        pods=draw(st.integers(0, 4)),
        resources=resources,
        zone=draw(st.sampled_from([None, "z1", "z2"])),
        taints=draw(st.lists(taints, max_size=3)),
        unschedulable=draw(st.booleans()),
    )


@st.composite
def pods(draw: st.DrawFn, *, standing: bool = False) -> Pod:
    requests: Quantities = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "cpu": amounts.map(lambda milli: f"{milli}m"),
                "memory": amounts.map(str),
                STORAGE: amounts.map(str),
                GPU: amounts.map(str),
                NIC: amounts.map(str),
                PAGES: amounts.map(str),
            },
        )
    )
    names = st.sampled_from(NODE_NAMES)
    main = Container(
        name="main",
        resources=ResourceRequirements(requests=requests),
        ports=draw(st.one_of(st.none(), st.lists(host_ports, max_size=2).map(tuple))),
    )
    return make_pod(
        containers=[main],
        tolerations=draw(st.lists(tolerations, max_size=3)),
        node=draw(names if standing else st.sampled_from(["", "", "", "n0", "nowhere"])),
    )


@st.composite
def clusters(draw: st.DrawFn) -> ClusterCache:
    cache = ClusterCache()
    for name in draw(st.lists(st.sampled_from(NODE_NAMES), unique=True, min_size=1)):
        cache.set_node(draw(nodes(name)))
    for pod in draw(st.lists(pods(standing=True), max_size=6)):
        cache.add_pod(pod)
    return cache
