"""Which cluster events lead to another attempt of a pod that plugins have refused, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stowplan.cluster.extended_resources import can_be_devices
from stowplan.cluster.pod_info import PodInfo
from stowplan.framework.profile import Profile
from stowplan.queue.events import ActionType, EventResource
from stowplan.queue.hints import complete_hints

_A: Final = ActionType
_FIT: Final = "NodeResourcesFit"
_NODE_ACTIONS: Final = (
    (_A.ADD, "is added"),
    (_A.DELETE, "is deleted"),
    (_A.UPDATE_NODE_ALLOCATABLE, "offers more"),
    (_A.UPDATE_NODE_LABEL, "gets other labels"),
    (_A.UPDATE_NODE_TAINT, "loses a taint"),
    (_A.UPDATE_NODE_TAINT, "is uncordoned"),
    (_A.UPDATE_NODE_CONDITION, "changes its condition"),
    (_A.UPDATE_NODE_ANNOTATION, "gets other annotations"),
    (_A.UPDATE_NODE_DECLARED_FEATURE, "declares other features"),
)
#: What happens to other pods, and to the pod itself.
_POD_ACTIONS: Final = (
    (_A.ADD, "is added"),
    (_A.DELETE, "is deleted"),
    (_A.UPDATE_POD_LABEL, "gets other labels"),
    (_A.UPDATE_POD_SCALE_DOWN, "requests less"),
)
_OWN_ACTIONS: Final = (
    (_A.UPDATE_POD_SCALE_DOWN, "requests less"),
    (_A.UPDATE_POD_TOLERATION, "gets a toleration"),
    (_A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, "loses its scheduling gates"),
    (_A.UPDATE_POD_GENERATED_RESOURCE_CLAIM, "gets its resource claim"),
)


def retry_texts(profile: Profile, plugins: Iterable[str], info: PodInfo) -> tuple[str, ...]:
    """`a node is added, offers more or ...`, and so on: what the plugins wait for."""
    wants_devices = any(can_be_devices(name) for name, _ in info.request)
    waited = {name: profile.plugins[name].events() for name in plugins if name in profile.plugins}
    actions: dict[str, ActionType] = {}
    for name, entries in complete_hints(waited).items():
        for entry in entries:
            resource = entry.event.resource
            if resource == EventResource.DEVICE_CLASS and name == _FIT and not wants_devices:
                continue  # registered for all pods, and of no use to this one
            actions[resource] = actions.get(resource, _A.NONE) | entry.event.action
    said: list[str] = []
    node = actions.pop(EventResource.NODE, _A.NONE)
    pod = actions.pop(EventResource.POD, _A.NONE)
    for who, action, words in (
        ("a node", node, _NODE_ACTIONS),
        ("another pod", pod, _POD_ACTIONS),
        ("this pod", pod, _OWN_ACTIONS),
    ):
        found = [text for bit, text in words if action & bit]
        if found:
            said.append(f"{who} {_joined(found)}")
    kinds = sorted(resource.rpartition("/")[2] for resource in actions)
    if kinds:
        said.append(f"a {_joined(kinds)} is added or changes")
    return tuple(said)


def _joined(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
