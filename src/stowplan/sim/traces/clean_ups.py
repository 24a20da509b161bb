"""Pods that were cleaned up in a recording, and have not finished here.

They go when they have finished, or when another pod of their name arrives. In the recorded cluster,
a claim can be deleted with its pod; a pod that still waits then would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.sim.traces.model import Json, Removal

#: Kind, namespace and name of a claim, as the trace has them.
_Claim = tuple[str, str, str]


class CleanUps:
    """Pods are known by their keys in the trace, also after they have come again."""

    def __init__(self) -> None:
        #: The claims that each pod names, and the pods that name each claim.
        self._claims: dict[str, tuple[_Claim, ...]] = {}
        self._users: dict[_Claim, dict[str, None]] = {}

    def __contains__(self, pod: str) -> bool:
        return pod in self._claims

    def add(self, pod: str, manifest: Json) -> None:
        self.discard(pod)
        self._claims[pod] = claims = tuple(dict.fromkeys(_claims_of(manifest)))
        for claim in claims:
            self._users.setdefault(claim, {})[pod] = None

    def discard(self, pod: str) -> bool:
        """Forget a pod that has finished, or is gone; False if it was not cleaned up."""
        claims = self._claims.pop(pod, None)
        for claim in claims or ():
            del self._users[claim][pod]
            if not self._users[claim]:
                del self._users[claim]
        return claims is not None

    def users_of(self, claim: Removal) -> list[str]:
        """The pods that name a claim that is removed."""
        return list(self._users.get((claim.kind, claim.namespace, claim.name), ()))


def _claims_of(manifest: Json) -> Iterator[_Claim]:
    namespace, spec = manifest["metadata"].get("namespace", ""), manifest["spec"]
    for volume in spec.get("volumes") or ():
        if name := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            yield "PersistentVolumeClaim", namespace, name
    for claim in spec.get("resourceClaims") or ():
        if name := claim.get("resourceClaimName"):
            yield "ResourceClaim", namespace, name
