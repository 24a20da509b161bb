"""Random clusters that are over-full, and an important pod that wants in.

Every pod began at a time of its own: where two are equally important, upstream's order of victims
is that of an unstable sort. For a like reason no pod is covered by two budgets, and no two pods
of a node have the same host port: upstream forgets it with the first of them that leaves.
"""

from __future__ import annotations

from tests.parity.generate.case import Scene
from tests.parity.generate.configurations import configuration
from tests.parity.generate.dice import NAMESPACES, NODES, POD_LABELS, Dice, Json

_PRIORITIES = [-10, 0, 0, 5, 5, 100]


def crowded_case(seed: int | str) -> Json:
    """A question about a pod that hardly fits anywhere; the same for the same seed."""
    scene = Scene(seed)
    dice = scene.dice
    names = dice.sample(NODES, dice.randint(1, 6))
    easy = dice.often(0.9)
    share = dice.choice([None, None, {"minCandidateNodesPercentage": 100}])
    case: Json = {
        "nodes": [_small(dice, scene.node(name, easy=easy)) for name in names],
        "pods": [_beginning(dice, scene, names, number) for number in range(dice.randint(4, 24))],
        "nominated": [],
        "pod": scene.pod(easy=easy, dressed=0.5),
        "config": configuration(arguments={"DefaultPreemption": share} if share else {}),
        "objects": [*scene.objects(names), *_budgets(dice)],
    }
    case["pod"]["spec"]["priority"] = dice.choice([5, 50, 1000])
    if dice.often(0.05):
        case["pod"]["spec"]["preemptionPolicy"] = "Never"
    if dice.often(0.2):
        case["nominated"] = [scene.promised(dice.choice(names)) for _ in range(2)]
        for waiting in case["nominated"]:
            waiting["spec"]["priority"] = dice.choice(_PRIORITIES)
    for container in case["pod"]["spec"]["containers"]:
        if dice.often(0.7):
            container["resources"] = {"requests": {"cpu": dice.choice(["250m", "900m", "1"])}}
    if dice.often(0.15):
        case["pod"]["status"]["nominatedNodeName"] = dice.choice(names)
        for made in dice.sample(case["pods"], 3):
            made["spec"]["nodeName"] = case["pod"]["status"]["nominatedNodeName"]
            made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            made["status"]["conditions"] = [_disruption(dice)]
    _part_ports(case["pods"])
    return case


def _small(dice: Dice, node: Json) -> Json:
    """Room for a few pods only."""
    offers = node["status"]["allocatable"]
    offers["cpu"] = dice.choice(["1", "2", "3"])
    offers["memory"] = dice.choice(["1Gi", "2Gi", "4Gi"])
    offers["pods"] = dice.choice(["2", "4", "6", "110"])
    return node


def _beginning(dice: Dice, scene: Scene, names: list[str], number: int) -> Json:
    made = scene.standing(dice.choice(names))
    made["spec"]["priority"] = dice.choice(_PRIORITIES)
    made["status"]["phase"] = "Running"
    made["status"]["startTime"] = f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"
    if "deletionTimestamp" in made["metadata"] and dice.often(0.5):
        made["status"]["conditions"] = [_disruption(dice)]
    return made


def _disruption(dice: Dice) -> Json:
    return {
        "type": "DisruptionTarget",
        "status": dice.choice(["True", "True", "False"]),
        "reason": dice.choice(["PreemptionByScheduler", "EvictionByEvictionAPI"]),
    }


def _budgets(dice: Dice) -> list[Json]:
    if dice.often(0.5):
        return []
    key = dice.choice(list(POD_LABELS))
    selectors: list[Json | None] = [
        {"matchLabels": {key: value}} for value in POD_LABELS[key] if dice.often(0.7)
    ]
    if dice.often(0.2):
        # These match nothing.
        selectors += [{}, None]
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"budget{number}", "namespace": namespace},
            "spec": {"selector": selector},
            "status": {
                "disruptionsAllowed": dice.choice([0, 0, 1, 2, 5]),
                "disruptedPods": {f"p{dice.randint(1, 20)}": "2026-01-01T00:00:00Z"},
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
            },
        }
        for namespace in NAMESPACES
        for number, selector in enumerate(selectors)
    ]


def _part_ports(pods: list[Json]) -> None:
    taken: set[tuple[str, int]] = set()
    for made in pods:
        spec = made["spec"]
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            for port in container.get("ports", ()):
                place = (spec["nodeName"], port.get("hostPort", 0))
                if place in taken:
                    port.pop("hostPort", None)
                elif port.get("hostPort"):
                    taken.add(place)
