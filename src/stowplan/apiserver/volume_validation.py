"""Validation of a pod's volumes: a name, one source, and what a source cannot do without."""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.field_errors import (
    duplicate,
    label_name,
    name_causes,
    not_allowed,
    required,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.statuses import Cause
from stowplan.apiserver.storage_validation import claim_spec_causes, driver_name_causes

#: In the order in which upstream looks for them: the first is the one, the others are too many.
_SOURCES = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
#: Fields that must not be empty; upstream spells the first source differently in its messages.
_NEEDED = {
    "gcePersistentDisk": ("persistentDisk.pdName",),
    "awsElasticBlockStore": ("awsElasticBlockStore.volumeID",),
    "iscsi": ("iscsi.targetPortal", "iscsi.iqn"),
    "persistentVolumeClaim": ("persistentVolumeClaim.claimName",),
    "rbd": ("rbd.monitors", "rbd.image"),
    "cinder": ("cinder.volumeID",),
    "hostPath": ("hostPath.path",),
    "nfs": ("nfs.server", "nfs.path"),
}


def volumes_causes(volumes: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        at = f"{path}[{index}]"
        name = volume["name"]
        causes += _source(volume, at)
        if not name:
            causes.append(required(f"{at}.name"))
        else:
            problems = name_causes(f"{at}.name", name, label_name)
            causes += problems
            if not problems and name in seen:
                causes.append(duplicate(f"{at}.name", name))
        seen.add(name)
    return causes


def _source(volume: Json, at: str) -> list[Cause]:
    sources = [name for name in _SOURCES if name in volume]
    causes = [
        not_allowed(f"{at}.{name}", "may not specify more than 1 volume type")
        for name in sources[1:]
    ]
    for name in sources[:1]:
        source = volume[name]
        causes += [
            required(f"{at}.{field}")
            for field in _NEEDED.get(name, ())
            if not source.get(field.rpartition(".")[2])
        ]
        if name == "csi":
            causes += driver_name_causes(source.get("driver", ""), f"{at}.csi.driver")
        elif name == "ephemeral":
            causes += _ephemeral(source, f"{at}.ephemeral.volumeClaimTemplate")
    return causes


def _ephemeral(source: Json, at: str) -> list[Cause]:
    template = source.get("volumeClaimTemplate")
    if template is None:
        return [required(at)]
    return claim_spec_causes(template["spec"], f"{at}.spec")
