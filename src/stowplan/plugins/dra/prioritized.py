"""Scores of alternatives: a node where a request gets its first choice is better."""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.api.device_objects import AllocationResult, ResourceClaim

#: Alternatives that a request can have, at most.
MAX_ALTERNATIVES = 8


def score_of(allocations: Iterable[tuple[ResourceClaim, AllocationResult]]) -> int:
    """The sum over all requests with alternatives: 8 for the first, 7 for the second, and so on."""
    score = 0
    for claim, allocation in allocations:
        chosen = {device.request for device in allocation.devices.results or ()}
        for request in claim.spec.devices.requests or ():
            if request.exactly is not None:
                continue
            for place, alternative in enumerate(request.first_available or ()):
                if f"{request.name}/{alternative.name}" in chosen:
                    score += MAX_ALTERNATIVES - place
    return score
