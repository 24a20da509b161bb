"""Random pods with affinity to each other, namespaces and small topologies to place them in.

Few words, so that terms often speak of the pods that are there: two namespaces, two labels, and
node labels that nodes share, lack or have to themselves.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from stowplan.api.objects import Affinity, Namespace, Node, ObjectMeta, Pod
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod

Json = dict[str, Any]

NODE_NAMES = [f"n{number}" for number in range(5)]
POD_NAMESPACES = ["x", "y"]
TOPOLOGY_KEYS = ["host", "host", "zone", "zone", "rack"]

_pod_labels = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(["a", "b"]), "tier": st.sampled_from(["a", "b"])}
)
_expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["app", "tier"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["app", "tier"]),
            "operator": st.sampled_from(["Exists", "DoesNotExist"]),
        }
    ),
)
_selectors: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(
            st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"]), max_size=2
        ),
        "matchExpressions": st.lists(_expressions, max_size=2),
    },
)
_terms: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(TOPOLOGY_KEYS)},
    optional={
        "labelSelector": st.one_of(_selectors, _selectors, st.none()),
        "namespaces": st.lists(st.sampled_from([*POD_NAMESPACES, "nowhere"]), max_size=2),
        "namespaceSelector": _selectors,
    },
)
_wishes = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(_terms, max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 3), "podAffinityTerm": _terms}),
            max_size=2,
        ),
    },
)
affinities: st.SearchStrategy[Affinity | None] = st.one_of(
    st.none(),
    st.fixed_dictionaries({}, optional={"podAffinity": _wishes, "podAntiAffinity": _wishes}).map(
        lambda raw: msgspec.convert(raw, Affinity)
    ),
)
namespaces: st.SearchStrategy[list[Namespace]] = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(POD_NAMESPACES, st.one_of(st.none(), _pod_labels))
).map(
    lambda known: [
        Namespace(metadata=ObjectMeta(name=name, labels=labels)) for name, labels in known.items()
    ]
)


@st.composite
def nodes(draw: st.DrawFn, name: str = "") -> Node:
    labels = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "host": st.sampled_from(["h1", "h2", "h3", "h4"]),
                "zone": st.sampled_from(["z1", "z2", ""]),
                "rack": st.just("r"),
            },
        )
    )
    return make_node(name or draw(st.sampled_from(NODE_NAMES)), labels=labels)


@st.composite
def pods(draw: st.DrawFn, *, standing: bool = False, uid: str = "") -> Pod:
    return make_pod(
        uid=uid,
        namespace=draw(st.sampled_from(POD_NAMESPACES)),
        labels=draw(st.one_of(st.none(), _pod_labels)),
        affinity=draw(affinities),
        node=draw(st.sampled_from(NODE_NAMES)) if standing else "",
        terminating=draw(st.booleans()) if standing else False,
    )
