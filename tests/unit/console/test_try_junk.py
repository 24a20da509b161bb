"""Junk in objects of the page Try ends as a refusal by field or as an error of one line."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.console.try_cluster import TryCluster
from stowplan.errors import ApiError

SNAPSHOT = Path(__file__).parents[2] / "data" / "kube_scheduler_simulator" / "cluster.json"
JUNK: list[Any] = [None, 7, -1.5, "", "x", "\x00", [], [7], {}, {"a": 7}, True, [{}], 2**70]


def spoil(rng: Random, value: Any) -> Any:
    """The same with junk in one place of it."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.9:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        copy: Any = value.copy()
        copy[key] = spoil(rng, copy[key])
        return copy
    return rng.choice(JUNK)


@pytest.mark.parametrize("seed", range(3))
async def test_junk_is_refused(seed: int) -> None:
    rng = Random(seed)
    snapshot = json.loads(SNAPSHOT.read_text())
    refused = 0
    for _ in range(60):
        trying = TryCluster(EmbeddedCluster(), dict)
        text = json.dumps(spoil(rng, spoil(rng, snapshot)))
        action = rng.choice(["create", "import"])
        body = json.dumps({"text": text})
        try:
            problems = (await trying.write([action], body.encode()))["problems"]
        except ApiError as problem:
            problems = [problem.message]
        assert not any("\n" in each for each in problems)
        refused += len(problems)
        await trying.write(["clear"], b'{"what": "everything"}')
        assert trying.read(["export"], {})["items"] == []
    assert refused > 10
