"""Whatever is written in whatever order: histories, versions and snapshots agree with a log."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.history import Change
from stowplan.apiserver.kinds import KINDS, PODS
from stowplan.apiserver.statuses import Failure
from stowplan.apiserver.store import Store

CONFIG_MAPS = next(kind for kind in KINDS if kind.plural == "configmaps")
Key = tuple[str, str]
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["create", "update", "delete"]),
        st.sampled_from(["a", "b", "ab"]),
        st.sampled_from(["x", "y", "z"]),
        st.integers(0, 2),
    ),
    max_size=40,
)


def play(store: Store, operations: list[tuple[str, str, str, int]]) -> list[dict[Key, Any]]:
    """Does what can be done; the state after each version, beginning with the first."""
    states: list[dict[Key, Any]] = [{}]
    for verb, namespace, name, value in operations:
        before = store.version
        current = store.get(CONFIG_MAPS, namespace, name)
        body = {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"namespace": namespace, "name": name},
            "data": {"v": str(value)},
        }
        if verb == "create" and current is None:
            store.create(CONFIG_MAPS, body)
        elif verb == "update" and current is not None:
            store.update(CONFIG_MAPS, {**current.object, "data": body["data"]}, current)
        elif verb == "delete" and current is not None:
            store.delete(CONFIG_MAPS, current)
        if store.version != before:
            assert store.version == before + 1
            states.append({r.key: r.object for r in store.records(CONFIG_MAPS)})
    return states


def replayed(start: dict[Key, Any], changes: list[Change]) -> dict[Key, Any]:
    state = dict(start)
    for change in changes:
        key = change.record.key
        assert (change.type == "ADDED") == (key not in state)
        if change.type == "DELETED":
            del state[key]
        else:
            state[key] = change.record.object
    return state


@given(OPERATIONS)
def test_a_watch_from_any_version_ends_in_the_present(
    operations: list[tuple[str, str, str, int]],
) -> None:
    store = Store()
    first = store.version
    states = play(store, operations)
    for offset, state in enumerate(states):
        changes = store.changes_since(CONFIG_MAPS, first + offset)
        assert [change.version for change in changes] == list(
            range(first + offset + 1, store.version + 1)
        )
        assert replayed(state, changes) == states[-1]


@given(OPERATIONS, st.sampled_from(["", "a", "b"]))
def test_a_snapshot_of_any_version_is_what_was_there(
    operations: list[tuple[str, str, str, int]], namespace: str
) -> None:
    store = Store()
    first = store.version
    for offset, state in enumerate(play(store, operations)):
        records = store.records_at(CONFIG_MAPS, namespace, first + offset)
        expected = [state[key] for key in sorted(state) if not namespace or key[0] == namespace]
        assert [record.object for record in records] == expected
    now = store.records(CONFIG_MAPS, namespace)
    assert [r.key for r in now] == sorted(r.key for r in now)


@given(OPERATIONS, st.integers(1, 10))
def test_a_short_history_never_lies(operations: list[tuple[str, str, str, int]], size: int) -> None:
    """From every version it either shows all changes or says that it cannot."""
    store = Store(history_size=size)
    first = store.version
    states = play(store, operations)
    refused = 0
    for offset, state in enumerate(states):
        try:
            changes = store.changes_since(CONFIG_MAPS, first + offset)
        except Failure:
            refused += 1
        else:
            assert replayed(state, changes) == states[-1]
    assert refused == max(0, len(states) - 1 - size)


@given(OPERATIONS)
def test_writes_that_change_nothing_are_not_told(
    operations: list[tuple[str, str, str, int]],
) -> None:
    store = Store()
    play(store, operations)
    version = store.version
    for record in store.records(CONFIG_MAPS):
        assert store.update(CONFIG_MAPS, record.object, record) is record
    assert store.version == version
    assert store.changes_since(PODS, version) == []
