"""The little of kube-controller-manager's PersistentVolume controller that scheduling depends on.

One task watches claims, volumes and classes in the store and binds them to each other: the volume
that the scheduler or a user has promised to a claim, the one that a claim names, the smallest free
one that suits; and where there is none a pretend external provisioner makes one. Nothing here
talks HTTP, and nothing polls: a change triggers a look at every object that it may help.

Each look asks what is stored and brings it one step on, so it may come too late, twice or for
nothing. Claims that want the same are served in the order in which they came.

Not played: finalizers that protect claims and volumes in use (a deleted claim is gone at once),
events, scrubbing of volumes to be recycled (they stay Released), deleters (a released volume with
policy Delete is removed, whatever its source), expansion. Upstream calls a claim that was bound
elsewhere, and says so in its annotations, Lost unless the volume's claimRef has its UID; here the
name is enough, so that claims and volumes of another cluster can be put into this one.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.history import Change, Json, Record, Subscription
from stowplan.apiserver.kinds import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Kind,
)
from stowplan.apiserver.store import Store
from stowplan.apiserver.volume_matching import (
    BIND_COMPLETED,
    Key,
    VolumeIndex,
    annotated,
    annotations_of,
    class_of,
    has_class,
    have_same_mode,
    is_complete,
    is_delayed,
    is_promised_to,
    suits,
)
from stowplan.apiserver.volume_provisioning import (
    PROVISIONED_BY,
    SELECTED_NODE,
    Provisioner,
    reference_to,
)
from stowplan.logs import V2, get_logger, kv

log = get_logger(__name__)

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_KINDS = {kind.kind: kind for kind in (PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS)}


@dataclass(frozen=True, slots=True)
class VolumeControllerOptions:
    """Delays in seconds. With `enabled` off claims and volumes stay as they were written.

    `bind_delay_s` passes between a change and the reaction to it, `provision_delay_s` until a
    provisioned volume exists.
    """

    enabled: bool = True
    bind_delay_s: float = 0.0
    provision_delay_s: float = 0.5


class VolumeController:
    """Binds the claims of the cluster, and makes volumes for them, in one task."""

    def __init__(self, store: Store, deleter: Deleter, options: VolumeControllerOptions) -> None:
        self._store = store
        self._deleter = deleter
        self._options = options
        self._index = VolumeIndex()
        self._inbox: Subscription | None = None
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        #: What a look at is due, so that ten changes at a time are one look.
        self._to_look_at: set[tuple[Kind, Key]] = set()
        self._provisioner = Provisioner(store, options.provision_delay_s, self._later)

    @property
    def has_work(self) -> bool:
        """Whether something is due, now or later, or has changed without being looked at yet."""
        return bool(self._due) or (self._inbox is not None and self._inbox.has_news)

    async def run(self) -> None:
        """Until cancelled."""
        inbox = self._inbox = self._store.subscribe(
            STORAGE_CLASSES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS
        )
        try:
            for kind in (PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS):
                for record in self._store.records(kind):
                    self._see(Change("ADDED", record, None))
            while True:
                self._do_what_is_due()
                await inbox.wait(self._pause())
                for change in inbox.take():
                    self._see(change)
        except Exception:
            log.exception("The simulated volume controller failed: claims stay as they are")
            raise
        finally:
            inbox.close()
            self._forget()

    def _forget(self) -> None:
        """Reset, so that the next run starts from what is stored then."""
        self._inbox = None
        self._index = VolumeIndex()
        self._due.clear()
        self._to_look_at.clear()
        self._provisioner.forget()

    # When

    def _pause(self) -> float | None:
        if not self._due:
            return None
        return max(0.0, self._due[0][0] - self._store.clock.monotonic())

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        when = self._store.clock.monotonic() + delay_s
        heapq.heappush(self._due, (when, next(self._order), action))

    def _do_what_is_due(self) -> None:
        now = self._store.clock.monotonic()
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()

    def _see(self, change: Change) -> None:
        """The index follows at once; looks come when it is their time."""
        obj, key = change.record.object, change.record.key
        kind = _KINDS.get(obj["kind"])
        if kind is None:
            # A class may be what claims have waited for, and a default class for those of none.
            for claim in self._index.waiting(key[1]) + self._index.waiting(""):
                self._look_soon(PERSISTENT_VOLUME_CLAIMS, claim)
            return
        self._reindex(kind, key)
        if change.type != "DELETED":
            self._look_soon(kind, key)
        elif kind is PERSISTENT_VOLUMES:
            for claim in self._index.naming(key[1]):
                self._look_soon(PERSISTENT_VOLUME_CLAIMS, claim)
        if kind is PERSISTENT_VOLUME_CLAIMS:
            # Bound or gone, it sets free what else was promised to it.
            for name in self._index.promised(key):
                self._look_soon(PERSISTENT_VOLUMES, ("", name))

    def _reindex(self, kind: Kind, key: Key) -> None:
        record = self._store.get(kind, *key)
        obj = None if record is None else record.object
        if kind is PERSISTENT_VOLUMES:
            self._index.set_volume(key[1], obj)
        else:
            self._index.set_claim(key, obj)

    def _look_soon(self, kind: Kind, key: Key) -> None:
        if (kind, key) not in self._to_look_at:
            self._to_look_at.add((kind, key))
            self._later(self._options.bind_delay_s, lambda: self._look(kind, key))

    def _look(self, kind: Kind, key: Key) -> None:
        self._to_look_at.discard((kind, key))
        if kind is PERSISTENT_VOLUMES:
            self._look_at_volume(key[1])
        else:
            self._look_at_claim(key)

    # Volumes

    def _look_at_volume(self, name: str) -> None:
        volume = self._volume(name)
        if volume is None:
            return
        ref = volume.object["spec"].get("claimRef")
        if ref is None:
            self._set_volume_phase(volume, "Available")
            # Of volumes that come at the same time the best is to be taken, not the first.
            self._later(0.0, lambda: self._offer(name))
        elif not ref.get("uid"):
            self._set_volume_phase(volume, "Available")
            self._look_at_claim((ref.get("namespace", ""), ref["name"]))
        else:
            self._keep_promise(volume, ref)
        for key in self._index.naming(name):
            self._look_at_claim(key)

    def _offer(self, name: str) -> None:
        """Offer a free volume to the claims that wait for one like it."""
        volume = self._volume(name)
        if volume is None or is_delayed(self._class(volume.object)):
            return
        for key in self._index.wanting(volume.object):
            if not self._index.is_free(name):
                break
            self._look_at_claim(key)

    def _keep_promise(self, volume: Record, ref: Json) -> None:
        key = ref.get("namespace", ""), ref["name"]
        claim = self._claim(key)
        if claim is None or claim.object["metadata"]["uid"] != ref["uid"]:
            self._release(volume)
            return
        named = claim.object["spec"].get("volumeName", "")
        if not named:
            if have_same_mode(volume.object, claim.object):
                self._look_at_claim(key)
        elif named == volume.key[1]:
            self._set_volume_phase(volume, "Bound")
        elif _was_made(volume.object) and _policy(volume.object) == "Delete":
            self._release(volume)  # The claim has another one, and this was made for it alone.
        else:
            self._break_promise(volume)

    def _release(self, volume: Record) -> None:
        if volume.object["status"].get("phase") not in ("Released", "Failed"):
            volume = self._set_volume_phase(volume, "Released")
        is_leaving = "deletionTimestamp" in volume.object["metadata"]
        if _policy(volume.object) == "Delete" and not is_leaving:
            self._deleter.delete(PERSISTENT_VOLUMES, volume, {})
            self._reindex(PERSISTENT_VOLUMES, volume.key)

    def _break_promise(self, volume: Record) -> None:
        """A user's promise loses the UID and stays; one of a controller's was a mistake."""
        obj = volume.object
        spec = dict(obj["spec"])
        if BOUND_BY_CONTROLLER in annotations_of(obj):
            del spec["claimRef"]
            obj = annotated(obj, {BOUND_BY_CONTROLLER: None})
        else:
            spec["claimRef"] = {k: v for k, v in spec["claimRef"].items() if k != "uid"}
        volume = self._write(PERSISTENT_VOLUMES, volume, {**obj, "spec": spec})
        self._set_volume_phase(volume, "Available")

    def _set_volume_phase(self, volume: Record, phase: str) -> Record:
        obj = volume.object
        status = obj.get("status") or {}
        if status.get("phase") == phase:
            return volume
        return self._write(
            PERSISTENT_VOLUMES, volume, {**obj, "status": {**status, "phase": phase}}
        )

    # Claims

    def _look_at_claim(self, key: Key) -> None:
        claim = self._claim(key)
        if claim is None:
            return
        obj = claim.object
        named = obj["spec"].get("volumeName", "")
        if not named and not is_complete(obj):
            self._find_volume(claim)
            return
        volume = self._volume(named)
        if volume is not None and self._may_have(volume.object, obj):
            self._bind(volume, claim)
        else:
            self._set_claim_phase(claim, "Lost" if is_complete(obj) else "Pending", None)

    @staticmethod
    def _may_have(volume: Json, claim: Json) -> bool:
        """Whether a claim can have the volume that it names."""
        if "claimRef" in volume["spec"]:
            return is_promised_to(volume, claim)
        return is_complete(claim) or suits(volume, claim)

    def _find_volume(self, claim: Record) -> None:
        waits_for_pod = is_delayed(self._class(claim.object))
        name = self._index.best_match(claim.object, with_free=not waits_for_pod)
        if name is not None:
            volume = self._volume(name)
            assert volume is not None
            self._bind(volume, claim)
            return
        claim = self._set_claim_phase(claim, "Pending", None)
        default = None if has_class(claim.object) else self._default_class()
        if default is not None:
            spec = {**claim.object["spec"], "storageClassName": default}
            self._write(PERSISTENT_VOLUME_CLAIMS, claim, {**claim.object, "spec": spec})
        elif not waits_for_pod or SELECTED_NODE in annotations_of(claim.object):
            self._provisioner.begin(claim)

    def _bind(self, volume: Record, claim: Record) -> None:
        """Volume first, as upstream: a claim that is bound never has a volume that is not."""
        volume = self._promise(volume, claim.object)
        volume = self._set_volume_phase(volume, "Bound")
        obj, name = claim.object, volume.key[1]
        marks: dict[str, str | None] = {}
        if obj["spec"].get("volumeName") != name:
            obj = {**obj, "spec": {**obj["spec"], "volumeName": name}}
            marks[BOUND_BY_CONTROLLER] = "yes"
        if not is_complete(obj):
            marks[BIND_COMPLETED] = "yes"
            log.log(V2, "Bound claim", extra=kv(claim="/".join(claim.key), volume=name))
        claim = self._write(PERSISTENT_VOLUME_CLAIMS, claim, annotated(obj, marks))
        self._set_claim_phase(claim, "Bound", volume.object)

    def _promise(self, volume: Record, claim: Json) -> Record:
        obj = volume.object
        ref = obj["spec"].get("claimRef") or {}
        if not is_promised_to(obj, claim):
            obj = annotated(obj, {BOUND_BY_CONTROLLER: "yes"})
        if not ref.get("uid"):
            obj = {**obj, "spec": {**obj["spec"], "claimRef": reference_to(claim)}}
        return self._write(PERSISTENT_VOLUMES, volume, obj)

    def _set_claim_phase(self, claim: Record, phase: str, volume: Json | None) -> Record:
        obj = claim.object
        status = dict(obj.get("status") or {})
        if volume is None:
            for field in ("accessModes", "capacity", "currentVolumeAttributesClassName"):
                status.pop(field, None)
        else:
            spec = volume["spec"]
            status["accessModes"] = spec["accessModes"]
            if status.get("phase") != phase:
                status["capacity"] = spec["capacity"]
                if "volumeAttributesClassName" in spec:
                    attributes = spec["volumeAttributesClassName"]
                    status["currentVolumeAttributesClassName"] = attributes
        status["phase"] = phase
        return self._write(PERSISTENT_VOLUME_CLAIMS, claim, {**obj, "status": status})

    # The store

    def _volume(self, name: str) -> Record | None:
        return self._store.get(PERSISTENT_VOLUMES, "", name)

    def _claim(self, key: Key) -> Record | None:
        return self._store.get(PERSISTENT_VOLUME_CLAIMS, *key)

    def _class(self, obj: Json) -> Json | None:
        record = self._store.get(STORAGE_CLASSES, "", class_of(obj))
        return None if record is None else record.object

    def _default_class(self) -> str | None:
        """The newest of those that say so."""
        found = [
            record.object["metadata"]
            for record in self._store.records(STORAGE_CLASSES)
            if any(annotations_of(record.object).get(key) == "true" for key in _DEFAULT_CLASS)
        ]
        newest = max(found, key=lambda metadata: metadata["creationTimestamp"], default=None)
        return None if newest is None else str(newest["name"])

    def _write(self, kind: Kind, record: Record, obj: Json) -> Record:
        written = self._store.update(kind, obj, record)
        self._reindex(kind, written.key)
        return written


def _policy(volume: Json) -> str:
    return str(volume["spec"].get("persistentVolumeReclaimPolicy", "Retain"))


def _was_made(volume: Json) -> bool:
    return PROVISIONED_BY in annotations_of(volume)
