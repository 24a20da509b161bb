"""A change of a pod, of a node, of the pods on it or of a volume, that could let a pod fit.

Changes are copies; `fixes` tries them on the cluster and takes them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from stowplan.api.objects import Node, Pod, PodSpec
from stowplan.api.resources import Resource
from stowplan.cluster.catalog import Catalog
from stowplan.framework.cycle import Cycle

# What a change costs, roughly: a command to a node, an edit of the pod, a node that others may use
# as well, new labels, a lost guarantee, a lost pod, moved data, a new machine.
TELL_NODE: Final = 1.0
EDIT_POD: Final = 2.0
OPEN_NODE: Final = 3.0
LABEL_NODE: Final = 3.0
GIVE_UP: Final = 4.0
EVICT: Final = 5.0
MOVE_DATA: Final = 15.0
ADD_NODE: Final = 20.0


@dataclass(frozen=True)
class Change:
    """A pod, a node, victims and other objects as they would be; what is None stays as it is."""

    kind: str
    text: str
    cost: float
    #: What makes the change, ready for a shell; empty where no single command does.
    command: str = ""
    pod: Pod | None = None
    node: Node | None = None
    victims: tuple[Pod, ...] = ()
    objects: tuple[tuple[Resource[Any], Any], ...] = ()
    #: What `node` was made with, so that it can be combined with other edits.
    edit_node: Callable[[Node], Node] | None = None
    #: What it consists of, where the text is not one step: a taint, a victim.
    steps: frozenset[str] = frozenset()
    #: Container, resource and amount of requests that it lowers.
    lowered: tuple[tuple[str, str, int], ...] = ()
    #: The changes that are combined here, and what they start from.
    parts: tuple[Change, ...] = ()
    base: tuple[Pod, Node] | None = None

    def contains(self, other: Change) -> bool:
        """Whether it does all that another change does, or more of the same."""
        amounts = {(container, name): amount for container, name, amount in self.lowered}
        return other._all_steps() <= self._all_steps() and all(
            (container, name) in amounts and amounts[container, name] <= amount
            for container, name, amount in other.lowered
        )

    def _all_steps(self) -> frozenset[str]:
        is_one = not self.steps and not self.lowered
        return frozenset((self.text,)) if is_one else self.steps

    def smaller(self) -> Iterator[Change]:
        """The same without one of its parts."""
        if self.base is None:
            return
        for place in range(len(self.parts)):
            left = (*self.parts[:place], *self.parts[place + 1 :])
            yield combined(*self.base, left) if len(left) > 1 else left[0]


#: Makes a change that removes one plugin's objection to a row, if there is one of its kind.
Make: TypeAlias = Callable[[Cycle, int, Catalog], Change | None]


def with_spec(pod: Pod, **changes: object) -> Pod:
    """A copy of a pod with other values in its spec."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **changes))


def combined(pod: Pod, node: Node, changes: Sequence[Change]) -> Change:
    """Several changes of a pod, one node and the pods there as one."""
    spec: dict[str, object] = {}
    edited = node
    for change in changes:
        if change.pod is not None:
            spec |= _differences(pod.spec, change.pod.spec)
        if change.edit_node is not None:
            edited = change.edit_node(edited)
    commands = [change.command for change in changes]
    return Change(
        "+".join(change.kind for change in changes),
        " and ".join(change.text for change in changes),
        sum(change.cost for change in changes),
        command=" && ".join(commands) if all(commands) else "",
        pod=with_spec(pod, **spec) if spec else None,
        node=None if edited is node else edited,
        victims=tuple({v.uid: v for change in changes for v in change.victims}.values()),
        objects=tuple(each for change in changes for each in change.objects),
        steps=frozenset().union(*(change._all_steps() for change in changes)),
        lowered=tuple(each for change in changes for each in change.lowered),
        parts=tuple(changes),
        base=(pod, node),
    )


def _differences(one: PodSpec, other: PodSpec) -> dict[str, object]:
    names = one.__struct_fields__
    return {
        name: getattr(other, name) for name in names if getattr(other, name) != getattr(one, name)
    }
