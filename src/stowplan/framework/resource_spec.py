"""Resources by name and weight, as the arguments of resource plugins spell them."""

from __future__ import annotations

import msgspec

from stowplan.cluster.requests import CPU, MEMORY
from stowplan.errors import ConfigError


class ResourceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A resource that takes part in a score, and how much it counts."""

    name: str
    weight: int = 1


CPU_AND_MEMORY = (ResourceSpec(CPU, 1), ResourceSpec(MEMORY, 1))


def with_defaults(resources: tuple[ResourceSpec, ...] | None) -> tuple[ResourceSpec, ...]:
    """None at all means cpu and memory, and a weight of 0 means 1, as in every configuration."""
    chosen = tuple(
        ResourceSpec(resource.name, resource.weight or 1) for resource in resources or ()
    )
    return chosen or CPU_AND_MEMORY


def check_weights(resources: tuple[ResourceSpec, ...], *, where: str, highest: int) -> None:
    """Refuse weights outside 1..highest. `where` is the path of the list."""
    for index, resource in enumerate(resources):
        if not 1 <= resource.weight <= highest:
            reason = f"resource weight of {resource.name} not in valid range (0, {highest}]"
            if highest == 1:
                reason = "must be 1"
            raise ConfigError(
                f"Invalid value: {resource.weight}: {reason}", where=f"{where}[{index}].weight"
            )
