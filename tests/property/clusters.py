"""Random clusters and pods that reach the corners of the resource plugins.

Nodes that offer nothing, next to nothing or nearly all that an int64 holds; resources that only
some of them know; taints, cordons, pods on nodes that are gone. Labels that selectors compare in
every way, and selectors of which some are empty or invalid. Pods that seek or shun each other,
and pods that spread.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from stowplan.api.objects import (
    Affinity,
    Container,
    ContainerPort,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Quantities,
    ResourceRequirements,
    RestartRule,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
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

_FEATURES = ["Another", "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"]
_restart_rules = st.sampled_from([None, None, (RestartRule(action="RestartAllContainers"),)])
_MIB = 1024 * 1024
_image_sizes = st.one_of(
    st.integers(20, 200).map(lambda mib: mib * _MIB), st.integers(0, 2**32), st.just(2**63 - 1)
)
_images = st.dictionaries(
    st.sampled_from(["web:latest", "web:2", "example.com:5000/db:latest"]), _image_sizes
)
_image_names = st.sampled_from(["web", "web:2", "example.com:5000/db", "unknown"])

LABEL_KEYS = ["disk", "gen", "pool"]
_label_values = st.sampled_from(["", "a", "b", "3", "007", "12"])
node_labels = st.dictionaries(st.sampled_from(LABEL_KEYS), _label_values)


def _requirements(
    keys: list[str], operators: list[str], values: st.SearchStrategy[str], sizes: tuple[int, int]
) -> st.SearchStrategy[LabelSelectorRequirement]:
    low, high = sizes
    return st.builds(
        LabelSelectorRequirement,
        key=st.sampled_from(keys),
        operator=st.sampled_from(operators),
        values=st.lists(values, min_size=low, max_size=high).map(tuple),
    )


_label_requirements = st.one_of(
    _requirements(LABEL_KEYS, ["In", "NotIn"], _label_values, (1, 3)),
    _requirements(LABEL_KEYS, ["Exists", "DoesNotExist"], _label_values, (0, 0)),
    _requirements(LABEL_KEYS, ["Gt", "Lt"], st.sampled_from(["3", "10"]), (1, 1)),
    # Mostly invalid.
    _requirements(LABEL_KEYS, ["In", "Exists", "Gt", "Like"], _label_values, (0, 2)),
)
_field_requirements = st.one_of(
    _requirements(["metadata.name"], ["In", "NotIn"], st.sampled_from([*NODE_NAMES, "x"]), (1, 1)),
    _requirements(["metadata.name", "spec.x"], ["In", "NotIn", "Exists"], _label_values, (0, 2)),
)
node_selector_terms = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(_label_requirements, max_size=2).map(tuple),
    match_fields=st.one_of(st.none(), st.lists(_field_requirements, max_size=2).map(tuple)),
)
#: An invalid preference ends the attempt, so these are valid or empty.
_preferences = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(
        _requirements(LABEL_KEYS, ["In", "NotIn"], _label_values, (1, 3)), max_size=2
    ).map(tuple),
    match_fields=st.lists(
        _requirements(["metadata.name"], ["In", "NotIn"], st.sampled_from(NODE_NAMES), (1, 1)),
        max_size=1,
    ).map(tuple),
)
node_affinities = st.builds(
    NodeAffinity,
    required=st.one_of(
        st.none(),
        st.builds(
            NodeSelector, node_selector_terms=st.lists(node_selector_terms, max_size=3).map(tuple)
        ),
    ),
    preferred=st.one_of(
        st.none(),
        st.lists(
            st.builds(PreferredSchedulingTerm, weight=st.integers(0, 100), preference=_preferences),
            max_size=3,
        ).map(tuple),
    ),
)
#: What pods are called, and what their affinity to each other speaks of.
_pod_labels = st.dictionaries(st.just("app"), st.sampled_from(["web", "db"]))
_pod_terms = st.builds(
    PodAffinityTerm,
    topology_key=st.sampled_from(["topology.kubernetes.io/zone", "pool", "pool"]),
    label_selector=st.builds(LabelSelector, match_labels=_pod_labels),
)
_pod_affinities = st.one_of(
    st.none(),
    st.none(),
    st.builds(
        PodAffinity,
        required=st.lists(_pod_terms, max_size=1).map(tuple),
        preferred=st.lists(
            st.builds(
                WeightedPodAffinityTerm, weight=st.integers(1, 100), pod_affinity_term=_pod_terms
            ),
            max_size=1,
        ).map(tuple),
    ),
)
_spread_constraints = st.one_of(
    st.none(),
    st.none(),
    st.lists(
        st.builds(
            TopologySpreadConstraint,
            max_skew=st.integers(1, 2),
            topology_key=st.sampled_from(["topology.kubernetes.io/zone", "pool", "pool"]),
            when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
            label_selector=st.builds(LabelSelector, match_labels=_pod_labels),
            node_taints_policy=st.sampled_from([None, "Honor"]),
        ),
        max_size=2,
    ).map(tuple),
)
_affinities = st.one_of(
    st.none(),
    st.none(),
    st.builds(
        Affinity,
        node_affinity=st.one_of(st.none(), node_affinities),
        pod_affinity=_pod_affinities,
        pod_anti_affinity=_pod_affinities,
    ),
)
_node_selectors = st.one_of(
    st.none(), st.none(), st.dictionaries(st.sampled_from(LABEL_KEYS), _label_values, max_size=1)
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
        labels=draw(node_labels),
        taints=draw(st.lists(taints, max_size=3)),
        unschedulable=draw(st.booleans()),
        images=draw(_images),
        declared_features=sorted(draw(st.sets(st.sampled_from(_FEATURES)))),
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
        image=draw(_image_names),
        resources=ResourceRequirements(requests=requests),
        ports=draw(st.one_of(st.none(), st.lists(host_ports, max_size=2).map(tuple))),
        restart_policy_rules=draw(_restart_rules),
    )
    return make_pod(
        containers=[main],
        init_containers=[{"image": image} for image in draw(st.lists(_image_names, max_size=1))],
        volumes=[
            {"name": "v", "image": {"reference": image}}
            for image in draw(st.lists(_image_names, max_size=1))
        ],
        tolerations=draw(st.lists(tolerations, max_size=3)),
        node=draw(names if standing else st.sampled_from(["", "", "", "n0", "nowhere"])),
        host_network=draw(st.booleans()),
        host_users=draw(st.sampled_from([None, True, False])),
        node_selector=draw(_node_selectors),
        affinity=draw(_affinities),
        labels=draw(_pod_labels),
        topology_spread_constraints=draw(_spread_constraints),
    )


@st.composite
def clusters(draw: st.DrawFn) -> ClusterCache:
    cache = ClusterCache()
    for name in draw(st.lists(st.sampled_from(NODE_NAMES), unique=True, min_size=1)):
        cache.set_node(draw(nodes(name)))
    for pod in draw(st.lists(pods(standing=True), max_size=6)):
        cache.add_pod(pod)
    return cache


def change_cache(cache: ClusterCache, action: str, what: Any) -> None:
    """`what` is a node to set, the name of one to remove, a pod to add, or the place of a pod to
    delete among those that stand.
    """
    if action == "set":
        cache.set_node(what)
    elif action == "remove":
        cache.remove_node(what)
    elif action == "add":
        cache.add_pod(what)
    elif standing := sorted(cache.placements()):
        cache.remove_pod(standing[what % len(standing)])
