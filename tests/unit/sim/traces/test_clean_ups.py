"""Pods that are to be deleted when they have finished, found by name and by claim."""

from __future__ import annotations

from typing import Any

from stowplan.sim.traces.clean_ups import CleanUps
from stowplan.sim.traces.model import Removal

DATA = Removal(9.0, "v1", "PersistentVolumeClaim", "shop", "data")
GPU = Removal(9.0, "resource.k8s.io/v1", "ResourceClaim", "shop", "gpu")


def manifest(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "job", "namespace": "shop"}, "spec": spec}


def test_pods_are_found_by_their_claims_until_they_are_gone() -> None:
    data = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp"}]
    pods = CleanUps()
    pods.add("shop/a", manifest(volumes=data * 2, resourceClaims=[{"resourceClaimName": "gpu"}]))
    pods.add("shop/b", manifest(volumes=data))
    pods.add("shop/a", manifest(volumes=data))  # another life
    assert pods.users_of(DATA) == ["shop/b", "shop/a"]
    assert pods.users_of(GPU) == []
    assert "shop/a" in pods
    assert [pods.discard("shop/a") for _ in range(2)] == [True, False]
    assert "shop/a" not in pods
    assert pods.users_of(DATA) == ["shop/b"]
