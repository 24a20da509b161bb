"""Moves a pod to another node: its pin first, then the pod, which its controller creates again.

`plan_move` is pure and says what would happen, or why it must not; `Mover` does it step by step,
for `stowplan move`. Invariant: nothing is changed before the API server has said that the pod may
leave (a dry run, which heeds disruption budgets), only the pod that was looked at is sent away (by
its UID), and when something fails after the pins were changed the error says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.objects import Node, OwnerReference, Pod
from stowplan.api.pod_names import PodName
from stowplan.api.resources import POD_DISRUPTION_BUDGETS, PODS
from stowplan.api.selectors import compile_label_selector
from stowplan.api.status_errors import parse_status
from stowplan.api.workload_objects import PodDisruptionBudget
from stowplan.clock import Clock, SystemClock
from stowplan.errors import (
    ApiUnavailable,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    StowplanError,
    Throttled,
)
from stowplan.plugins.static_placement.labels import PinLabels
from stowplan.static.pinning import apply_wish, find_pod
from stowplan.static.pins import (
    CLUSTERS_OWN_SCHEDULER,
    NodeEdit,
    Wish,
    edit_for,
    scheduler_of,
    wishes_for_only,
)

#: Controllers of Kubernetes itself that give every pod a new name.
_NEW_NAMES: Final = frozenset(
    (
        ("apps", "ReplicaSet"),
        ("apps", "DaemonSet"),
        ("", "ReplicationController"),
        ("batch", "Job"),
    )
)
_POLL_S: Final = 0.5
_THROTTLE_RETRIES: Final = 10


class MoveRefused(StowplanError):
    """Nothing was changed, for this reason."""


class MoveTimedOut(StowplanError):
    """The pins are set and the pod was sent away, but it is not back in time."""

    exit_code = 124  # as of timeout(1)


class MoveEffect(Enum):
    """The effect of a move on the pod itself."""

    STAYS = "it is already on that node"
    WAITS = "it has no node yet"
    LEAVES = "it is being deleted already"
    IS_SENT_AWAY = "it must be deleted, to be created again"


@dataclass(frozen=True, slots=True)
class MovePlan:
    """What would happen."""

    pod: Pod
    labels: PinLabels
    target: Node
    course: MoveEffect
    owner: OwnerReference | None
    wishes: tuple[tuple[Node, Wish], ...]
    #: What the wishes come to as the nodes are now.
    edits: tuple[NodeEdit, ...]

    @property
    def name(self) -> PodName:
        return name_of(self.pod)

    @property
    def is_done(self) -> bool:
        return self.course is MoveEffect.STAYS and not self.edits


def name_of(pod: Pod) -> PodName:
    return PodName(pod.metadata.namespace, pod.metadata.name)


def plan_move(
    pod: Pod, labels: PinLabels, target: Node, nodes: Sequence[Node], *, is_name_given: bool
) -> MovePlan:
    """Raises MoveRefused where the pod would not come back, or not there."""
    used = scheduler_of(pod)
    if used != labels.scheduler:
        raise MoveRefused(
            f"pod {pod.key} uses scheduler {used}, which reads no pins of {labels.scheduler}: it "
            "would come back anywhere"
        )
    if used == CLUSTERS_OWN_SCHEDULER and not is_name_given:
        raise MoveRefused(
            f"pod {pod.key} uses the cluster's own scheduler, which reads no pins: it would come "
            f"back anywhere. Give its controller a schedulerName, or say --name {used} if that "
            "scheduler does read pins"
        )
    course = _course(pod, target)
    owner = controller_of(pod)
    if course in (MoveEffect.IS_SENT_AWAY, MoveEffect.LEAVES):
        _check_that_it_comes_back(pod, owner, target.name)
    name = name_of(pod)
    wishes = tuple(wishes_for_only(nodes, target))
    edits = (edit_for(node, labels, name, wish) for node, wish in wishes)
    return MovePlan(
        pod, labels, target, course, owner, wishes, tuple(edit for edit in edits if edit)
    )


def controller_of(pod: Pod) -> OwnerReference | None:
    owners = pod.metadata.owner_references or ()
    return next((owner for owner in owners if owner.controller), None)


def _course(pod: Pod, target: Node) -> MoveEffect:
    if pod.is_terminating:
        return MoveEffect.LEAVES
    if not pod.spec.node_name:
        return MoveEffect.WAITS
    is_there = pod.spec.node_name == target.name
    return MoveEffect.STAYS if is_there and not pod.is_finished else MoveEffect.IS_SENT_AWAY


def _check_that_it_comes_back(pod: Pod, owner: OwnerReference | None, target: str) -> None:
    if owner is None:
        raise MoveRefused(
            f"pod {pod.key} has no controller: deleted, nothing would create it again.\n"
            f"Pin it (stowplan pin {pod.key} {target} --only), then delete it and create it again "
            "from your manifest"
        )
    whose = f"pod {pod.key} belongs to {owner.kind} {owner.name}"
    if owner.kind == "Node":
        raise MoveRefused(
            f"{whose}: it is a static pod of the kubelet there, and no scheduler places it"
        )
    if (owner.api_version.rpartition("/")[0], owner.kind) in _NEW_NAMES:
        raise MoveRefused(
            f"{whose}, whose pods get a new name each time: a pin goes by name and would not "
            "match the next one. Pods of a StatefulSet keep their names"
        )


def budget_notes(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> list[str]:
    """What the disruption budgets that count this pod allow at the moment."""
    notes = []
    for budget in budgets:
        try:
            selector = compile_label_selector(budget.spec.selector)
        except ValueError:
            continue  # as the API server takes it: it selects nothing
        if not selector.matches(pod.metadata.labels):
            continue
        status = budget.status
        allowed = "no disruption" if status.disruptions_allowed <= 0 else "a disruption"
        notes.append(
            f"{budget.metadata.name} allows {allowed} now ({status.current_healthy} healthy, "
            f"{status.desired_healthy} needed)"
        )
    return notes


async def read_budget_notes(client: ApiClient, pod: Pod) -> list[str]:
    """Only for people to see: whether the pod may go is the API server's to say."""
    try:
        listed = await client.list_all(POD_DISRUPTION_BUDGETS, namespace=pod.metadata.namespace)
    except Forbidden:
        return []
    return budget_notes(pod, listed.items)


class Mover:
    """Carries out a plan: `check`, `pin`, `send_away`, `follow`, in this order."""

    def __init__(
        self,
        client: ApiClient,
        plan: MovePlan,
        *,
        is_forced: bool = False,
        grace_period_s: int | None = None,
        clock: Clock | None = None,
        poll_s: float = _POLL_S,
    ) -> None:
        self._client = client
        self._plan = plan
        self._is_forced = is_forced
        self._grace_period_s = grace_period_s
        self._clock: Clock = clock or SystemClock()
        self._poll_s = poll_s

    async def check(self) -> None:
        """Raises MoveRefused if the API server would not let the pod go now."""
        if self._plan.course is not MoveEffect.IS_SENT_AWAY:
            return
        pod = self._plan.pod
        try:
            await self._remove(is_dry_run=True)
        except (NotFound, Conflict) as problem:
            raise MoveRefused(f"pod {pod.key} has just changed: {problem}") from None
        except (Throttled, ServerError) as refusal:
            raise MoveRefused(
                f"the API server refused to evict pod {pod.key}: {refusal}\n"
                "Try again later, or delete it anyway with --force"
            ) from None

    async def pin(self) -> list[NodeEdit]:
        """Pin the pod to its new node and to no other; what was changed."""
        plan = self._plan
        done = []
        for node, wish in plan.wishes:
            edit = await apply_wish(self._client, node, plan.labels, plan.name, wish)
            if edit is not None:
                done.append(edit)
        return done

    async def send_away(self) -> None:
        """Evict or delete the pod that the plan is about."""
        if self._plan.course is not MoveEffect.IS_SENT_AWAY:
            return
        pod, target = self._plan.pod, self._plan.target.name
        try:
            await self._remove(is_dry_run=False)
        except StowplanError as problem:
            if await self._has_left():
                return
            raise StowplanError(
                f"{problem}\nPod {pod.key} still runs on {pod.spec.node_name}, but is pinned to "
                f"{target} already: run the same command again, or undo the pin with "
                f"stowplan pin {pod.key} {pod.spec.node_name} --only"
            ) from problem

    async def follow(self, say: Callable[[str], None], timeout_s: float) -> Pod:
        """The pod once it has a node; `say` is called with each step that is waited for."""
        told = ""
        deadline = self._clock.monotonic() + timeout_s
        while True:
            try:
                pod = await find_pod(self._client, self._plan.name)
                if pod is not None and self._has_arrived(pod):
                    return pod
                state = self._waiting_for(pod)
            except (ApiUnavailable, ServerError, Throttled) as problem:
                state = f"cannot follow the move: {problem}"
            if state != told:
                told = state
                say(state)
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                raise MoveTimedOut(
                    f"pod {self._plan.name} is not on {self._plan.target.name} in time: {told}. "
                    f"Its pin stays; `kubectl describe pod {self._plan.name.name} -n "
                    f"{self._plan.name.namespace}` may say more"
                )
            await asyncio.sleep(min(self._poll_s, left_s))

    # Details

    async def _remove(self, *, is_dry_run: bool) -> None:
        pod = self._plan.pod
        name, namespace = pod.metadata.name, pod.metadata.namespace
        options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
        if self._grace_period_s is not None:
            options["gracePeriodSeconds"] = self._grace_period_s
        if is_dry_run:
            options["dryRun"] = ["All"]
        path = PODS.path(namespace=namespace, name=name)
        if self._is_forced:
            body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
            await self._client.request("DELETE", path, body=msgspec.json.encode(body))
            return
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        await self._evict(f"{path}/eviction", msgspec.json.encode(eviction))

    async def _evict(self, path: str, eviction: bytes) -> None:
        """429 means that the server is busy or that a budget says no; only the first may pass."""
        for attempt in range(_THROTTLE_RETRIES + 1):
            try:
                answer = await self._client.request(
                    "POST", path, body=eviction, retry_throttled=False
                )
                status = parse_status(answer)
                # A pod of several budgets: "created", and yet a failure.
                if status is not None and status.status == "Failure":
                    raise ServerError(status.message, status=status.code, reason=status.reason)
                return
            except Throttled as refusal:
                if "disruption budget" in str(refusal) or attempt == _THROTTLE_RETRIES:
                    raise
                await asyncio.sleep(refusal.retry_after_s)

    async def _has_left(self) -> bool:
        """After an answer that is none, or says that the pod is not the one it was."""
        try:
            pod = await find_pod(self._client, self._plan.name)
        except StowplanError:
            return False
        return pod is None or pod.uid != self._plan.pod.uid or pod.is_terminating

    def _has_arrived(self, pod: Pod) -> bool:
        is_new = pod.uid != self._plan.pod.uid or self._plan.course is MoveEffect.WAITS
        return is_new and bool(pod.spec.node_name) and not pod.is_terminating

    def _waiting_for(self, pod: Pod | None) -> str:
        if pod is None:
            owner = self._plan.owner
            controller = f"{owner.kind} {owner.name}" if owner is not None else "its controller"
            return f"gone, waiting for {controller} to recreate it"
        if pod.is_terminating or (pod.uid == self._plan.pod.uid and pod.spec.node_name):
            return f"shutting down on {pod.spec.node_name or 'no node'}"
        conditions = pod.status.conditions or ()
        why = next((c.message for c in conditions if c.type == "PodScheduled" and c.message), "")
        return f"waiting for a node{f': {why}' if why else ''}"
