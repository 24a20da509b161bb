"""The audit of pods' revisions: overcommitted at any one of them is found, and nothing else."""

from __future__ import annotations

from typing import Any

from tools.etcd_history import Revision, overcommits


def revision(number: int, name: str, node: str = "", cpu: str = "700m", **status: Any) -> Revision:
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}
    if node:
        spec["nodeName"] = node
    return Revision(number, f"default/{name}", {"spec": spec, "status": status})


def test_two_pods_that_do_not_fit_together() -> None:
    history = [
        revision(1, "a"),
        revision(2, "b"),
        revision(3, "a", "n1"),
        revision(4, "b", "n1"),
        revision(5, "b", "n1", phase="Running"),
        Revision(6, "default/b", None),
    ]
    (found,) = overcommits(history, {"n1": 1000})
    assert (found.revision, found.pod, found.held_milli) == (4, "default/b", 1400)


def test_room_that_became_free_is_free() -> None:
    history = [
        revision(1, "a", "n1"),
        Revision(2, "default/a", None),
        revision(3, "b", "n1"),
        revision(4, "b", "n1", phase="Succeeded"),
        revision(5, "c", "n1"),
        revision(6, "d", "n2"),
    ]
    assert overcommits(history, {"n1": 1000, "n2": 1000}) == []
