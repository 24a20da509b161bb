"""What can be done to a pod beside reading and writing it: binding and eviction.

Binding is the scheduler's write and the hottest path of the server: one shallow copy of the pod
along the changed fields, no deep copy.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.conforming import Mismatch, conform_to
from stowplan.apiserver.deletion import Deleter, check_preconditions
from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import POD_DISRUPTION_BUDGETS, PODS
from stowplan.apiserver.selection import labels_match
from stowplan.apiserver.statuses import (
    Failure,
    bad_request,
    conflict,
    details_of,
    storage_error,
    unexplained,
)
from stowplan.apiserver.store import Store
from stowplan.clock import rfc3339

_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


class PodActions:
    """Both answer with a Status, never with the pod."""

    def __init__(self, store: Store, deleter: Deleter) -> None:
        self._store = store
        self._deleter = deleter

    def bind(self, namespace: str, name: str, binding: Json, *, dry_run: bool = False) -> None:
        """Assigns the pod to a node; refuses a pod that is assigned, gated or going away."""
        binding = _formed("Binding", binding)
        metadata = binding["metadata"]
        name = _same_name(name, metadata, "Binding")
        node = _target_node(binding)
        pod = self._store.require(PODS, namespace, name)
        _check_identity(pod, metadata)
        obj = pod.object
        refusal = _why_not(name, obj)
        if refusal:
            raise Failure(
                409,
                f'Operation cannot be fulfilled on pods/binding "{name}": {refusal}',
                details={"name": name, "kind": "pods/binding"},
            )
        bound_metadata = obj["metadata"]
        if metadata.get("annotations"):
            merged = {**(bound_metadata.get("annotations") or {}), **metadata["annotations"]}
            bound_metadata = {**bound_metadata, "annotations": merged}
        if metadata.get("labels"):
            merged = {**(bound_metadata.get("labels") or {}), **metadata["labels"]}
            bound_metadata = {**bound_metadata, "labels": merged}
        status = dict(obj.get("status") or {})
        status.pop("nominatedNodeName", None)
        status["conditions"] = with_conditions(
            status.get("conditions"),
            rfc3339(self._store.clock.time()),
            {"type": "PodScheduled", "status": "True"},
        )
        bound = {
            **obj,
            "metadata": bound_metadata,
            "spec": {**obj["spec"], "nodeName": node},
            "status": status,
        }
        self._store.update(PODS, bound, pod, dry_run=dry_run)

    def evict(self, namespace: str, name: str, eviction: Json, *, dry_run: bool = False) -> None:
        """Deletes the pod if its disruption budget has room, else 429."""
        eviction = _formed("Eviction", eviction)
        name = _same_name(name, eviction["metadata"], "Eviction")
        options = eviction.get("deleteOptions") or {}
        dry_run = dry_run or bool(options.get("dryRun"))
        pod = self._store.require(PODS, namespace, name)
        status = pod.object.get("status") or {}
        if (
            status.get("phase") not in ("Succeeded", "Failed", "Pending")
            and "deletionTimestamp" not in pod.object["metadata"]
        ):
            self._take_from_budget(namespace, pod, dry_run)
        check_preconditions(PODS, pod, options.get("preconditions") or {})
        if not dry_run:
            pod = self._mark_disrupted(pod)
        self._deleter.delete(PODS, pod, {**options, "preconditions": None}, dry_run=dry_run)

    def _mark_disrupted(self, pod: Record) -> Record:
        status = dict(pod.object.get("status") or {})
        status["conditions"] = with_conditions(
            status.get("conditions"),
            rfc3339(self._store.clock.time()),
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            },
        )
        return self._store.update(PODS, {**pod.object, "status": status}, pod)

    def _take_from_budget(self, namespace: str, pod: Record, dry_run: bool) -> None:
        labels = pod.object["metadata"].get("labels") or {}
        budgets = [
            record
            for record in self._store.records(POD_DISRUPTION_BUDGETS, namespace)
            if labels_match((record.object.get("spec") or {}).get("selector"), labels)
        ]
        if len(budgets) > 1:
            raise unexplained(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource"
                " does not support."
            )
        if not budgets:
            return
        budget = budgets[0]
        if not is_ready(pod.object) and _unhealthy_may_go(budget.object):
            return
        changed = _one_disruption_less(budget.object, pod.key[1], self._store.clock.time())
        if not dry_run:
            self._store.update(POD_DISRUPTION_BUDGETS, changed, budget)


def with_conditions(conditions: Any, now: str, *new: Json) -> list[Json]:
    """The conditions with some replaced or added; their times move only when their status does."""
    left = {condition["type"]: condition for condition in new}
    result: list[Json] = []
    for condition in conditions or ():
        replacing = left.pop(condition.get("type"), None)
        if replacing is None:
            result.append(condition)
            continue
        moved = now
        if condition.get("status") == replacing["status"]:
            moved = condition.get("lastTransitionTime") or now
        result.append({"lastProbeTime": None, "lastTransitionTime": moved, **replacing})
    result += [
        {"lastProbeTime": None, "lastTransitionTime": now, **condition}
        for condition in left.values()
    ]
    return result


def is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _formed(kind: str, sent: Json) -> Json:
    """The body as Go's struct of that name, whatever kind it calls itself."""
    if sent.get("kind") not in (None, "", kind):
        raise bad_request(
            f'{sent["kind"]} in version "v1" cannot be handled as a {kind}: unknown conversion'
        )
    body = {key: value for key, value in sent.items() if key not in ("kind", "apiVersion")}
    try:
        return conform_to(kind, body)
    except Mismatch as error:
        raise bad_request(
            f'{kind} in version "v1" cannot be handled as a {kind}: {error}'
        ) from None


def _same_name(name: str, metadata: Json, what: str) -> str:
    sent: str = metadata.get("name", "")
    if not name:
        if not sent:
            raise bad_request(f"the {what} names no pod: metadata.name is missing")
        return sent
    if sent and sent != name:
        raise bad_request(f"name in URL does not match name in {what} object")
    return name


def _target_node(binding: Json) -> str:
    target = binding["target"]
    kind = target.get("kind", "")
    if kind not in ("", "Node"):
        raise unexplained(
            f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        )
    node: str = target.get("name", "")
    if not node:
        raise unexplained("target.name: Required value")
    return node


def _check_identity(pod: Record, metadata: Json) -> None:
    """The scheduler sends the UID it saw: a pod of the same name must not get its node."""
    real = pod.object["metadata"]
    why = ""
    if metadata.get("uid") and metadata["uid"] != real["uid"]:
        why = f"UID in precondition: {metadata['uid']}, UID in object meta: {real['uid']}"
    elif (metadata.get("resourceVersion") or real["resourceVersion"]) != real["resourceVersion"]:
        why = (
            f"ResourceVersion in precondition: {metadata['resourceVersion']}, ResourceVersion in"
            f" object meta: {real['resourceVersion']}"
        )
    if why:
        raise conflict(PODS, real["name"], storage_error(PODS, pod.object, why))


def _why_not(name: str, pod: Json) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    node = pod["spec"].get("nodeName")
    if node:
        return f'pod {name} is already assigned to node "{node}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _unhealthy_may_go(budget: Json) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired: int = status.get("desiredHealthy", 0)
    return desired > 0 and status.get("currentHealthy", 0) >= desired


def _one_disruption_less(budget: Json, pod_name: str, now: float) -> Json:
    metadata, status = budget["metadata"], dict(budget.get("status") or {})
    name = metadata["name"]
    if status.get("observedGeneration", 0) < metadata.get("generation", 0):
        raise _over_budget(
            f"The disruption budget {name} is still being processed by the server.", retry_s=10
        )
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise Failure(
            403,
            f'poddisruptionbudget.policy "{name}" is forbidden: pdb disruptions allowed is'
            " negative",
            details={**details_of(POD_DISRUPTION_BUDGETS, name), "kind": "poddisruptionbudget"},
        )
    if allowed == 0:
        raise _over_budget(_why_none_allowed(name, status))
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod_name: rfc3339(now)}
    status["conditions"] = _disruption_condition(status, rfc3339(now))
    return {**budget, "status": status}


def _disruption_condition(status: Json, now: str) -> list[Json]:
    """The budget's own summary, which the disruption controller would write next."""
    enough = status["disruptionsAllowed"] > 0
    new = {
        "type": "DisruptionAllowed",
        "status": "True" if enough else "False",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": now,
        "reason": "SufficientPods" if enough else "InsufficientPods",
        "message": "",
    }
    others = []
    for condition in status.get("conditions") or ():
        if condition["type"] != new["type"]:
            others.append(condition)
        elif condition["status"] == new["status"]:
            new["lastTransitionTime"] = condition["lastTransitionTime"]
    return [*others, new]


def _why_none_allowed(name: str, status: Json) -> str:
    current, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    condition: Json = next(
        (c for c in status.get("conditions") or () if c.get("type") == "DisruptionAllowed"), {}
    )
    reason, message = condition.get("reason", ""), condition.get("message", "")
    refused = condition.get("status") == "False" and bool(message)
    if refused and reason == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it"
            f" failed sync: {message}"
        )
    if current <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
        )
    if refused:
        return (
            f"The disruption budget {name} does not allow evicting pods currently ({reason}):"
            f" {message}"
        )
    return f"The disruption budget {name} does not allow evicting pods currently"


def _over_budget(cause: str, *, retry_s: int = 0) -> Failure:
    details: Json = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_s:
        details["retryAfterSeconds"] = retry_s
    return Failure(429, _BUDGET, details=details)
