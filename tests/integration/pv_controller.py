"""Whoever binds claims to volumes and makes new ones, besides the scheduler.

On a real control plane kube-controller-manager's own controller binds; for the embedded server
`PlayedController` does the little of it that these tests need. Nothing is bound before `start`.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiAccess, ApiError

Json = dict[str, Any]

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class Controller(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


class RealController:
    """kube-controller-manager with nothing but its volume binder."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._stop: Any = None

    def start(self) -> None:
        process = self._plane.start_controller_manager(
            controllers="persistentvolume-binder-controller"
        )
        self._stop = process.stop

    def stop(self) -> None:
        if self._stop is not None:
            self._stop()


class PlayedController:
    """Binds every claim that a volume is promised to, and claims of mode Immediate to the first
    volume of their class."""

    def __init__(self, api: ApiAccess) -> None:
        self._api = api
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(0.05):
            claims = {c["metadata"]["name"]: c for c in self._api.get(CLAIMS)["items"]}
            for volume in self._api.get(VOLUMES)["items"]:
                try:
                    self._look_at(volume, claims)
                except ApiError as problem:
                    if problem.status not in (404, 409):
                        raise

    def _look_at(self, volume: Json, claims: dict[str, Json]) -> None:
        spec, path = volume["spec"], f"{VOLUMES}/{volume['metadata']['name']}"
        for claim in claims.values():
            is_early = claim["spec"].get("storageClassName") == "early" == spec["storageClassName"]
            if is_early and "claimRef" not in spec and not claim["spec"].get("volumeName"):
                spec["claimRef"] = {
                    "namespace": "default",
                    "name": claim["metadata"]["name"],
                    "uid": claim["metadata"]["uid"],
                }
                self._api.patch(path, {"spec": {"claimRef": spec["claimRef"]}})
        wanted = claims.get(spec.get("claimRef", {}).get("name", ""))
        if wanted is None or wanted["spec"].get("volumeName"):
            return
        self._api.patch(f"{path}/status", {"status": {"phase": "Bound"}})
        self._api.patch(
            f"{CLAIMS}/{wanted['metadata']['name']}",
            {
                "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
                "spec": {"volumeName": volume["metadata"]["name"]},
            },
        )
