"""Claims of a pod that could not be read: the pod is judged without them, and the answer says so.

A claim that was not read must not be taken for one that does not exist. `sources` notes the kinds
that are missing, in `GivenCluster.unread`; `reasoning` asks here before it judges a pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from stowplan.api.objects import Pod
from stowplan.api.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from stowplan.cluster.pod_volumes import claims_of
from stowplan.explain.change import with_spec

if TYPE_CHECKING:  # slow to import, and a running scheduler explains without them
    from stowplan.judge.given_cluster import GivenCluster
    from stowplan.judge.objects import Thing

HOW_TO_READ: Final = (
    "To judge its volumes, too, it takes the right to list claims, volumes and storage classes, or"
    " a file that has them: kubectl get nodes,pods,pvc,pv,sc,csinodes -A -o yaml writes one."
)


def unread_claims(cluster: GivenCluster, pod: Pod) -> dict[str, str]:
    """The pod's claims that cannot be judged, by the name of its volume."""
    if not cluster.unread:
        return {}
    return {
        claim.volume: claim.name
        for claim in claims_of(pod)
        if _is_unread(cluster, claim.name, pod.metadata.namespace)
    }


def _is_unread(cluster: GivenCluster, name: str, namespace: str) -> bool:
    catalog, unread = cluster.cache.catalog, cluster.unread
    claim = catalog[PERSISTENT_VOLUME_CLAIMS].get(name, namespace)
    if claim is None:
        return PERSISTENT_VOLUME_CLAIMS.plural in unread
    volume = claim.spec.volume_name
    if volume:
        is_known = catalog[PERSISTENT_VOLUMES].get(volume) is not None
        return PERSISTENT_VOLUMES.plural in unread and not is_known
    return STORAGE_CLASSES.plural in unread


def without_unread(cluster: GivenCluster, thing: Thing) -> Thing:
    """The pod without the volumes whose claims could not be read."""
    pod: Pod = thing.struct
    unread = unread_claims(cluster, pod)
    if not unread:
        return thing
    left = tuple(volume for volume in pod.spec.volumes or () if volume.name not in unread)
    return replace(thing, struct=with_spec(pod, volumes=left))


def unread_text(claims: Sequence[str]) -> str:
    """`its claim data could not be read`."""
    shown = ", ".join(claims[:3]) + (f" and {len(claims) - 3} more" if len(claims) > 3 else "")
    return f"its claim{'s' if len(claims) > 1 else ''} {shown} could not be read"


def left_out_text(claims: Sequence[str]) -> str:
    """The same as a sentence, with what follows from it."""
    said = unread_text(claims)
    return f"{said[0].upper()}{said[1:]}: its volumes are left out."
