"""A seeded search for expensive pods, by hill climbing over the sizes of all their lists.

Called by ``python -m stowplan.bench.attack --search SECONDS --seed N``. A pod is judged by its
longest synchronous piece: as a pending pod, as a standing one, and by what plain pods pay beside
it. Each step changes one or two sizes of one of the worst pods so far, or starts over. The same
seed tries the same pods until times decide which of two is worse.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random

from stowplan.lab.bench.attack_trial import AttackedCluster, AttackTrial, Report
from stowplan.lab.bench.hostile import BODY_LIMIT, ETCD_LIMIT, decoded, stored_size
from stowplan.lab.bench.hostile_sizes import POD_SIZES, sized_pod

#: The largest size of a list that is tried; what is not valid is made smaller.
_LARGEST = 20_000
#: Pods that may be changed further.
_KEPT = 12
#: Claims need objects of their own, which a trial on a shared cluster does not make.
_SEARCHED = [size for size in POD_SIZES if "claims" not in size]
#: Where standing pods are created.
_NODE = "node-00007"


@dataclass
class CostlyPod:
    """A pod and what it cost."""

    sizes: dict[str, int]
    report: Report = field(default_factory=Report)
    standing: Report = field(default_factory=Report)

    @property
    def badness(self) -> float:
        """Seconds that some other pod may wait, or that all of them pay together."""
        beside = max(self.report.plain_beside_ms, self.standing.plain_beside_ms) / 1e3
        return max(self.report.wait_s, self.standing.wait_s, beside * 10)

    @property
    def spelled(self) -> str:
        return ", ".join(f"{size} {number:,}" for size, number in self.sizes.items())


def search(
    measure: Callable[[Callable[[Report], None]], Report],
    cluster: AttackedCluster,
    seconds: float,
    seed: int,
    say: Callable[[str], None],
) -> list[CostlyPod]:
    """The worst pods that were found, the worst first; `measure` runs a trial with limits."""
    rng = Random(seed)
    worst: list[CostlyPod] = []
    # First each size alone, as large as it may be.
    waiting = [{size: _LARGEST} for size in _SEARCHED]
    end = time.monotonic() + seconds
    tried = 0
    while time.monotonic() < end:
        sizes = fitted(waiting.pop(0) if waiting else _changed(rng, worst))
        found = CostlyPod(sizes)
        found.report = measure(partial(_try, cluster, sizes, ""))
        found.standing = measure(partial(_try, cluster, sizes, _NODE))
        tried += 1
        worst = sorted([*worst, found], key=lambda each: -each.badness)[: _KEPT * 4]
        if found in worst[:3]:
            say(f"{tried}: {found.badness:.3f} s: {found.spelled}")
    say(f"{tried} pods were tried")
    return worst[: _KEPT * 2]


def fitted(sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes scaled down in proportion to what the API server allows."""
    made = dict(sizes)
    while True:
        manifest = sized_pod(made)
        share = max(stored_size(manifest) / ETCD_LIMIT, len(json.dumps(manifest)) / BODY_LIMIT)
        if share <= 1:
            return made
        made = {size: int(number / share * 0.98) for size, number in made.items()}


def _changed(rng: Random, worst: list[CostlyPod]) -> dict[str, int]:
    """Another pod: a changed one of the worst, two of them together, or a new one."""
    sizes: dict[str, int] = {}
    if rng.random() < 0.8:
        sizes = dict(rng.choice(worst[:_KEPT]).sizes)
        if rng.random() < 0.3:
            sizes |= rng.choice(worst).sizes
    for _ in range(rng.randint(1, 2) if sizes else rng.randint(2, 4)):
        size = rng.choice(_SEARCHED)
        sizes[size] = int(_LARGEST ** rng.uniform(0.3, 1.0))
    if len(sizes) > 2 and rng.random() < 0.4:
        del sizes[rng.choice(list(sizes))]
    return sizes


def _try(cluster: AttackedCluster, sizes: dict[str, int], node: str, report: Report) -> None:
    trial = AttackTrial(cluster, report)
    hostile = decoded(sized_pod(sizes), node=node)
    relabelled = sized_pod(sizes)
    relabelled["metadata"]["labels"]["app"] = "another"
    other = decoded(relabelled, node=node)
    trial.create(hostile)
    report.plain_beside_ms = trial.plain_ms()
    if node:
        trial.update(other)
    trial.delete()
