"""All pending pods, grouped by what keeps them: the overview of a cluster that is full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from stowplan.api.objects import Pod
from stowplan.explain.explanation import Explanation, State
from stowplan.explain.facts import Answer
from stowplan.explain.text import count_text, table_or_list
from stowplan.present.tables import format_table

if TYPE_CHECKING:
    from stowplan.explain.reasoning import Explainer
    from stowplan.judge.objects import Thing

#: Pods that are named for each cause.
_EXAMPLES = 3


class PendingGroup(Answer, frozen=True):
    """Pods with one cause."""

    pods: int
    state: State
    #: The plugin and the reason that most nodes give.
    plugin: str
    reason: str
    examples: tuple[str, ...]
    #: The explanation of the first.
    summary: str


class Pending(Answer, frozen=True):
    """The queue of a running scheduler."""

    #: How many pods are in each place.
    counts: dict[str, int]
    #: Largest first.
    groups: tuple[PendingGroup, ...] = ()


def group_pending(
    explainer: Explainer, things: Iterable[Thing], progress: Callable[[int], None]
) -> list[PendingGroup]:
    """Groups by cause, largest first. Pods that no plugin can tell apart are judged once."""
    known: dict[bytes, Explanation] = {}
    groups: dict[tuple[State, str, str], list[tuple[str, Explanation]]] = {}
    for number, thing in enumerate(things):
        progress(number)
        pod: Pod = thing.struct
        kind = msgspec.json.encode(
            (
                pod.metadata.namespace,
                pod.metadata.labels,
                pod.spec,
                pod.status.nominated_node_name,
                pod.uid if pod.spec.volumes or pod.spec.resource_claims else "",
            )
        )
        said = known.get(kind)
        if said is None:
            said = known[kind] = explainer.explain(thing, foretells=False)
        groups.setdefault(_cause(said), []).append((pod.key, said))
    found = [_group(cause, members) for cause, members in groups.items()]
    return sorted(found, key=lambda each: (-each.pods, each.examples))


def _cause(said: Explanation) -> tuple[State, str, str]:
    if said.feasible_nodes and said.state is State.PENDING and not said.cause:
        return said.state, "", f"fits now, but {said.scheduler} has not placed it"
    if said.feasible_nodes or not said.reasons:
        return said.state, "", said.cause
    return said.state, said.reasons[0].plugin, said.reasons[0].reason


def _group(cause: tuple[State, str, str], members: list[tuple[str, Explanation]]) -> PendingGroup:
    state, plugin, reason = cause
    examples = tuple(sorted(key for key, _ in members)[:_EXAMPLES])
    return PendingGroup(len(members), state, plugin, reason, examples, members[0][1].summary)


def pending_text(groups: Sequence[PendingGroup], columns: int = 0) -> str:
    """A table, largest group first; a list on a terminal that is narrower than the table."""
    if not groups:
        return "No pod is pending.\n"
    rows = [
        (
            each.pods,
            each.reason or _state_text(each.state),
            each.plugin or "-",
            ", ".join(each.examples) + (", ..." if each.pods > len(each.examples) else ""),
        )
        for each in groups
    ]
    table = format_table(("PODS", "CAUSE ON MOST NODES", "PLUGIN", "SUCH AS"), rows)
    lines = [
        f"{count_text(pods, 'pod')}: {cause} ({plugin}): {some}"
        for pods, cause, plugin, some in rows
    ]
    return table_or_list(table, lines, columns)


def _state_text(state: State) -> str:
    is_gated = state is State.GATED
    return "held by scheduling gates" if is_gated else "waiting for victims to go"
