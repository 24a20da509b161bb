"""Facts about pods and nodes as an API server tells them, and words for them.

Used by expectations, reports and pictures. Pure: objects in JSON go in, values and texts come out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stowplan.sim.scenarios.actions import Json, ObjectPattern
from stowplan.sim.scenarios.own_names import place_of

FINISHED_PHASES: Final = ("Succeeded", "Failed")
#: So many pods are named in words; more would hide what they say.
_MOST_NAMED: Final = 5


@dataclass(frozen=True)
class ClusterState:
    """The objects of a cluster at one moment."""

    pods: Sequence[Json]
    nodes: Sequence[Json]
    #: The prefix of namespaces on an existing cluster.
    prefix: str = ""
    #: Victims of preemption so far, each with the pod that it had to leave for.
    preempted: Mapping[str, str] = field(default_factory=dict)
    #: Objects of other kinds that expectations name; None: it was there once.
    objects: Mapping[ObjectPattern, Json | None] = field(default_factory=dict)
    #: Pods that ever existed, by namespace/name, with their labels; and names of nodes.
    seen_pods: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seen_nodes: Collection[str] = ()

    def place(self, namespace: str) -> str:
        """What a namespace is called there, or that of pods that name none."""
        return place_of(namespace, self.prefix)


@dataclass(frozen=True, slots=True)
class ClaimResult:
    is_met: bool
    #: What is so; worth telling where something else was expected.
    found: str = ""


def key_of(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def node_of(pod: Json) -> str:
    node: str = (pod.get("spec") or {}).get("nodeName") or ""
    return node


def phase_of(pod: Json) -> str:
    phase: str = (pod.get("status") or {}).get("phase") or "Pending"
    return phase


def message_of(pod: Json) -> str:
    """The message of the scheduler, or of a scheduling gate, about a pod."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            reason, message = condition.get("reason", ""), condition.get("message", "")
            return f"{message}" if message else str(reason)
    return ""


def where_is(pod: Json) -> str:
    node = node_of(pod)
    if node:
        return f"on {node}"
    message = message_of(pod)
    return f"pending: {message}" if message else "pending"


def is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def first_difference(wanted: Any, there: Any, path: str = "") -> tuple[str, Any] | None:
    """Where `there` lacks something of `wanted`, and what it has instead; None: nowhere.

    Mappings may have more than is wanted, lists may not.
    """
    if isinstance(wanted, dict) and isinstance(there, dict):
        for name, value in wanted.items():
            inner = f"{path}.{name}" if path else str(name)
            found = first_difference(value, there.get(name), inner)
            if found is not None:
                return found
        return None
    if isinstance(wanted, list) and isinstance(there, list) and len(wanted) == len(there):
        for number, value in enumerate(wanted):
            found = first_difference(value, there[number], f"{path}[{number}]")
            if found is not None:
                return found
        return None
    return None if wanted == there else (path, there)


def domains(key: str, pods: Sequence[Json], view: ClusterState) -> tuple[Counter[str], list[Json]]:
    """Pods on each value of the label that a node has, and pods that are on none."""
    values = {
        node["metadata"]["name"]: labels[key]
        for node in view.nodes
        if key in (labels := node["metadata"].get("labels") or {})
    }
    counts = Counter(dict.fromkeys(values.values(), 0))
    homeless = []
    for pod in pods:
        value = values.get(node_of(pod))
        if value is None:
            homeless.append(pod)
        else:
            counts[value] += 1
    return counts, homeless


def all_of(
    pods: Sequence[Json], is_so: Callable[[Json], bool], told: Callable[[Json], str]
) -> ClaimResult:
    wrong = [pod for pod in pods if not is_so(pod)]
    return ClaimResult(False, named(wrong, told)) if wrong else ClaimResult(True, named(pods, told))


def named(pods: Sequence[Json], told: Callable[[Json], str]) -> str:
    if len(pods) == 1:
        return told(pods[0])
    parts = [f"{pod['metadata']['name']} {told(pod)}" for pod in pods[:_MOST_NAMED]]
    if len(pods) > _MOST_NAMED:
        parts.append(f"and {len(pods) - _MOST_NAMED} more")
    return "; ".join(parts)


def worst(findings: Sequence[ClaimResult]) -> ClaimResult:
    """The combined result: all failures, or what was found if there is none."""
    wrong = [finding for finding in findings if not finding.is_met]
    told = dict.fromkeys(finding.found for finding in wrong or findings if finding.found)
    return ClaimResult(not wrong, "; ".join(told))


def is_or_are(is_one: bool) -> str:
    return "is" if is_one else "are"


def one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def label_words(key: str) -> str:
    """The last word of a well-known label."""
    return key.rpartition("/")[2] if "kubernetes.io/" in key else key


def name_in(key: str) -> str:
    return key.rpartition("/")[2]


def shortened(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
