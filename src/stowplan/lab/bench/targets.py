"""The targets, as data (`targets.yaml`), and the sets of workloads that measure them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal

import msgspec

from stowplan.loader.yaml_text import load_yaml

STREAM: Final = "stream"
BACKLOG: Final = "backlog"


@dataclass(frozen=True)
class WorkloadEntry:
    """A workload of a file, with how many of its pods, and whether they come or are there."""

    file: str
    workload: str
    scale: float = 1.0
    mode: str = STREAM


class _Named(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    workload: str
    scale: float = 1.0

    def entry(self, mode: str = STREAM) -> WorkloadEntry:
        return WorkloadEntry(self.file, self.workload, self.scale, mode)


class TargetRow(msgspec.Struct, forbid_unknown_fields=True):
    """Workloads with the same targets."""

    title: str
    against_kube: float
    workloads: list[_Named]
    against_raw: float | None = None
    or_raw: bool = False
    cpu: float | None = None
    mode: Literal["stream", "backlog"] = STREAM

    @property
    def entries(self) -> list[WorkloadEntry]:
        return [each.entry(self.mode) for each in self.workloads]


class DecisionTargets(msgspec.Struct, forbid_unknown_fields=True):
    one_shape: float
    all_distinct: float
    growth_by_pods: float


class Targets(msgspec.Struct, forbid_unknown_fields=True):
    rows: list[TargetRow]
    as_they_come: list[_Named]
    memory: _Named
    first_bind: float
    decisions: DecisionTargets
    quick: list[_Named]


@cache
def targets() -> Targets:
    text = files("stowplan.lab.bench").joinpath("targets.yaml").read_bytes()
    return msgspec.convert(load_yaml(text), Targets)


def _sets() -> dict[str, tuple[WorkloadEntry, ...]]:
    by_title = {row.title: row.entries for row in targets().rows}
    rows = tuple(entry for entries in by_title.values() for entry in entries)
    devices = (entry for title in by_title if "Devices" in title for entry in by_title[title])
    return {
        "headline": (
            *rows,
            *(each.entry() for each in targets().as_they_come),
            targets().memory.entry(),
        ),
        "devices": tuple(devices),
        "quick": tuple(each.entry() for each in targets().quick),
    }


SETS: Final = _sets()
