"""Which cluster events lead to another attempt of a pod that plugins have refused, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stowplan.framework.profile import Profile
from stowplan.queue.events import ActionType, ClusterEvent, EventResource
from stowplan.queue.hints import complete_hints

_A: Final = ActionType
#: What happens to a kind, most telling first; the text follows the kind's name.
_ACTIONS: Final = (
    (_A.ADD, "is added"),
    (_A.DELETE, "is deleted"),
    (_A.UPDATE_NODE_ALLOCATABLE, "offers more"),
    (_A.UPDATE_NODE_LABEL, "gets other labels"),
    (_A.UPDATE_NODE_TAINT, "loses a taint"),
    (_A.UPDATE_NODE_TAINT, "is uncordoned"),
    (_A.UPDATE_NODE_CONDITION, "changes its condition"),
    (_A.UPDATE_NODE_ANNOTATION, "gets other annotations"),
    (_A.UPDATE_NODE_DECLARED_FEATURE, "declares other features"),
    (_A.UPDATE_POD_LABEL, "gets other labels"),
    (_A.UPDATE_POD_SCALE_DOWN, "requests less"),
    (_A.UPDATE_POD_TOLERATION, "gets a toleration"),
    (_A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, "loses its scheduling gates"),
    (_A.UPDATE_POD_GENERATED_RESOURCE_CLAIM, "gets its resource claim"),
)
_POD_ACTIONS: Final = (
    _A.ADD | _A.DELETE | _A.UPDATE_POD_LABEL | _A.UPDATE_POD_SCALE_DOWN | _A.UPDATE_POD_TOLERATION
    | _A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED | _A.UPDATE_POD_GENERATED_RESOURCE_CLAIM
)  # fmt: skip
_NODE_ACTIONS: Final = (
    _A.ADD | _A.DELETE | _A.UPDATE_NODE_ALLOCATABLE | _A.UPDATE_NODE_LABEL | _A.UPDATE_NODE_TAINT
    | _A.UPDATE_NODE_CONDITION | _A.UPDATE_NODE_ANNOTATION | _A.UPDATE_NODE_DECLARED_FEATURE
)  # fmt: skip


def retry_texts(profile: Profile, plugins: Iterable[str]) -> tuple[str, ...]:
    """`a node is added, offers more or ...`, for each kind that one of the plugins waits for."""
    waited = {name: profile.plugins[name].events() for name in plugins if name in profile.plugins}
    actions: dict[str, ActionType] = {}
    for entries in complete_hints(waited).values():
        for entry in entries:
            _add(actions, entry.event)
    return tuple(_text(resource, action) for resource, action in sorted(actions.items()))


def _add(actions: dict[str, ActionType], event: ClusterEvent) -> None:
    known = actions.get(event.resource, _A.NONE)
    actions[event.resource] = known | event.action


def _text(resource: str, action: ActionType) -> str:
    name = resource.rpartition("/")[2]
    if resource == EventResource.POD:
        action &= _POD_ACTIONS
    elif resource == EventResource.NODE:
        action &= _NODE_ACTIONS
    else:
        changed = "changes" if action & _A.UPDATE else ""
        said = [words for bit, words in _ACTIONS[:2] if action & bit] + [changed] * bool(changed)
        return f"a {name} {_joined(said)}"
    said = [words for bit, words in _ACTIONS if action & bit]
    return f"a {name.lower()} {_joined(said)}"


def _joined(words: list[str]) -> str:
    *first, last = words or ["changes"]
    return f"{', '.join(first)} or {last}" if first else last
