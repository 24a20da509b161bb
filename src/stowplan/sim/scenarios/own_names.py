"""Names on an existing cluster, where a scenario must not touch the objects of others.

Its namespaces and the names of its scheduler's profiles begin with a prefix, and all it makes
carries a mark. Elsewhere there is no prefix and names are as the scenario has them.
"""

from __future__ import annotations

import msgspec

from stowplan.config.types import KubeSchedulerConfiguration

#: A label on all that a scenario makes; its value is the prefix.
MARK = "stowplan.io/scenario"


def place_of(namespace: str, prefix: str) -> str:
    """The cluster's name of a namespace that a scenario names, or leaves out."""
    if not prefix:
        return namespace or "default"
    if namespace in ("", "default"):
        return prefix
    return namespace if namespace.startswith(prefix) else f"{prefix}-{namespace}"


def own_scheduler_name(name: str, prefix: str) -> str:
    return name if name.startswith(prefix) else f"{prefix}-{name}"


def under_own_names(config: KubeSchedulerConfiguration, prefix: str) -> KubeSchedulerConfiguration:
    """The same scheduler, serving only the scenario's pods."""
    profiles = tuple(
        msgspec.structs.replace(
            profile, scheduler_name=own_scheduler_name(profile.scheduler_name, prefix)
        )
        for profile in config.profiles
    )
    return msgspec.structs.replace(config, profiles=profiles)
