"""Which claims a pod uses, whose they are, and what is said of missing ones."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import ObjectMeta, OwnerReference
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from stowplan.api.storage_objects import PersistentVolumeClaim, PersistentVolumeClaimSpec
from stowplan.cluster.pod_volumes import (
    PodClaim,
    claim_names,
    claims_of,
    class_of_claim,
    named_claims,
    not_found,
    ownership_problem,
    placing_volumes,
)
from stowplan.testing import pod

VOLUMES: list[dict[str, Any]] = [
    {"name": "token", "projected": {"sources": []}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}},
    {"name": "scratch", "ephemeral": {}},
    {"name": "again", "persistentVolumeClaim": {"claimName": "mine", "readOnly": True}},
    {"name": "disk", "iscsi": {"iqn": "a"}},
]
USER = pod("web", volumes=VOLUMES, uid="uid-web")


def claim(name: str, namespace: str = "default", *owners: OwnerReference) -> PersistentVolumeClaim:
    meta = ObjectMeta(name=name, namespace=namespace, owner_references=owners or None)
    return PersistentVolumeClaim(metadata=meta)


def test_claims_volume_by_volume() -> None:
    assert claims_of(USER) == (
        PodClaim("mine", "data"),
        PodClaim("web-scratch", "scratch", is_ephemeral=True),
        PodClaim("mine", "again"),
    )
    assert named_claims(USER) == ("mine", "mine")
    assert claim_names(USER) == ["mine", "web-scratch", "mine"]
    assert not claims_of(pod())
    assert not named_claims(pod())


def test_volumes_that_matter() -> None:
    assert not placing_volumes(pod())
    assert [v.name for v in placing_volumes(USER)] == ["data", "scratch", "again", "disk"]
    sources = [
        *("awsElasticBlockStore", "azureDisk", "azureFile", "cinder", "ephemeral"),
        *("gcePersistentDisk", "iscsi", "persistentVolumeClaim", "portworxVolume", "rbd"),
        "vsphereVolume",
    ]
    for source in sources:
        assert placing_volumes(pod(volumes=[{"name": "v", source: {}}])), source
    for source in ("emptyDir", "configMap", "csi", "nfs", "image"):
        assert not placing_volumes(pod(volumes=[{"name": "v", source: {}}])), source


@pytest.mark.parametrize(
    ("owners", "is_own"),
    [
        ([], False),
        ([OwnerReference(uid="uid-web", controller=True)], True),
        ([OwnerReference(uid="uid-web")], False),
        ([OwnerReference(uid="x"), OwnerReference(uid="uid-web", controller=True)], True),
        ([OwnerReference(uid="uid-old", controller=True)], False),
    ],
)
def test_ownership(owners: list[OwnerReference], is_own: bool) -> None:
    problem = ownership_problem(USER, claim("web-scratch", "default", *owners))
    expected = "PVC default/web-scratch was not created for pod default/web (pod is not owner)"
    assert problem == (None if is_own else expected)


def test_a_claim_of_another_namespace_is_never_its_own() -> None:
    owner = OwnerReference(uid="uid-web", controller=True)
    assert ownership_problem(USER, claim("web-scratch", "other", owner)) is not None


@pytest.mark.parametrize(
    ("annotated", "spec", "expected"),
    [(None, None, ""), (None, "a", "a"), ("b", "a", "b"), ("", "a", "")],
)
def test_the_class_of_a_claim(annotated: str | None, spec: str | None, expected: str) -> None:
    key = "volume.beta.kubernetes.io/storage-class"
    annotations = {key: annotated} if annotated is not None else None
    made = PersistentVolumeClaim(
        metadata=ObjectMeta(annotations=annotations),
        spec=PersistentVolumeClaimSpec(storage_class_name=spec),
    )
    assert class_of_claim(made) == expected


def test_missing_objects_in_upstreams_words() -> None:
    assert not_found(PERSISTENT_VOLUME_CLAIMS, "x") == 'persistentvolumeclaim "x" not found'
    assert not_found(STORAGE_CLASSES, "x") == 'storageclass.storage.k8s.io "x" not found'
