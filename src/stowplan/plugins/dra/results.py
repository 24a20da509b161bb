"""What is written into a claim's status: devices, their configuration, nodes that reach them."""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.api.device_objects import (
    AllocatedDevice,
    AllocatedDevices,
    AllocationConfiguration,
    AllocationResult,
)
from stowplan.api.objects import LabelSelectorRequirement, NodeSelector, NodeSelectorTerm
from stowplan.plugins.dra.allocator import Choice, Claim
from stowplan.plugins.dra.requests import AllocationError, Request


def allocation_of(claim: Claim, node_name: str) -> AllocationResult:
    """The allocation that the search found for a claim."""
    devices = AllocatedDevices(
        results=tuple(_allocated(choice) for choice in claim.choices),
        config=tuple(_configuration(claim)) or None,
    )
    return AllocationResult(devices=devices, node_selector=_node_selector(claim, node_name))


def _allocated(choice: Choice) -> AllocatedDevice:
    driver, pool, device = choice.candidate.id
    return AllocatedDevice(
        request=choice.request.full_name,
        driver=driver,
        pool=pool,
        device=device,
        admin_access=True if choice.request.admin_access else None,
        tolerations=choice.request.details.tolerations,
        binding_conditions=choice.candidate.device.binding_conditions,
        binding_failure_conditions=choice.candidate.device.binding_failure_conditions,
        share_id=choice.share_id,
        consumed_capacity=choice.consumed or None,
    )


def _chosen(claim: Claim) -> list[Request]:
    """The requests, each by the alternative that was chosen."""
    chosen = {id(choice.request) for choice in claim.choices}
    return [
        next((one for one in alternatives if id(one) in chosen), alternatives[0])
        for alternatives in claim.requests
    ]


def _configuration(claim: Claim) -> Iterable[AllocationConfiguration]:
    """That of the classes, once for each, then that of the claim which concerns chosen requests."""
    chosen = _chosen(claim)
    of_class: dict[str, list[str]] = {}
    classes = {}
    for request in chosen:
        name = request.device_class.metadata.name
        classes[name] = request.device_class
        of_class.setdefault(name, []).append(request.full_name)
    for name, requests in of_class.items():
        for config in classes[name].spec.config or ():
            yield AllocationConfiguration("FromClass", tuple(requests), config.opaque)
    for own in claim.claim.spec.devices.config or ():
        wanted = own.requests or ()
        made = AllocationConfiguration("FromClaim", own.requests, own.opaque)
        if not wanted:
            yield made
            continue
        for request in chosen:
            if (request.parent or request.details.name) in wanted or request.full_name in wanted:
                yield made


def _node_selector(claim: Claim, node_name: str) -> NodeSelector | None:
    fields: list[LabelSelectorRequirement] = []
    expressions: list[LabelSelectorRequirement] = []
    for choice in claim.choices:
        spec, device = choice.candidate.slice.spec, choice.candidate.device
        of_node = device if spec.per_device_node_selection else spec
        if of_node.node_name is not None or device.binds_to_node:
            only = LabelSelectorRequirement("metadata.name", "In", (node_name,))
            return NodeSelector((NodeSelectorTerm(match_fields=(only,)),))
        terms = (of_node.node_selector.node_selector_terms if of_node.node_selector else None) or ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.claim.metadata.name}: unsupported "
                f"ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(term.match_fields or (), fields)
            _add_new(term.match_expressions or (), expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(
        match_expressions=tuple(expressions) or None, match_fields=tuple(fields) or None
    )
    return NodeSelector((term,))


def _add_new(
    requirements: Iterable[LabelSelectorRequirement], to: list[LabelSelectorRequirement]
) -> None:
    for one in requirements:
        if not any(
            (one.key, one.operator, set(one.values or ()))
            == (other.key, other.operator, set(other.values or ()))
            for other in to
        ):
            to.append(one)
