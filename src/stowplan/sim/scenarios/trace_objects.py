"""The objects of a trace on a scenario's cluster: created, or changed.

What must stay true: an object that the API server refuses is left out with a warning, if the trace
allows that, and a change that it refuses has no effect.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from stowplan.errors import AlreadyExists, ApiError, NotFound
from stowplan.logs import get_logger, kv
from stowplan.sim.scenarios.cluster import Cluster
from stowplan.sim.scenarios.timeline import SKIPPED_ROWS
from stowplan.sim.traces.model import Json
from stowplan.workloads.kinds import find_resource

log = get_logger(__name__)

#: Answers of the API server to an object that is not valid, that admission rejects, or that is
#: there already.
_REFUSALS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
#: Objects that may be there already, from another trace or the scenario itself.
_MAY_EXIST = ("Namespace", "PriorityClass", "StorageClass")


class TraceObjects:
    """Creates and changes objects."""

    def __init__(self, cluster: Cluster, *, skips_refused: bool) -> None:
        self._cluster = cluster
        self._skips_refused = skips_refused

    async def accepts(self, manifest: Json) -> bool:
        """Create the object; False if the API server refuses it, and the trace allows that."""
        try:
            await self.create(manifest)
        except ApiError as problem:
            self.leave_out(manifest, problem)
            return False
        return True

    def leave_out(self, manifest: Json, refusal: ApiError) -> None:
        """Warn that an object is left out; raise the error if the trace does not allow that."""
        if not self._skips_refused or refusal.status not in _REFUSALS:
            raise refusal
        self._cluster.recording.counts[SKIPPED_ROWS] += 1
        name = f"{manifest['kind']} {manifest['metadata']['name']}"
        self._cluster.warn(f"{name} is left out: {refusal}")

    async def create(self, manifest: Json) -> None:
        """Create the object; one of some kinds may exist."""
        if manifest["kind"] == "PersistentVolume":
            manifest = await self._linked(manifest)
        try:
            # Many may come at the same moment: what follows from that begins when all are there.
            await self._cluster.create(manifest, rests=False)
        except AlreadyExists:
            if manifest["kind"] not in _MAY_EXIST:
                raise

    async def revise(self, manifest: Json) -> None:
        """Update an object to its new manifest; the API server may refuse."""
        resource = find_resource(manifest["apiVersion"], manifest["kind"])
        assert resource is not None, "readers of traces leave out what is not known"
        name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")
        place = self._cluster.place(namespace) if resource.namespaced else ""
        replace = partial(self._cluster.client.replace, resource, name, namespace=place)
        try:
            there = await self._cluster.get(manifest["kind"], name, namespace=place)
            # No resourceVersion: overwrite concurrent changes.
            metadata = {**there["metadata"], **_own(manifest["metadata"])}
            del metadata["resourceVersion"]
            body = {**there, **manifest, "metadata": metadata}
            await replace(body)
            if "status" in manifest:
                await replace(body, subresource="status")
        except ApiError as problem:
            what = f"{manifest['kind']} {name}"
            log.info("Recorded change was refused", extra=kv(object=what, err=str(problem)))

    async def _linked(self, volume: Json) -> Json:
        """The volume with the UID that its claim has in this cluster."""
        claim = volume["spec"].get("claimRef")
        if not isinstance(claim, dict) or not claim.get("name") or claim.get("uid"):
            return volume
        try:
            found = await self._cluster.get(
                "PersistentVolumeClaim", claim["name"], namespace=claim.get("namespace", "")
            )
        except NotFound:
            return volume
        linked = {**claim, "uid": found["metadata"]["uid"]}
        return {**volume, "spec": {**volume["spec"], "claimRef": linked}}


def _own(metadata: Json) -> Json:
    return {key: metadata.get(key) for key in ("labels", "annotations")}
