"""The part of kube-controller-manager's resource claim controller that scheduling depends on.

One task watches pods, claims and templates in the store. It makes claims from templates for pods,
reserves an allocated claim for a pod that was bound without a scheduler, takes pods that ended or
are gone off `reservedFor`, and frees the devices of a claim that no pod uses. A claim that was made
for a pod goes with it: the garbage collector's part, so that it works without that, too.

Each look asks what is stored and brings it one step on, so it may come too late, twice or for
nothing. Not played: events, the admin access of templates, pod groups.

DIVERGES: a claim from a template that is deleted under its pod is made again at once. In its first
minute upstream takes the deleted one for still there, from a cache of its own writes.
"""

from __future__ import annotations

from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.history import Change, Json, Record, Subscription
from stowplan.apiserver.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from stowplan.apiserver.options import WriteOptions
from stowplan.apiserver.paths import ResourcePath
from stowplan.apiserver.pod_claims import claim_names, consumer_of, has_claims, is_done, owner_of
from stowplan.apiserver.store import Store
from stowplan.apiserver.writing import Writer
from stowplan.errors import ApiError
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

Key = tuple[str, str]

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
_MOST_CONSUMERS = 256
_LONGEST_PREFIX = 57  # leaves space for a hyphen and five random characters


class ClaimController:
    """Makes and frees the claims of pods in one task."""

    def __init__(self, store: Store, writer: Writer, deleter: Deleter) -> None:
        self._store = store
        self._writer = writer
        self._deleter = deleter
        self._inbox: Subscription | None = None
        #: Claims made from templates, by the UID of the pod and what the pod calls them.
        self._made: dict[tuple[str, str], str] = {}
        #: Pods that wait for a template, by its key.
        self._waiting: dict[Key, set[Key]] = {}
        #: Pods by the claims that they name, so that a claim's change finds them.
        self._users: dict[Key, set[Key]] = {}

    @property
    def has_work(self) -> bool:
        return self._inbox is not None and self._inbox.has_news

    async def run(self) -> None:
        """Until cancelled."""
        kinds = (RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, PODS)
        inbox = self._inbox = self._store.subscribe(*kinds, wants=_concerns_claims)
        try:
            for kind in kinds:
                for record in self._store.records(kind):
                    change = Change("ADDED", record, None)
                    if _concerns_claims(change):
                        self._see(change)
            while True:
                await inbox.wait(None)
                for change in inbox.take():
                    self._see(change)
        except Exception:
            log.exception("The simulated claim controller failed: claims stay as they are")
            raise
        finally:
            inbox.close()
            self._inbox = None
            self._made.clear()
            self._waiting.clear()
            self._users.clear()

    def _see(self, change: Change) -> None:
        key, obj = change.record.key, change.record.object
        match obj["kind"]:
            case "ResourceClaimTemplate":
                for pod in sorted(self._waiting.pop(key, ())):
                    self._look_at_pod(pod)
            case "ResourceClaim":
                self._index(change)
                self._look_at_claim(key)
                for pod in sorted(self._users.get(key, ())):
                    self._look_at_pod(pod)
            case "Pod":
                self._see_pod(change)

    def _index(self, change: Change) -> None:
        metadata = change.record.object["metadata"]
        name = (metadata.get("annotations") or {}).get(POD_CLAIM_NAME)
        uid = owner_of(change.record.object)
        if name and uid:
            if change.type != "DELETED":
                self._made.setdefault((uid, name), metadata["name"])
            elif self._made.get((uid, name)) == metadata["name"]:
                del self._made[uid, name]

    def _see_pod(self, change: Change) -> None:
        pod, key = change.record.object, change.record.key
        is_gone = change.type == "DELETED"
        if not is_gone:
            self._look_at_pod(key)
        current = self._store.get(PODS, *key)
        names = set(claim_names(current.object if current is not None else pod).values())
        for name in sorted(names):
            users = self._users.setdefault((key[0], name), set())
            if current is None:
                users.discard(key)
                if not users:
                    del self._users[key[0], name]
            else:
                users.add(key)
            if is_gone or is_done(pod):
                self._look_at_claim((key[0], name))
        if is_gone:
            for waiting in self._waiting.values():
                waiting.discard(key)

    # Pods

    def _look_at_pod(self, key: Key) -> None:
        record = self._store.get(PODS, *key)
        if record is None or "deletionTimestamp" in record.object["metadata"]:
            return
        if is_done(record.object):
            return  # a claim that was deleted because the pod ended is not made again
        made: dict[str, str] = {}
        for claim in record.object["spec"].get("resourceClaims") or ():
            template = claim.get("resourceClaimTemplateName")
            if template is not None and not self._has_claim(record.object, claim["name"]):
                name = self._make(record.object, claim["name"], template)
                if name is not None:
                    made[claim["name"]] = name
        if made:
            record = self._write_names(record, made)
        if record.object["spec"].get("nodeName"):
            for name in claim_names(record.object).values():
                self._reserve((key[0], name), record.object)

    def _has_claim(self, pod: Json, name: str) -> bool:
        names = claim_names(pod)
        record = self._claim((pod["metadata"]["namespace"], names.get(name, "")))
        return record is not None and owner_of(record.object) == pod["metadata"]["uid"]

    def _make(self, pod: Json, name: str, template: str) -> str | None:
        """The name of the claim; None if it could not be made."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        made = self._made.get((uid, name))
        if made is not None and self._claim((namespace, made)) is not None:
            return made
        source = self._store.get(RESOURCE_CLAIM_TEMPLATES, namespace, template)
        if source is None:
            self._waiting.setdefault((namespace, template), set()).add(
                (namespace, pod["metadata"]["name"])
            )
            return None
        spec = source.object["spec"]
        claim = {
            "metadata": _metadata(pod, name, spec.get("metadata") or {}),
            "spec": spec["spec"],
        }
        try:
            target = ResourcePath(RESOURCE_CLAIMS, namespace)
            made = self._writer.create(target, claim, WriteOptions()).key[1]
        except ApiError as error:
            log.warning(
                "No claim was made from the template",
                extra=kv(pod=f"{namespace}/{pod['metadata']['name']}", err=error.message),
            )
            return None
        self._made[uid, name] = made
        return made

    def _write_names(self, record: Record, made: dict[str, str]) -> Record:
        status = record.object["status"]
        statuses = {each["name"]: each for each in status.get("resourceClaimStatuses") or ()}
        for name, claim in made.items():
            statuses[name] = {"name": name, "resourceClaimName": claim}
        listed = {"resourceClaimStatuses": list(statuses.values())}
        return self._store.update(PODS, {**record.object, "status": {**status, **listed}}, record)

    def _reserve(self, key: Key, pod: Json) -> None:
        record = self._claim(key)
        if record is None:
            return
        status = record.object["status"]
        consumers = status.get("reservedFor") or []
        consumer = consumer_of(pod)
        if "allocation" not in status or consumer in consumers:
            return
        if (
            len(consumers) < _MOST_CONSUMERS
            and "deletionTimestamp" not in record.object["metadata"]
        ):
            self._write_status(record, {**status, "reservedFor": [*consumers, consumer]})

    # Claims

    def _look_at_claim(self, key: Key) -> None:
        record = self._claim(key)
        if record is None:
            return
        status = record.object["status"]
        consumers = status.get("reservedFor") or []
        left = [each for each in consumers if self._is_used_by(key[0], each)]
        is_protected = FINALIZER in (record.object["metadata"].get("finalizers") or ())
        is_leaving = "deletionTimestamp" in record.object["metadata"]
        if len(left) < len(consumers) or (is_leaving and is_protected and not left):
            status = {name: value for name, value in status.items() if name != "reservedFor"}
            if left:
                status["reservedFor"] = left
            elif is_protected:
                status.pop("allocation", None)
                status.pop("devices", None)
            record = self._write_status(record, status)
            if is_protected and "allocation" not in status:
                record = self._without_finalizer(record)
        if not left and self._store.get(RESOURCE_CLAIMS, *key) is record:
            self._delete_if_unused(record)

    def _is_used_by(self, namespace: str, consumer: Json) -> bool:
        """True also for consumers that are not pods: others take care of those."""
        if consumer.get("apiGroup") or consumer["resource"] != "pods":
            return True
        pod = self._store.get(PODS, namespace, consumer["name"])
        if pod is None or pod.object["metadata"]["uid"] != consumer["uid"]:
            return False
        return not is_done(pod.object)

    def _delete_if_unused(self, record: Record) -> None:
        """A claim that was made for a pod goes when the pod has ended or is gone."""
        uid = owner_of(record.object)
        if not uid or "deletionTimestamp" in record.object["metadata"]:
            return
        owner = record.object["metadata"]["ownerReferences"][0]["name"]
        pod = self._store.get(PODS, record.key[0], owner)
        if pod is None or pod.object["metadata"]["uid"] != uid or is_done(pod.object):
            self._deleter.delete(RESOURCE_CLAIMS, record, {})

    def _without_finalizer(self, record: Record) -> Record:
        metadata = dict(record.object["metadata"])
        left = [each for each in metadata.pop("finalizers") if each != FINALIZER]
        if left:
            metadata["finalizers"] = left
        obj = {**record.object, "metadata": metadata}
        if self._deleter.is_done(RESOURCE_CLAIMS, obj):
            return self._deleter.finish(RESOURCE_CLAIMS, obj, record)
        return self._store.update(RESOURCE_CLAIMS, obj, record)

    def _write_status(self, record: Record, status: Json) -> Record:
        return self._store.update(RESOURCE_CLAIMS, {**record.object, "status": status}, record)

    def _claim(self, key: Key) -> Record | None:
        return self._store.get(RESOURCE_CLAIMS, *key) if key[1] else None


def _concerns_claims(change: Change) -> bool:
    obj = change.record.object
    return obj["kind"] != PODS.kind or has_claims(obj)


def _metadata(pod: Json, name: str, template: Json) -> Json:
    """Of a claim made from a template."""
    owner = pod["metadata"]["name"]
    prefix = f"{owner}-{name}-"
    if len(prefix) > _LONGEST_PREFIX:
        longest, whole = _LONGEST_PREFIX, len(prefix)
        prefix = owner[: len(owner) * longest // whole] + "-" + name[: len(name) * longest // whole]
    metadata: Json = {
        "generateName": prefix,
        "annotations": {**(template.get("annotations") or {}), POD_CLAIM_NAME: name},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": owner,
                "uid": pod["metadata"]["uid"],
                "controller": True,
            }
        ],
    }
    if template.get("labels"):
        metadata["labels"] = template["labels"]
    return metadata
