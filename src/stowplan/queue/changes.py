"""Which events an updated pod or node amounts to.

An update becomes one event for each changed property that scheduling reads, so that the queue calls
the hints of only those plugins that registered for it. The scheduling queue uses `pod_changes` for
pending pods; the scheduler uses both functions for bound pods and nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

from stowplan.api.objects import Node, Pod
from stowplan.queue.events import ActionType, ClusterEvent, EventResource

PodRequests: TypeAlias = Callable[[Pod], Mapping[str, int]]
"""What a pod asks for by resource name, in any unit, as long as it is always the same one."""


def pod_changes(
    old: Pod, new: Pod, requests: PodRequests | None = None
) -> tuple[ClusterEvent, ...]:
    """Never empty: a change of nothing that has its own event is a plain Update.

    Without `requests` any change of the pod's resources counts as scaled down: an attempt too many
    is better than one too few.
    """
    actions: list[ActionType] = []
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        actions.append(ActionType.UPDATE_POD_LABEL)
    if _is_scaled_down(old, new, requests):
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    if len(old.spec.tolerations or ()) != len(new.spec.tolerations or ()):
        actions.append(ActionType.UPDATE_POD_TOLERATION)  # the API only lets them be added
    if _claims(old) != _claims(new):
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    resource = EventResource.ASSIGNED_POD if new.spec.node_name else EventResource.UNSCHEDULABLE_POD
    return tuple([_event(resource, action) for action in actions or [ActionType.UPDATE]])


def _is_scaled_down(old: Pod, new: Pod, requests: PodRequests | None) -> bool:
    if _resource_fields(old) == _resource_fields(new):
        return False
    if requests is None:
        return True
    now = requests(new)
    return any(name not in now or now[name] < amount for name, amount in requests(old).items())


def _resource_fields(pod: Pod) -> tuple[object, ...]:
    """Everything that a pod's requests are computed from."""
    spec, status = pod.spec, pod.status
    return (
        [container.resources for container in spec.containers or ()],
        [container.resources for container in spec.init_containers or ()],
        spec.overhead or {},
        spec.resources,
        status.reported_resources,
        status.resources,
        status.allocated_resources or {},
    )


def _claims(pod: Pod) -> tuple[object, ...]:
    status = pod.status
    return (status.resource_claim_statuses or (), status.extended_resource_claim_status)


def node_changes(old: Node, new: Node) -> tuple[ClusterEvent, ...]:
    """Empty if nothing changed that could help a pod (heartbeats, images...)."""
    actions: list[ActionType] = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(ActionType.UPDATE_NODE_TAINT)  # upstream has no action of its own for it
    if (old.status.allocatable or {}) != (new.status.allocatable or {}):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        actions.append(ActionType.UPDATE_NODE_LABEL)
    if (old.spec.taints or ()) != (new.spec.taints or ()):
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _condition_states(old) != _condition_states(new):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if (old.metadata.annotations or {}) != (new.metadata.annotations or {}):
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if (old.status.declared_features or ()) != (new.status.declared_features or ()):
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return tuple([_event(EventResource.NODE, action) for action in actions])


def _condition_states(node: Node) -> dict[str, str]:
    """Without their times, which change with every heartbeat."""
    return {condition.type: condition.status for condition in node.status.conditions or ()}


@cache
def _event(resource: EventResource, action: ActionType) -> ClusterEvent:
    """One object for each of the few events: spelling its label costs more than the comparison."""
    return ClusterEvent(resource, action)
