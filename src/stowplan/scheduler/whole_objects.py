"""Complete nodes and pods as the API server sent them, for extenders that need whole objects.

Informers write here, the extender client reads. Our own structs hold only what decisions need, so
they cannot replace the object. Invariants: every node and pod that a decision sees has an object
here, and nothing is stored that no extender needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.loader.json_text import json_decoder
from stowplan.scheduler.configured_extender import ConfiguredExtender

_fields = json_decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.Encoder().encode


class WholeObjects:
    """`serves` tells which pods are ours to schedule."""

    def __init__(
        self, extenders: Sequence[ConfiguredExtender], serves: Callable[[Pod], bool]
    ) -> None:
        self._keeps_nodes = any(each.wants_nodes for each in extenders)
        self._keeps_bound_pods = any(each.wants_victims for each in extenders)
        self._serves = serves
        #: By name.
        self._nodes: dict[str, msgspec.Raw] = {}
        #: By UID.
        self._pods: dict[str, msgspec.Raw] = {}

    def node(self, node: Node) -> msgspec.Raw:
        """What we know of it ourselves, if it has been deleted a moment ago."""
        return self._nodes.get(node.name) or msgspec.Raw(_encode(node))

    def pod(self, pod: Pod) -> msgspec.Raw:
        return self._pods.get(pod.uid) or msgspec.Raw(_encode(pod))

    # What informers tell; None: it is gone.

    def saw_node(self, node: Node, raw: bytes | msgspec.Raw | None) -> None:
        if raw is not None and self._keeps_nodes:
            self._nodes[node.name] = _trimmed(raw)
        else:
            self._nodes.pop(node.name, None)

    def saw_pod(self, pod: Pod, raw: bytes | msgspec.Raw | None) -> None:
        is_wanted = self._keeps_bound_pods if pod.spec.node_name else self._serves(pod)
        if raw is not None and is_wanted:
            self._pods[pod.uid] = _trimmed(raw)
        else:
            self._pods.pop(pod.uid, None)


def _trimmed(raw: bytes | msgspec.Raw) -> msgspec.Raw:
    """Copy an object without managedFields, which are unused and half of its size; upstream drops
    them too."""
    fields = _fields(raw)
    metadata = _fields(fields["metadata"])
    metadata.pop("managedFields", None)
    fields["metadata"] = msgspec.Raw(_encode(metadata))
    return msgspec.Raw(_encode(fields))
