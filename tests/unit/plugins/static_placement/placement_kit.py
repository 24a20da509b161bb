"""An engine with StaticPlacement, from configuration files as people write them."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.clock import VirtualClock
from stowplan.config.load import parse_config
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.testing import pod

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
#: The label alone decides.
STRICT = f"""{HEADER}
profiles:
- schedulerName: test
  tieBreak: random
  tieBreakSeed: 7
  plugins:
    multiPoint:
      enabled:
      - name: PrioritySort
      - name: SchedulingGates
      - name: StaticPlacement
      - name: DefaultBinder
      disabled:
      - name: "*"
"""
#: The label, and all that kube-scheduler looks at.
RESPECTFUL = f"""{HEADER}
profiles:
- schedulerName: test
  plugins:
    multiPoint:
      enabled:
      - name: StaticPlacement
"""


def mine(name: str = "web-0", **fields: Any) -> Pod:
    return pod(name, scheduler_name="test", **fields)


def with_labels(node: Node, *keys: str) -> Node:
    """The node with these labels besides its hostname, and no others."""
    own = {key: value for key, value in (node.metadata.labels or {}).items() if "/host" in key}
    labels = own | dict.fromkeys(keys, "")
    return msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, labels=labels)
    )


class Bench:
    """The engine on virtual time, fed as informers would feed it."""

    def __init__(self, configuration: str, *nodes: Node) -> None:
        self.clock = VirtualClock()
        self.store: dict[str, Pod] = {}
        self.engine = build_engine(
            parse_config(configuration),
            registry=in_tree_registry(),
            clock=self.clock,
            lookup=self.store.get,
        )
        self.handlers = EventHandlers(self.engine)
        self.queue = self.engine.queue
        self.nodes: dict[str, Node] = {}
        for node in nodes:
            self.add_node(node)

    def add_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.handlers.add_node(node)

    def set_node(self, node: Node) -> None:
        old, self.nodes[node.name] = self.nodes[node.name], node
        self.handlers.update_node(old, node)

    def label(self, name: str, *keys: str) -> None:
        """Give a node these labels and no others."""
        self.set_node(with_labels(self.nodes[name], *keys))

    def delete_node(self, name: str) -> None:
        self.handlers.delete_node(self.nodes.pop(name))

    def create(self, pod: Pod) -> Pod:
        self.store[pod.key] = pod
        self.handlers.add_pod(pod)
        return pod

    def placed(self) -> Placement:
        outcome = self.engine.attempt()
        assert isinstance(outcome, Placement), outcome
        return outcome

    def failed(self) -> str:
        """The message of an attempt that came to nothing."""
        outcome = self.engine.attempt()
        assert isinstance(outcome, Failure), outcome
        return outcome.message

    def bind_next(self) -> str:
        """Place the next pod and let it come back bound; its node."""
        placement = self.placed()
        self.engine.permitted(placement)
        self.engine.bound(placement)
        old = placement.queued.pod
        new = msgspec.structs.replace(
            old, spec=msgspec.structs.replace(old.spec, node_name=placement.node)
        )
        self.store[old.key] = new
        self.handlers.update_pod(old, new)
        return placement.node

    @property
    def waiting(self) -> int:
        return self.queue.counts.unschedulable
