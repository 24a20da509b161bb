"""Pods that were cleaned up in a recording and have not finished here, by the claims they name.

In the recorded cluster, a claim can be deleted with its pod. A pod that still waits then would wait
for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.sim.traces.model import Json, Removal

#: Kind, namespace and name of a claim, as the trace has them.
_Claim = tuple[str, str, str]


class ClaimUsers:
    """Pods are known by their key in the trace."""

    def __init__(self) -> None:
        self._pods: dict[_Claim, dict[str, None]] = {}

    def add(self, pod: str, manifest: Json) -> None:
        for claim in _claims_of(manifest):
            self._pods.setdefault(claim, {})[pod] = None

    def discard(self, pod: str, manifest: Json) -> None:
        """Forget a pod that has finished, or is gone."""
        for claim in _claims_of(manifest):
            pods = self._pods.get(claim, {})
            pods.pop(pod, None)
            if not pods:
                self._pods.pop(claim, None)

    def of(self, removed: Removal) -> list[str]:
        """The pods that name a claim."""
        return list(self._pods.get((removed.kind, removed.namespace, removed.name), ()))


def _claims_of(manifest: Json) -> Iterator[_Claim]:
    namespace, spec = manifest["metadata"].get("namespace", ""), manifest["spec"]
    for volume in spec.get("volumes") or ():
        if name := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            yield "PersistentVolumeClaim", namespace, name
    for claim in spec.get("resourceClaims") or ():
        if name := claim.get("resourceClaimName"):
            yield "ResourceClaim", namespace, name
