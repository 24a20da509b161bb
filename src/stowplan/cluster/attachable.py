"""Which volumes a pod needs attached to its node, as its CSI drivers count them.

NodeVolumeLimits asks for the pod it decides on, `cluster.attached_volumes` for those that stand on
nodes. A claim leads to its volume and so to a driver and the driver's handle; a claim that is not
bound yet to the driver that will provide it. An in-tree volume counts as its CSI driver's on nodes
that report drivers at all. The reader records the objects that it read, since the result is valid
until one of them changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from stowplan.api.objects import Pod, Volume
from stowplan.api.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Resource,
)
from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.csi_migration import (
    DRIVERS,
    SWITCHED_ON,
    CannotTranslateError,
    inline_handle,
    plugin_of,
    translate,
)
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.pod_volumes import class_of_claim, not_found, ownership_problem

#: Kind, namespace and name of something that was looked up, found or not.
Key: TypeAlias = tuple[str, str, str]
#: Driver by the volume's unique name, which is `driver/handle`.
Attachable: TypeAlias = dict[str, str]

#: Stands for the handle that an unbound claim will get; no driver's handle begins like this.
_UNBOUND = "\0unbound/"


class AttachError(Exception):
    """The volumes that a pod needs attached cannot be determined; the text says why."""

    def __init__(self, message: str, *, is_missing: bool = False) -> None:
        super().__init__(message)
        #: Something does not exist: the pod waits for it, nothing is broken.
        self.is_missing = is_missing


class _Attached(NamedTuple):
    driver: str
    handle: str


class AttachableReader:
    """Resolves volumes to CSI drivers and handles, and records the objects that it read."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.looked_at: set[Key] = set()

    def of_new(self, info: PodInfo, *, on_csi_node: bool) -> Attachable:
        """What a pod that is to be placed needs; raises AttachError."""
        return self._of_pod(info, on_csi_node=on_csi_node, is_new=True)

    def of_standing(self, info: PodInfo) -> Attachable:
        """What a pod holds on a node that reports drivers; raises AttachError."""
        return self._of_pod(info, on_csi_node=True, is_new=False)

    def attachment(self, attacher: str, volume_name: str | None) -> str | None:
        """The unique name of what a VolumeAttachment attaches; None if that does not count."""
        volume = self.volume(volume_name) if attacher and volume_name is not None else None
        if volume is None or volume.spec.csi is None:
            return None
        return f"{attacher}/{volume.spec.csi.volume_handle}"

    def volume(self, name: str) -> PersistentVolume | None:
        found: PersistentVolume | None = self._look_up(PERSISTENT_VOLUMES, name)
        return found

    def _look_up(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        self.looked_at.add((resource.plural, namespace, name))
        return self._catalog[resource].get(name, namespace)

    def _of_pod(self, info: PodInfo, *, on_csi_node: bool, is_new: bool) -> Attachable:
        pod = info.pod
        needed: Attachable = {}
        for volume in info.volumes:
            found: _Attached | None
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
                found = self._of_claim(pod, name, on_csi_node, is_new, is_ephemeral=False)
            elif volume.ephemeral is not None:
                name = f"{pod.metadata.name}-{volume.name}"
                found = self._of_claim(pod, name, on_csi_node, is_new, is_ephemeral=True)
            else:
                found = _inline(pod, volume) if on_csi_node else None
            if found is not None:
                needed[f"{found.driver}/{found.handle}"] = found.driver
        return needed

    def _of_claim(
        self, pod: Pod, name: str, on_csi_node: bool, is_new: bool, *, is_ephemeral: bool
    ) -> _Attached | None:
        if not name:
            raise AttachError("PersistentVolumeClaim had no name")
        namespace = pod.metadata.namespace
        claim = self._look_up(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        if claim is None:
            if is_new:
                why = not_found(PERSISTENT_VOLUME_CLAIMS, name)
                raise AttachError(f"looking up PVC {namespace}/{name}: {why}", is_missing=True)
            return None
        problem = ownership_problem(pod, claim) if is_ephemeral else None
        if problem is not None:
            raise AttachError(problem)
        volume = self.volume(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is None:
            return self._to_be_provided(claim, on_csi_node)
        found = _of_volume(volume, on_csi_node)
        return found if found is not None and found.driver and found.handle else None

    def _to_be_provided(self, claim: PersistentVolumeClaim, on_csi_node: bool) -> _Attached | None:
        """What a claim without a volume will need: something of its class's driver."""
        class_name = class_of_claim(claim)
        storage_class = self._look_up(STORAGE_CLASSES, class_name) if class_name else None
        if storage_class is None:
            return None
        provisioner = storage_class.provisioner
        driver = DRIVERS.get(provisioner)
        if driver is None:
            driver = provisioner
        elif provisioner not in SWITCHED_ON or not on_csi_node:
            return None
        handle = f"{_UNBOUND}{claim.metadata.namespace}/{claim.metadata.name}"
        return _Attached(driver, handle) if driver else None


def _of_volume(volume: PersistentVolume, on_csi_node: bool) -> _Attached | None:
    if volume.spec.csi is None:
        if not on_csi_node or plugin_of(volume.spec) not in SWITCHED_ON:
            return None
        try:
            volume = translate(volume)
        except CannotTranslateError:
            return None
    csi = volume.spec.csi
    assert csi is not None
    return _Attached(csi.driver, csi.volume_handle)


def _inline(pod: Pod, volume: Volume) -> _Attached | None:
    plugin = plugin_of(volume)
    if plugin is None or plugin not in SWITCHED_ON:
        return None
    try:
        return _Attached(DRIVERS[plugin], inline_handle(volume, pod.metadata.namespace))
    except CannotTranslateError as problem:
        raise AttachError(
            f"converting volume({volume.name}) from inline to csi: {problem}"
        ) from problem
