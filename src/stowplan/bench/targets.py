"""The targets, as data (`targets.yaml`), and the sets of workloads that measure them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec


@dataclass(frozen=True)
class Entry:
    """A workload of a file, with how many of its pods."""

    file: str
    workload: str
    scale: float = 1.0


class _Named(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    workload: str
    scale: float = 1.0

    def entry(self) -> Entry:
        return Entry(self.file, self.workload, self.scale)


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """Workloads with the same targets."""

    title: str
    against_kube: float
    workloads: list[_Named]
    against_raw: float | None = None
    or_raw: bool = False
    cpu: float | None = None

    @property
    def entries(self) -> list[Entry]:
        return [each.entry() for each in self.workloads]


class DecisionTargets(msgspec.Struct, forbid_unknown_fields=True):
    one_shape: float
    all_distinct: float
    growth_by_pods: float


class Targets(msgspec.Struct, forbid_unknown_fields=True):
    rows: list[Row]
    memory: _Named
    first_bind: float
    decisions: DecisionTargets
    quick: list[_Named]


@cache
def targets() -> Targets:
    text = files("stowplan.bench").joinpath("targets.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=Targets)


def _sets() -> dict[str, tuple[Entry, ...]]:
    rows = tuple(entry for row in targets().rows for entry in row.entries)
    return {
        "headline": (*rows, targets().memory.entry()),
        "quick": tuple(each.entry() for each in targets().quick),
    }


SETS: Final = _sets()
