"""Pods that ask for about as much as an int64 holds, or together for more.

Upstream adds up a node's requests in an int64 that wraps around, and asks whether the pod's request
is larger than `allocatable - requested`, which wraps as well: a second pod of 2^63 - 1 makes the
node look free, and scores of it fall out of range. Ours are exact. So the same question can be put
to both as long as no sum passes an int64 (`near`). Beyond that (`beyond`) the oracle is asked about
pods that ask for less, but still for more than any node has: the exact answers are the same.
"""

from __future__ import annotations

from tests.parity.generate.dice import Dice, Json, copied
from tests.parity.generate.nodes import GPU, STORAGE

MAX_INT64 = 2**63 - 1
#: Leaves room for what the other pods of a case ask for.
_NEAR = MAX_INT64 - 2**60
#: More than any node has, and 16 of them are less than `_NEAR`.
_TAMED = 2**58


def near(dice: Dice, case: Json) -> None:
    """Let some pods ask for so much that all of it together just fits an int64."""
    pods = _some_pods(dice, case, most=3)
    _ask(dice.choice(["cpu", "memory", STORAGE, GPU]), pods, [_NEAR // len(pods)] * len(pods))


def beyond(dice: Dice, case: Json) -> Json:
    """Let some pods ask for more than an int64 holds; returns the case to ask the oracle about."""
    tamed = copied(case)
    state = dice.getstate()
    amounts = [
        dice.choice([MAX_INT64, MAX_INT64 - 1, 2**62, 2**62 + 1])
        for _ in _some_pods(dice, case, most=4)
    ]
    name = dice.choice(["cpu", "memory", STORAGE, GPU])
    after = dice.getstate()
    for each, sizes in ((case, amounts), (tamed, [_TAMED] * len(amounts))):
        dice.setstate(state)
        _ask(name, _some_pods(dice, each, most=4), sizes)
    dice.setstate(after)
    return tamed


def _some_pods(dice: Dice, case: Json, *, most: int) -> list[Json]:
    """Pods that meet: some of one node, the one that was promised it, the one that is asked for."""
    node = dice.choice(case["nodes"])["metadata"]["name"]
    there = [pod for pod in case["pods"] if pod["spec"]["nodeName"] == node]
    there += [pod for pod in case["nominated"] if pod["status"].get("nominatedNodeName") == node]
    found = dice.sample(there, min(len(there), dice.randint(1, most - 1)))
    return found if found and dice.often(0.6) else [*found, case["pod"]]


def _ask(name: str, pods: list[Json], amounts: list[int]) -> None:
    for pod, amount in zip(pods, amounts, strict=True):
        wanted = {name: f"{amount}m" if name == "cpu" else str(amount)}
        for field in ("initContainers", "overhead", "resources"):
            pod["spec"].pop(field, None)
        for field in ("containerStatuses", "resources", "allocatedResources"):
            pod["status"].pop(field, None)
        for container in pod["spec"]["containers"]:
            container["resources"] = {}
        pod["spec"]["containers"][0]["resources"] = {"requests": wanted}
