"""Which claims a pod has: those it names, and those that were made for it from templates.

The texts are kube-scheduler's. A problem here is one that only a change of the pod or of its claims
can solve.
"""

from __future__ import annotations

from stowplan.api.device_objects import ClaimConsumer, ResourceClaim
from stowplan.api.objects import Pod, PodResourceClaim
from stowplan.plugins.dra.facts import ClaimKey, DeviceFacts


class ClaimProblem(Exception):
    """The reason why a pod's claims cannot be used now."""


def claims_of(pod: Pod, facts: DeviceFacts) -> list[ResourceClaim]:
    """The claims of a pod in its order; raises ClaimProblem if one cannot be used.

    An entry whose claim was left out on purpose has none.
    """
    found: list[ResourceClaim] = []
    for entry in pod.spec.resource_claims or ():
        name, is_made_for_pod = _claim_name(pod, entry)
        if name is None:
            continue
        claim = facts.claim(name, pod.metadata.namespace)
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimProblem(f'resourceclaim "{name}" is being deleted')
        if is_made_for_pod and not _is_owned_by(claim, pod):
            raise ClaimProblem(
                f"ResourceClaim {claim.metadata.namespace}/{name} was not created for Pod "
                f"{pod.key} (Pod is not owner)"
            )
        found.append(claim)
    return found


def claim_names(pod: Pod) -> set[ClaimKey]:
    """The names of a pod's claims, whether they exist or not."""
    named = {each.resource_claim_name for each in pod.spec.resource_claims or ()}
    made = {each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}
    return {(pod.metadata.namespace, name) for name in named | made if name is not None}


def problem_of(pod: Pod, facts: DeviceFacts) -> str:
    """Why the pod's claims cannot be used; empty if they can."""
    if not pod.spec.resource_claims:
        return ""
    try:
        claims_of(pod, facts)
    except ClaimProblem as problem:
        return str(problem)
    return ""


def _claim_name(pod: Pod, entry: PodResourceClaim) -> tuple[str | None, bool]:
    """The name of the claim, None if there is none to wait for, and whether the pod must own it."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name, False
    if entry.resource_claim_template_name is None:
        raise ClaimProblem(
            f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are '
            "set"
        )
    for status in pod.status.resource_claim_statuses or ():
        if status.name == entry.name:
            return status.resource_claim_name, True
    raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')


def _is_owned_by(claim: ResourceClaim, pod: Pod) -> bool:
    return any(
        owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references or ()
    )


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    return any(consumer.uid == pod.uid for consumer in claim.status.reserved_for or ())


def consumer_of(pod: Pod) -> ClaimConsumer:
    """The pod as claims list it in `status.reservedFor`."""
    return ClaimConsumer(resource="pods", name=pod.metadata.name, uid=pod.uid)


def claim_key(claim: ResourceClaim) -> ClaimKey:
    return claim.metadata.namespace, claim.metadata.name


def namespaced_name(claim: ResourceClaim) -> str:
    """`namespace/name`, as messages have it."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
