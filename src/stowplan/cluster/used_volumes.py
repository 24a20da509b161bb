"""Which claims and disks are in use on which rows, kept up to date as pods come and go.

`PodInfo` carries those of a pod's volumes that placing depends on, `NodeTable` announces them with
every pod that has any; the volume plugins ask. Other pods cost nothing here. What must stay true:
the counts equal a recount over `table.pods`, and every change of a row is marked in `journal`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from stowplan.api.objects import Volume
from stowplan.cluster.journal import Journal
from stowplan.cluster.pod_info import PodInfo

_K = TypeVar("_K", bound=Hashable)
_NOBODY: Mapping[str, PodInfo] = {}


class Disk(NamedTuple):
    """A disk that a pod names itself, and that pods on one node cannot always share."""

    #: What makes two disks the same one.
    identity: tuple[str, ...]
    read_only: bool


def disks_of(volumes: Iterable[Volume]) -> tuple[Disk, ...]:
    """The disks among a pod's volumes; an RBD image counts once for each of its monitors."""
    found: list[Disk] = []
    for volume in volumes:
        if volume.gce_persistent_disk is not None:
            gce = volume.gce_persistent_disk
            found.append(Disk(("gce", gce.pd_name), gce.read_only))
        if volume.aws_elastic_block_store is not None:
            # Pods cannot share an EBS volume, not even read only.
            found.append(Disk(("aws", volume.aws_elastic_block_store.volume_id), False))
        if volume.iscsi is not None:
            found.append(Disk(("iscsi", volume.iscsi.iqn), volume.iscsi.read_only))
        if volume.rbd is not None:
            rbd = volume.rbd
            found += (
                Disk(("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)
                for monitor in rbd.monitors or ()
            )
    return tuple(found)


def any_clash(wanted: Iterable[Disk], taken: Iterable[Disk]) -> bool:
    """Whether two pods on one node cannot have these disks: only readers share one."""
    others = set(taken)
    return any(
        Disk(identity, False) in others or (not read_only and Disk(identity, True) in others)
        for identity, read_only in wanted
    )


class UsedVolumes:
    """Claims by namespace and name, disks by identity, and the pods behind them, each by row."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], dict[int, int]] = {}
        self._writers: dict[tuple[str, ...], dict[int, int]] = {}
        self._readers: dict[tuple[str, ...], dict[int, int]] = {}
        self._pods: dict[int, dict[str, PodInfo]] = {}
        #: Rows on which such pods came or went.
        self.journal = Journal()

    def change(self, row: int, info: PodInfo, delta: int) -> None:
        """A pod that has such volumes came to a row (+1) or left it (-1)."""
        if delta > 0:
            self._pods.setdefault(row, {})[info.uid] = info
        else:
            del self._pods[row][info.uid]
            if not self._pods[row]:
                del self._pods[row]
        namespace = info.pod.metadata.namespace
        for volume in info.volumes:
            claim = volume.persistent_volume_claim
            if claim is not None:
                _count(self._claims, (namespace, claim.claim_name), row, delta)
        for disk in disks_of(info.volumes):
            users = self._readers if disk.read_only else self._writers
            _count(users, disk.identity, row, delta)
        self.journal.mark(row)

    def __len__(self) -> int:
        """How many claims and disks are in use anywhere."""
        return len(self._claims) + len({*self._writers, *self._readers})

    def pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """The pods with such volumes on a row, by UID. Read only."""
        return self._pods.get(row, _NOBODY)

    def rows_using(self, namespace: str, claim: str) -> Collection[int]:
        """The rows with pods whose volumes name a claim; ephemeral volumes name none."""
        return self._claims.get((namespace, claim), {}).keys()

    def rows_clashing(self, wanted: Iterable[Disk]) -> set[int]:
        """The rows where one of some disks cannot be had."""
        found: set[int] = set()
        for identity, read_only in set(wanted):
            found.update(self._writers.get(identity, ()))
            if not read_only:
                found.update(self._readers.get(identity, ()))
        return found


def _count(users: dict[_K, dict[int, int]], what: _K, row: int, delta: int) -> None:
    rows = users.setdefault(what, {})
    left = rows.get(row, 0) + delta
    if left:
        rows[row] = left
        return
    del rows[row]
    if not rows:
        del users[what]
