"""Objects in the store are shared by everybody who reads them: nothing may change them in place."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from stowplan.apiserver.history import Change, History, Record, Subscription
from stowplan.apiserver.kinds import KINDS
from stowplan.apiserver.kubelet import KubeletOptions
from tests.unit.apiserver.serving import NODES, PODS, STRATEGIC, Api, node, pod, serving


class Snapshots:
    """Every version of every object that was ever in the store, and what it looked like then."""

    def __init__(self, api: Api) -> None:
        self._store = api.server.store
        self._seen: dict[int, tuple[Record, Any]] = {}

    def take(self) -> None:
        for kind in KINDS:
            if kind.stored:
                for record in self._store.records(kind):
                    self._seen.setdefault(id(record), (record, copy.deepcopy(record.object)))

    def check(self) -> int:
        for record, before in self._seen.values():
            assert record.object == before
        return len(self._seen)


async def test_no_write_changes_what_others_hold() -> None:
    async with serving(KubeletOptions(start_delay_s=0, stop_delay_s=0)) as api:
        snapshots = Snapshots(api)
        selector = {"matchLabels": {"a": "b"}}
        spread = {
            "maxSkew": 1,
            "topologyKey": "z",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
            "matchLabelKeys": ["a"],
        }
        steps: list[tuple[str, str, Any, str]] = [
            ("POST", NODES, node(), ""),
            ("POST", PODS, pod(topologySpreadConstraints=[spread]), ""),
            ("PATCH", f"{PODS}/a", {"metadata": {"labels": {"a": "c"}}}, STRATEGIC),
            (
                "PATCH",
                f"{PODS}/a",
                {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}},
                STRATEGIC,
            ),
            (
                "PATCH",
                f"{PODS}/a/status",
                {"status": {"conditions": [{"type": "X", "status": "True"}]}},
                STRATEGIC,
            ),
            (
                "POST",
                f"{PODS}/a/binding",
                {"metadata": {"name": "a", "labels": {"q": "r"}}, "target": {"name": "n1"}},
                "",
            ),
            ("PATCH", f"{NODES}/n1", {"spec": {"unschedulable": True}}, STRATEGIC),
            (
                "PATCH",
                f"{NODES}/n1/status",
                {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
                STRATEGIC,
            ),
            (
                "PATCH",
                f"{PODS}/a?fieldManager=me&force=true",
                {"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"b": "d"}}},
                "application/apply-patch+yaml",
            ),
            ("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}}, ""),
            ("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0}, ""),
        ]
        for method, path, body, content_type in steps:
            answer = await api.request(
                method, path, body, content_type=content_type or "application/json"
            )
            assert answer.status < 300 or answer.status == 404, answer.raw
            snapshots.take()
            await asyncio.sleep(0.02)  # let the kubelet have its turn
            snapshots.take()
        assert snapshots.check() > len(steps)


async def test_a_reader_that_is_too_slow_is_dropped() -> None:
    history = History(10, 0)
    slow, quick = Subscription([history], 2), Subscription([history], 2)
    for version in range(1, 5):
        obj = {"metadata": {"name": "a"}}
        history.append(Change("ADDED", Record(obj, version), None))
        assert len(quick.take()) == 1
    assert slow.dropped
    assert slow.take() == []
    await slow.wait(None)  # does not wait for what will not come
    assert not quick.dropped
    quick.close()
    history.append(Change("ADDED", Record({"metadata": {"name": "a"}}, 5), None))
    assert quick.take() == []
