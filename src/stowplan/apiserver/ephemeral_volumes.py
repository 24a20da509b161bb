"""kube-controller-manager's ephemeral volume controller: it makes claims for pods.

One task watches pods and claims in the store. For each generic ephemeral volume of a pod it makes
the claim `<pod>-<volume>`, and makes it again if it is deleted. The claim goes when its pod is
gone: the garbage collector's part, so that it works without that, too. A claim of that name that
belongs to another owner stays as it is, and the pod waits.

Not played: events.
"""

from __future__ import annotations

from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.history import Change, Json, Subscription
from stowplan.apiserver.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from stowplan.apiserver.options import WriteOptions
from stowplan.apiserver.paths import ResourcePath
from stowplan.apiserver.pod_claims import owner_of
from stowplan.apiserver.store import Store
from stowplan.apiserver.writing import Writer
from stowplan.errors import ApiError
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

Key = tuple[str, str]


class EphemeralVolumes:
    """Makes and deletes the claims of pods in one task."""

    def __init__(self, store: Store, writer: Writer, deleter: Deleter) -> None:
        self._store = store
        self._writer = writer
        self._deleter = deleter
        self._inbox: Subscription | None = None
        #: Pods by the claims that they need, so that a claim's deletion finds them.
        self._users: dict[Key, set[Key]] = {}

    @property
    def has_work(self) -> bool:
        return self._inbox is not None and self._inbox.has_news

    async def run(self) -> None:
        """Until cancelled."""
        inbox = self._inbox = self._store.subscribe(
            PERSISTENT_VOLUME_CLAIMS, PODS, wants=_concerns_claims
        )
        try:
            for record in self._store.records(PODS):
                if ephemeral_claims(record.object):
                    self._see(Change("ADDED", record, None))
            await inbox.follow(self._look)
        except Exception:
            log.exception("The simulated ephemeral volume controller failed: its pods wait")
            raise
        finally:
            inbox.close()
            self._inbox = None
            self._users.clear()

    def _look(self) -> None:
        assert self._inbox is not None
        for change in self._inbox.take():
            self._see(change)

    def _see(self, change: Change) -> None:
        obj, key = change.record.object, change.record.key
        if obj["kind"] != PODS.kind:
            for pod in sorted(self._users.get(key, ())):
                self._make_claims(pod)
        elif change.type == "DELETED":
            self._pod_is_gone(key, obj)
        else:
            for name in ephemeral_claims(obj):
                self._users.setdefault((key[0], name), set()).add(key)
            self._make_claims(key)

    def _make_claims(self, key: Key) -> None:
        record = self._store.get(PODS, *key)
        if record is None or "deletionTimestamp" in record.object["metadata"]:
            return
        for name, template in ephemeral_claims(record.object).items():
            if self._store.get(PERSISTENT_VOLUME_CLAIMS, key[0], name) is not None:
                continue
            claim = {"metadata": _metadata(record.object, name, template), "spec": template["spec"]}
            target = ResourcePath(PERSISTENT_VOLUME_CLAIMS, key[0])
            try:
                self._writer.create(target, claim, WriteOptions())
            except ApiError as error:
                log.warning(
                    "No claim was made for the ephemeral volume",
                    extra=kv(pod="/".join(key), claim=name, err=error.message),
                )

    def _pod_is_gone(self, key: Key, pod: Json) -> None:
        current = self._store.get(PODS, *key)
        needed = {} if current is None else ephemeral_claims(current.object)
        for name in ephemeral_claims(pod):
            users = self._users.get((key[0], name), set())
            if name not in needed:
                users.discard(key)
                if not users:
                    self._users.pop((key[0], name), None)
            claim = self._store.get(PERSISTENT_VOLUME_CLAIMS, key[0], name)
            if claim is not None and owner_of(claim.object) == pod["metadata"]["uid"]:
                self._deleter.delete(PERSISTENT_VOLUME_CLAIMS, claim, {})


def ephemeral_claims(pod: Json) -> dict[str, Json]:
    """The templates of a pod's generic ephemeral volumes, by the names of their claims."""
    return {
        f"{pod['metadata']['name']}-{volume['name']}": volume["ephemeral"]["volumeClaimTemplate"]
        for volume in pod["spec"].get("volumes") or ()
        if "volumeClaimTemplate" in volume.get("ephemeral", ())
    }


def _concerns_claims(change: Change) -> bool:
    obj = change.record.object
    if obj["kind"] == PODS.kind:
        return bool(ephemeral_claims(obj))
    return change.type == "DELETED"


def _metadata(pod: Json, name: str, template: Json) -> Json:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    given = template.get("metadata") or {}
    copied = {field: given[field] for field in ("labels", "annotations") if field in given}
    return {"name": name, "ownerReferences": [owner], **copied}
