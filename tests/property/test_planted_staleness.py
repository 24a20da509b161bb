"""A planted stale cache is always found by the self-check.

Each test takes one invalidation away and plays a seeded history: some decision must differ from the
same decision on a rebuilt cluster. Without a planted defect none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, TypeAlias

import pytest

from stowplan.clock import VirtualClock
from stowplan.cluster import compiled
from stowplan.cluster.affinity_terms import AffinityTermIndex
from stowplan.cluster.attached_volumes import AttachedVolumes
from stowplan.cluster.catalog import Shelf
from stowplan.cluster.derived import DerivedRows
from stowplan.cluster.domains import DomainCounts
from stowplan.cluster.images import ImageIndex
from stowplan.cluster.journal import Journal
from stowplan.cluster.label_columns import LabelColumns
from stowplan.cluster.pod_classes import PodClasses
from stowplan.cluster.ports import UsedPorts
from stowplan.cluster.resource_columns import ResourceColumns
from stowplan.cluster.row_counts import RowCounts
from stowplan.cluster.table import NodeTable
from stowplan.cluster.used_volumes import UsedVolumes
from stowplan.config.defaults import default_config
from stowplan.framework.columns import Column
from stowplan.framework.diagnosis import Settled
from stowplan.framework.shapes import FeasibleRows, Shapes
from stowplan.plugins.registry import in_tree_registry
from stowplan.plugins.volume_binding.volume_index import VolumeIndex
from stowplan.queue.nominator import Nominator
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure
from stowplan.testing import node, pod
from tests.property.eventful_cluster import EventfulCluster, WrongDecision
from tests.unit.scheduler.engine_bench import changed

Patch: TypeAlias = pytest.MonkeyPatch
Plant: TypeAlias = Callable[[Patch], None]

SEEDS = range(6)
TURNS = 150


@pytest.fixture(autouse=True)
def _every_decision(monkeypatch: Patch) -> Iterator[None]:
    """However large the cluster is."""
    monkeypatch.setattr("stowplan.scheduler.self_check._OBJECTS_PER_DECISION", 1 << 40)
    yield
    compiled.clear()


def _skip(owner: type, method: str, when: Callable[..., bool] = lambda *_: True) -> Plant:
    """A call that does nothing when its arguments are such."""

    def plant(patch: Patch) -> None:
        whole: Callable[..., Any] = getattr(owner, method)

        def planted(self: Any, *arguments: Any) -> Any:
            return None if when(self, *arguments) else whole(self, *arguments)

        patch.setattr(owner, method, planted)

    return plant


def _keep(owner: type, method: str, *attributes: str) -> Plant:
    """A call that leaves these attributes as they were."""

    def plant(patch: Patch) -> None:
        whole: Callable[..., Any] = getattr(owner, method)

        def planted(self: Any, *arguments: Any) -> Any:
            before = {name: getattr(self, name) for name in attributes}
            result = whole(self, *arguments)
            for name, value in before.items():
                setattr(self, name, value)
            return result

        patch.setattr(owner, method, planted)

    return plant


class DeafJournal(Journal):
    """Marks nothing."""

    __slots__ = ()

    def mark(self, row: int) -> None:
        pass


def _deaf(journal: str) -> Plant:
    """A journal of the table that marks nothing."""

    def plant(patch: Patch) -> None:
        whole: Callable[..., None] = NodeTable.__init__

        def planted(self: NodeTable, *arguments: Any) -> None:
            whole(self, *arguments)
            getattr(self, journal).__class__ = DeafJournal

        patch.setattr(NodeTable, "__init__", planted)

    return plant


def _answers(owner: type, method: str, value: object) -> Plant:
    return lambda patch: patch.setattr(owner, method, lambda *_: value)


def _blind_to_init_containers(patch: Patch) -> None:
    """Specs that differ only in their init containers are spelled the same."""
    whole: Callable[[Any], bytes] = compiled._encode

    def planted(parts: Any) -> bytes:
        return whole((*parts[:1], *parts[2:]) if isinstance(parts, tuple) else parts)

    patch.setattr(compiled, "_encode", planted)


def _lasting_failures(patch: Patch) -> None:
    """A shape that has failed fails for the same reasons, whatever has changed on its nodes."""

    def planted(self: Shapes, feasible: FeasibleRows, _table: NodeTable) -> Settled | None:
        kept = self._lru.get(("failure", feasible.number))
        return None if kept is None else kept[1]

    patch.setattr(Shapes, "known_failure", planted)


def _falls(*arguments: Any) -> bool:
    return bool(arguments[-1] == -1)


PLANTED: dict[str, Plant] = {
    "journal of pods": _deaf("pod_journal"),
    "journal of nodes": _deaf("node_journal"),
    "journal of pods' details": _deaf("detail_journal"),
    "journal of the layout": _deaf("layout_journal"),
    "order of nodes": _keep(NodeTable, "_nodeset_changed", "_order"),
    "rows that hold a node": _keep(NodeTable, "_nodeset_changed", "_live"),
    "label columns": _skip(LabelColumns, "write"),
    "what nodes offer": _skip(
        ResourceColumns, "set_offers", lambda self, row, _: self.offers_of(row)
    ),
    "what pods hold": _skip(ResourceColumns, "hold", _falls),
    "used ports": _skip(UsedPorts, "change", _falls),
    "used volumes": _skip(UsedVolumes, "change", _falls),
    "affinity terms": _skip(AffinityTermIndex, "change", _falls),
    "classes of pods": _skip(PodClasses, "remove"),
    "labels of standing pods": _skip(PodClasses, "replace"),
    "counters by row": _skip(RowCounts, "change", _falls),
    "images": _skip(ImageIndex, "set", lambda self, row, images: not images),
    "versions of cataloged objects": _keep(Shelf, "_changed", "version"),
    "free volumes": _skip(VolumeIndex, "change", lambda self, old, new: old is not None),
    "limits of attached volumes": _skip(AttachedVolumes, "_csi_node_changed"),
    "nominated pods": _answers(Nominator, "generation", 1),
    "rows of columns": _answers(Column, "changed_rows", []),
    "rows of shapes": _answers(DerivedRows, "changed_rows", []),
    "why no row is feasible": _lasting_failures,
    "sums by domain": _skip(DomainCounts, "refresh"),
    "compiled specs": _blind_to_init_containers,
}


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_nothing_is_stale_without_a_planted_defect(seed: int) -> None:
    cluster = EventfulCluster(seed)
    cluster.play(TURNS)
    assert cluster.engine.metrics.decision_checks.at("default-scheduler").value > TURNS


@pytest.mark.parametrize("place", PLANTED)
def test_a_stale_cache_is_found(place: str, monkeypatch: Patch) -> None:
    PLANTED[place](monkeypatch)
    # Some defects break the cache itself before a decision is wrong.
    with pytest.raises((WrongDecision, KeyError)):
        _play_all()


def _victims_before_and_after_a_restart() -> list[str]:
    """Whom the same pod would evict, asked several times; then the older of two pods restarts."""
    engine = build_engine(
        default_config(), registry=in_tree_registry(), clock=VirtualClock(), rng=Random(1)
    )
    engine.verify_decisions(1)
    handlers = EventHandlers(engine)
    handlers.add_node(node("n", cpu=4))
    for name, minute in (("older", 1), ("younger", 2)):
        handlers.add_pod(changed(pod(name, cpu=2, node="n"), start_time=_at(minute)))
    older = next(each for each, _, _ in engine.cache.placed() if each.metadata.name == "older")
    victims = []
    for number in range(6):
        if number == 4:
            handlers.update_pod(older, changed(older, start_time=_at(3), resource_version="2"))
        wanted = pod(f"p{number}", cpu=2, priority=5)
        handlers.add_pod(wanted)
        outcome = engine.attempt()
        assert isinstance(outcome, Failure)
        if engine.mismatches():
            raise WrongDecision
        assert outcome.eviction is not None
        victims += [each.metadata.name for each in outcome.eviction.victims]
        engine.handles["default-scheduler"].preempting.end(wanted)
        handlers.delete_pod(wanted)
    return victims


def _at(minute: int) -> str:
    return f"2023-01-01T00:{minute:02}:00Z"


def test_a_start_that_no_journal_tells_is_found(monkeypatch: Patch) -> None:
    victims = _victims_before_and_after_a_restart()
    assert victims == [*4 * ["younger"], "older", "older"]
    _deaf("start_journal")(monkeypatch)
    with pytest.raises(WrongDecision):
        _victims_before_and_after_a_restart()


def _play_all() -> None:
    for seed in SEEDS:
        EventfulCluster(seed).play(TURNS)
