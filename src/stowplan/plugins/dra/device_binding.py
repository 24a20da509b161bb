"""From decision to fact: Reserve takes devices, PreBind writes them and waits for preparation.

Devices are taken from Reserve until the claim that got them is known to the cache, or it is certain
that it did not get them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec.structs import replace

from stowplan.api.device_objects import AllocationResult, ResourceClaim
from stowplan.api.objects import Node, Pod
from stowplan.errors import StowplanError
from stowplan.framework.handle import Handle
from stowplan.framework.status import Status, error
from stowplan.logs import V4, get_logger, kv
from stowplan.plugins.dra import binding_conditions as conditions
from stowplan.plugins.dra.claim_writes import (
    FINALIZER,
    ClaimWriteFailed,
    bind_claim,
    give_back,
    unreserve,
)
from stowplan.plugins.dra.extended import is_in_memory
from stowplan.plugins.dra.extended_claims import create, delete, write_pod_status
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.plugins.dra.node_search import PodDevices
from stowplan.plugins.dra.pod_claims import claim_key, is_reserved_for, namespaced_name
from stowplan.plugins.dra.sole_holder import other_holder

log = get_logger(__name__)

#: The devices of a waiting pod are looked at so often, besides with every change of its claims.
_LOOK_S: Final = 5.0
#: So long the devices of a claim that was created stay in flight if no watch shows it.
_SHOWN_S: Final = 120.0


class DeviceBinding:
    """The binding points of one profile's DynamicResources."""

    def __init__(self, handle: Handle, facts: DeviceFacts, timeout_s: float) -> None:
        self._handle = handle
        self._facts = facts
        self._timeout_s = timeout_s

    def reserve(self, devices: PodDevices, node: Node, filter_timeout_s: float) -> Status | None:
        """Take devices of the node; Filter may know no more than that there are enough."""
        if devices.version != self._facts.version:
            # A device could be taken twice.
            return error("claims or devices changed during the decision")
        wanted = devices.to_allocate(node)
        if isinstance(wanted, Status):
            return wanted
        allocations = devices.answer(node, self._handle, filter_timeout_s, lambda _: None)
        if isinstance(allocations, Status):
            return allocations
        for (place, claim), allocation in zip(wanted, allocations, strict=True):
            devices.chosen[place] = allocation
            devices.claims[place] = claim
            self._facts.reserve(_allocated(claim, allocation))
            if devices.extended is not None and devices.is_extended(place):
                on_node = devices.extended.on_node(node)
                assert not isinstance(on_node, Status)
                devices.mappings = on_node.mappings
        return None

    def unreserve(self, devices: PodDevices, pod: Pod) -> None:
        """Give devices back, and take the pod out of the consumers of its claims."""
        for place, claim in enumerate(devices.claims):
            meta = claim.metadata
            if meta.uid not in devices.unsettled and self._facts.release(meta.uid):
                self._facts.restore(meta.name, meta.namespace)
            if devices.is_extended(place):
                if not is_in_memory(claim):
                    self._handle.background(
                        partial(self._delete_extended, devices, claim),
                        f"delete {namespaced_name(claim)}",
                    )
                continue
            if claim.status.allocation is not None and is_reserved_for(claim, pod):
                self._handle.background(
                    partial(unreserve, self._handle, claim, pod),
                    f"unreserve {namespaced_name(claim)}",
                )

    async def pre_bind(self, devices: PodDevices, pod: Pod, node: str) -> Status | None:
        """Write allocations and reservations, and wait for devices that must be prepared."""
        for place, claim in enumerate(devices.claims):
            if not is_reserved_for(claim, pod):
                try:
                    if devices.is_extended(place):
                        await self._bind_extended(devices, place, pod)
                    else:
                        devices.claims[place] = await self._bind(devices, place, pod)
                except ClaimWriteFailed as problem:
                    return error(str(problem))
        doubled = await self._double(devices, pod)
        if doubled:
            return error(doubled)
        if not conditions.has_conditions(devices.claims):
            return None
        return await self._wait_until_prepared(devices, pod, node)

    # Writing

    async def _bind(self, devices: PodDevices, place: int, pod: Pod) -> ResourceClaim:
        claim, allocation = devices.claims[place], devices.chosen.get(place)
        try:
            written = await bind_claim(self._handle, pod, claim, allocation)
        except ClaimWriteFailed:
            self._facts.release(claim.metadata.uid)
            raise
        except BaseException:
            if allocation is not None:
                # Turned back in the middle of a write, which may arrive all the same.
                devices.unsettled.add(claim.metadata.uid)
                self._handle.background(
                    partial(self._settle, pod, claim, allocation),
                    f"settle {namespaced_name(claim)}",
                )
            raise
        self._facts.assume(written)
        self._facts.release(claim.metadata.uid)
        return written

    async def _settle(self, pod: Pod, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Repeat an interrupted write until its answer is clear; only then are devices free."""
        try:
            written = await bind_claim(self._handle, pod, claim, allocation)
        except ClaimWriteFailed as problem:
            log.log(
                V4,
                "Claim was not allocated",
                extra=kv(claim=namespaced_name(claim), err=str(problem)),
            )
        else:
            self._facts.assume(written)
            await unreserve(self._handle, written, pod)
        self._facts.release(claim.metadata.uid)

    async def _double(self, devices: PodDevices, pod: Pod) -> str:
        """A text if another scheduler gave a device of the pod to another claim, too.

        Then the claim has given its devices back.
        """
        for place in devices.chosen:
            written = devices.claims[place]
            problem = await other_holder(self._handle, self._facts, written)
            if problem:
                try:
                    devices.claims[place] = given_back = await give_back(self._handle, written)
                    self._facts.assume(given_back)
                except StowplanError as trouble:
                    # The next attempt finds the claim allocated, and looks again.
                    log.error(
                        "Could not give a device back",
                        extra=kv(
                            resourceclaim=namespaced_name(written), pod=pod.key, err=str(trouble)
                        ),
                    )
                return problem
        return ""

    # Extended resources

    async def _bind_extended(self, devices: PodDevices, place: int, pod: Pod) -> None:
        """Create the claim, unless a device plugin provides everything, and allocate it."""
        allocation = devices.chosen.get(place)
        if allocation is None:
            return
        # Each version is kept at once, so that Unreserve deletes what was created.
        try:
            claim = devices.claims[place] = await create(self._handle, devices.claims[place])
            claim = devices.claims[place] = await bind_claim(self._handle, pod, claim, allocation)
        except ClaimWriteFailed:
            self._release_extended(devices)
            raise
        if self._facts.assume(claim):
            self._release_extended(devices)
        else:
            self._handle.background(
                partial(self._release_when_shown, devices, claim), f"await {namespaced_name(claim)}"
            )
        await write_pod_status(self._handle, pod, claim, devices.mappings)

    async def _release_when_shown(self, devices: PodDevices, claim: ResourceClaim) -> None:
        """Keep the devices in flight until the watch shows the claim that has them."""
        clock, wakeup = self._handle.clock, self._handle.wakeup()
        deadline = clock.monotonic() + _SHOWN_S
        with self._facts.telling([claim_key(claim)], wakeup.ring):
            while not self._facts.assume(claim):
                left = deadline - clock.monotonic()
                if left <= 0 or not await wakeup.wait(min(left, _LOOK_S)):
                    break
        self._release_extended(devices)

    async def _delete_extended(self, devices: PodDevices, claim: ResourceClaim) -> None:
        await delete(self._handle, claim)
        self._release_extended(devices)

    def _release_extended(self, devices: PodDevices) -> None:
        """The claim was in flight under the UID that it had in memory."""
        assert devices.extended is not None
        self._facts.release(devices.extended.claim.metadata.uid)

    # Preparing

    async def _wait_until_prepared(self, devices: PodDevices, pod: Pod, node: str) -> Status | None:
        handle = self._handle
        handle.record(
            pod,
            type="Normal",
            reason="BindingConditionsPending",
            action="Scheduling",
            note=f"waiting for binding conditions for device on node {node}",
        )
        began = handle.clock.monotonic()
        outcome: conditions.Outcome = "success"
        problem: conditions.BindingProblem | None = None
        try:
            await self._wait(devices)
        except conditions.BindingProblem as found:
            problem, outcome = found, found.outcome
        self._count(devices, outcome, handle.clock.monotonic() - began)
        summary = conditions.summary(devices.claims, outcome)
        log.log(
            V4,
            "Waited for binding conditions",
            extra=kv(pod=pod.key, node=node, outcome=outcome, devices=summary),
        )
        return None if problem is None else error(str(problem))

    async def _wait(self, devices: PodDevices) -> None:
        """Until all devices are prepared; BindingProblem if they will not be."""
        clock, wakeup = self._handle.clock, self._handle.wakeup()
        deadline = clock.monotonic() + self._timeout_s
        with self._facts.telling(map(claim_key, devices.claims), wakeup.ring):
            while not self._is_prepared(devices):
                left = max(0.0, deadline - clock.monotonic())
                if not await wakeup.wait(min(left, _LOOK_S)):
                    raise conditions.BindingProblem("context canceled", "error")
                if clock.monotonic() >= deadline:
                    # As upstream, without another look.
                    raise conditions.timed_out("context deadline exceeded")

    def _is_prepared(self, devices: PodDevices) -> bool:
        for place, claim in enumerate(devices.claims):
            if is_in_memory(claim):
                continue
            known = self._facts.claim(claim.metadata.name, claim.metadata.namespace)
            if known is None and devices.is_extended(place):
                known = claim  # The watch has not shown it yet.
            if known is None:
                text = f'could not find ResourceClaim "{namespaced_name(claim)}"'
                raise conditions.BindingProblem(text, "error")
            devices.claims[place] = known
            if not conditions.is_ready(known):
                if conditions.is_overdue(known, self._timeout_s, self._handle.clock.time()):
                    raise conditions.timed_out(f"claim={known.metadata.name}")
                return False
        return True

    def _count(self, devices: PodDevices, outcome: conditions.Outcome, took_s: float) -> None:
        observe, profile = self._handle.observe, self._handle.profile
        for claim in devices.claims:
            for device in conditions.devices_of(claim):
                labels = (profile, device.driver, outcome)
                observe("scheduler_dra_bindingconditions_wait_duration_seconds", labels, took_s)
                if device.binding_conditions:
                    observe("scheduler_dra_bindingconditions_allocations_total", labels, 1)


def _allocated(claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    """The claim as PreBind is going to write it."""
    finalizers = claim.metadata.finalizers or ()
    if FINALIZER not in finalizers:
        finalizers = (*finalizers, FINALIZER)
    return replace(
        claim,
        metadata=replace(claim.metadata, finalizers=finalizers),
        status=replace(claim.status, allocation=allocation),
    )
