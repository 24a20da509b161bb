"""Deployments: one ReplicaSet per template, scaled so that pods move to the newest.

A ReplicaSet's name ends with a hash of its template. The hash is not kube-controller-manager's,
which depends on how Go prints its structs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import msgspec

from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from stowplan.apiserver.store import NAME_ALPHABET
from stowplan.apiserver.workload_controllers.deployment_status import deployment_status
from stowplan.apiserver.workload_controllers.objects import ClusterObjects, reference_to
from stowplan.apiserver.workload_controllers.pod_facts import is_finished
from stowplan.apiserver.workload_controllers.rollout import (
    Bounds,
    next_size_of_new,
    next_sizes_of_old,
    replicas_of,
)
from stowplan.loader.numbers import whole_number

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
_SIZES = ("deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas")
_NOT_COPIED = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", "deprecated.deployment.rollback.to"}
)


def template_hash(template: Json, collisions: int = 0) -> str:
    """A short text that differs between templates."""
    encoded = msgspec.json.encode(template, order="sorted") + (b"%d" % collisions) * (
        collisions > 0
    )
    digits = str(zlib.crc32(encoded))
    return "".join(NAME_ALPHABET[ord(digit) % len(NAME_ALPHABET)] for digit in digits)


class Deployments:
    """Reconciles one Deployment at a time."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects

    def reconcile(self, deployment: Record, again_in: Callable[[float], None]) -> None:
        """Take the next step of a rollout, if one is due, and report the status."""
        sets = self._objects.claimed(DEPLOYMENTS, deployment)
        sets.sort(key=lambda each: (_revision(each.object), each.key))
        new = next((each for each in sets if _has_template(each.object, deployment.object)), None)
        old = [each for each in sets if each is not new]
        if deployment.object["spec"].get("paused"):
            deployment, new, old = self._scale_while_paused(deployment, new, old)
        elif new is None and self._waits_for_old_pods(deployment.object, old):
            old = [self._scale(deployment.object, each, 0) for each in old]
        else:
            deployment, new, old = self._roll(deployment, new, old)
        status, wait_s = deployment_status(
            deployment.object, new, old, self._objects.now(), self._objects.time()
        )
        if wait_s is not None:
            again_in(wait_s)
        self._objects.set_status(DEPLOYMENTS, deployment, status)

    def _roll(
        self, deployment: Record, new: Record | None, old: list[Record]
    ) -> tuple[Record, Record, list[Record]]:
        bounds = Bounds.of(deployment.object)
        if deployment.object["spec"]["strategy"]["type"] == "Recreate":
            old = [self._scale(deployment.object, each, 0) for each in old]
            size = bounds.replicas
            if self._waits_for_old_pods(deployment.object, old):
                size = replicas_of(new) if new else 0
        else:
            total = sum(map(replicas_of, [*old, new] if new else old))
            size = next_size_of_new(bounds, replicas_of(new) if new else 0, total)
        deployment, new = self._newest(deployment, new, old, size)
        if deployment.object["spec"]["strategy"]["type"] != "Recreate":
            sizes = next_sizes_of_old(bounds, new, old)
            old = [
                self._scale(deployment.object, each, size)
                for each, size in zip(old, sizes, strict=True)
            ]
        if _is_complete(bounds, new, old):
            old = self._forget_oldest(deployment.object, old)
        return deployment, new, old

    def _newest(
        self, deployment: Record, new: Record | None, old: list[Record], size: int
    ) -> tuple[Record, Record]:
        """The ReplicaSet of today's template, created or scaled, with the highest revision."""
        revision = str(max((_revision(each.object) for each in old), default=0) + 1)
        if new is None:
            deployment, new = self._create(deployment, size, revision)
        else:
            if _revision(new.object) > int(revision):
                revision = str(_revision(new.object))
            new = self._scale(deployment.object, new, size)
            new = self._annotate(
                new, deployment.object, {REVISION: revision, **_history(new.object, revision)}
            )
        marks = {**(deployment.object["metadata"].get("annotations") or {}), REVISION: revision}
        if marks != deployment.object["metadata"].get("annotations"):
            # No new generation: kube-controller-manager writes it together with the status.
            deployment = self._objects.set_metadata(DEPLOYMENTS, deployment, annotations=marks)
        return deployment, new

    def _create(self, deployment: Record, size: int, revision: str) -> tuple[Record, Record]:
        obj = deployment.object
        template, metadata = obj["spec"]["template"], obj["metadata"]
        while True:
            hashed = template_hash(template, obj["status"].get("collisionCount", 0))
            name = f"{metadata['name']}-{hashed}"
            if self._objects.get(REPLICA_SETS, (metadata["namespace"], name)) is None:
                break
            status = {**obj["status"], "collisionCount": obj["status"].get("collisionCount", 0) + 1}
            deployment = self._objects.set_status(DEPLOYMENTS, deployment, status)
            obj = deployment.object
        labels = {**(template["metadata"].get("labels") or {}), HASH_LABEL: hashed}
        selector = obj["spec"]["selector"]
        matched = {**(selector.get("matchLabels") or {}), HASH_LABEL: hashed}
        made = self._objects.create(
            REPLICA_SETS,
            metadata["namespace"],
            {
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": {**_copied(obj), **_sizes(obj), REVISION: revision},
                    "ownerReferences": [reference_to(obj)],
                },
                "spec": {
                    "replicas": size,
                    "minReadySeconds": obj["spec"].get("minReadySeconds", 0),
                    "selector": {**selector, "matchLabels": matched},
                    "template": {
                        **template,
                        "metadata": {**template["metadata"], "labels": labels},
                    },
                },
            },
        )
        self._tell(obj, "up", name, 0, size)
        return deployment, made

    def _scale(self, deployment: Json, replica_set: Record, size: int) -> Record:
        before = replicas_of(replica_set)
        if size != before:
            self._tell(
                deployment, "up" if size > before else "down", replica_set.key[1], before, size
            )
            replica_set = self._objects.set_spec(REPLICA_SETS, replica_set, replicas=size)
        return self._annotate(replica_set, deployment, {}) if size else replica_set

    def _annotate(self, replica_set: Record, deployment: Json, marks: Json) -> Record:
        before = replica_set.object["metadata"].get("annotations") or {}
        copied = _copied(deployment) if marks else {}
        after = {**before, **copied, **_sizes(deployment), **marks}
        if after == before:
            return replica_set
        return self._objects.set_metadata(REPLICA_SETS, replica_set, annotations=after)

    def _tell(self, deployment: Json, way: str, name: str, before: int, after: int) -> None:
        message = f"Scaled {way} replica set {name} from {before} to {after}"
        self._objects.event(deployment, "Normal", "ScalingReplicaSet", message)

    def _waits_for_old_pods(self, deployment: Json, old: list[Record]) -> bool:
        """Recreate: no new pod before the last old one is gone."""
        if deployment["spec"]["strategy"]["type"] != "Recreate":
            return False
        return any(
            not is_finished(pod.object)
            for each in old
            for pod in self._objects.controlled(PODS, each.object)
        )

    def _scale_while_paused(
        self, deployment: Record, new: Record | None, old: list[Record]
    ) -> tuple[Record, Record | None, list[Record]]:
        """No rollout, but `replicas` still counts: the newest ReplicaSet with pods follows it."""
        active = [each for each in [*old, *([new] if new else [])] if replicas_of(each)]
        latest = active[-1] if active else new
        if latest is not None:
            others = sum(map(replicas_of, active)) - replicas_of(latest)
            size = max(0, deployment.object["spec"]["replicas"] - others)
            scaled = self._scale(deployment.object, latest, size)
            new = scaled if new is latest else new
            old = [scaled if each is latest else each for each in old]
        return deployment, new, old

    def _forget_oldest(self, deployment: Json, old: list[Record]) -> list[Record]:
        """Delete ReplicaSets beyond revisionHistoryLimit."""
        empty = [
            each
            for each in old
            if not replicas_of(each)
            and not each.object["status"]["replicas"]
            and "deletionTimestamp" not in each.object["metadata"]
        ]
        surplus = empty[: max(0, len(empty) - deployment["spec"]["revisionHistoryLimit"])]
        for each in surplus:
            self._objects.delete(REPLICA_SETS, each)
        return [each for each in old if each not in surplus]


def _is_complete(bounds: Bounds, new: Record, old: list[Record]) -> bool:
    status = new.object["status"]
    return status.get("availableReplicas", 0) == bounds.replicas and not any(map(replicas_of, old))


def _revision(replica_set: Json) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "0")
    return whole_number(text) or 0


def _history(replica_set: Json, revision: str) -> dict[str, str]:
    """The revisions that a ReplicaSet had before, if it gets another one."""
    marks = replica_set["metadata"].get("annotations") or {}
    before = marks.get(REVISION, "")
    if before in ("", revision):
        return {}
    history = [each for each in marks.get(REVISION_HISTORY, "").split(",") if each]
    return {REVISION_HISTORY: ",".join([*history, before])}


def _has_template(replica_set: Json, deployment: Json) -> bool:
    template = replica_set["spec"]["template"]
    labels = dict(template["metadata"].get("labels") or {})
    labels.pop(HASH_LABEL, None)
    wanted = deployment["spec"]["template"]
    return bool(
        template["spec"] == wanted["spec"]
        and labels == (wanted["metadata"].get("labels") or {})
        and template["metadata"].get("annotations") == wanted["metadata"].get("annotations")
    )


def _copied(deployment: Json) -> dict[str, str]:
    marks = deployment["metadata"].get("annotations") or {}
    return {k: v for k, v in marks.items() if k not in _NOT_COPIED and k != REVISION}


def _sizes(deployment: Json) -> dict[str, str]:
    bounds = Bounds.of(deployment)
    return dict(
        zip(_SIZES, (str(bounds.replicas), str(bounds.replicas + bounds.max_surge)), strict=True)
    )
