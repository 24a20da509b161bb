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


def check_weights(resources: tuple[ResourceSpec, ...], *, where: str, highest: int) -> None:
    """Refuse weights outside 1..highest."""
    for index, resource in enumerate(resources):
        if not 1 <= resource.weight <= highest:
            raise ConfigError(
                f"Invalid value: {resource.weight}: resource weight of {resource.name} "
                + (f"not in valid range [1, {highest}]" if highest > 1 else "must be 1"),
                where=f"{where}.resources[{index}].weight",
            )
