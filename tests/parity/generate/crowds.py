"""Random clusters that are over-full, and an important pod that wants in.

Budgets overlap, and pods tie: several began in the same second, or have not begun. Upstream sorts
up to twelve pods with a stable sort, beyond that with an unstable one; so pods that tie on a node
with more than that are replicas, of which it does not matter which goes (see `kind_of`).
"""

from __future__ import annotations

from tests.parity.generate.case import Scene, containers_of, part_ports
from tests.parity.generate.configurations import configuration
from tests.parity.generate.dice import NAMESPACES, NODES, POD_LABELS, Dice, Json, copied

_PRIORITIES = [-10, 0, 0, 5, 5, 100]
#: Up to so many pods upstream's sort is stable.
_STABLE = 12


def crowded_case(seed: int | str) -> Json:
    """A question about a pod that hardly fits anywhere; the same for the same seed."""
    scene = Scene(seed)
    dice = scene.dice
    names = dice.sample(NODES, dice.randint(1, 6))
    easy = dice.often(0.9)
    share: Json | None = dice.choice([None, None, {"minCandidateNodesPercentage": 100}])
    if dice.often(0.05):
        # Less than one of so few nodes.
        share = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 0}
    replicas = dice.often(0.2)
    pods = _replicas(dice, scene, names) if replicas else _beginning(dice, scene, names)
    case: Json = {
        "nodes": [_small(dice, scene.node(name, easy=easy)) for name in names],
        "pods": pods,
        "nominated": [],
        "pod": scene.pod(easy=easy, dressed=0.5),
        "config": configuration(arguments={"DefaultPreemption": share} if share else {}),
        "objects": [*scene.objects(names), *budgets(dice, by_name=not replicas)],
    }
    case["pod"]["spec"]["priority"] = dice.choice([5, 50, 1000])
    if dice.often(0.05):
        case["pod"]["spec"]["preemptionPolicy"] = "Never"
    if dice.often(0.2):
        case["nominated"] = [scene.promised(dice.choice(names)) for _ in range(2)]
        for waiting in case["nominated"]:
            waiting["spec"]["priority"] = dice.choice(_PRIORITIES)
    if dice.often(0.6):
        _demand_little(case["pod"]["spec"])
        case["pod"]["spec"]["priority"] = 1000
    for container in case["pod"]["spec"]["containers"]:
        if dice.often(0.7):
            container["resources"] = {"requests": {"cpu": dice.choice(["250m", "900m", "1"])}}
    if not replicas and dice.often(0.15):
        case["pod"]["status"]["nominatedNodeName"] = dice.choice(names)
        for made in dice.sample(case["pods"], 3):
            made["spec"]["nodeName"] = case["pod"]["status"]["nominatedNodeName"]
            made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            made["status"]["conditions"] = [_disruption(dice)]
    if dice.often(0.5):
        # Budgets of one namespace cover more of the pods.
        for made in case["pods"]:
            made["metadata"]["namespace"] = NAMESPACES[0]
            made["metadata"].setdefault("labels", dice.pod_labels() if not replicas else {})
    part_ports(case["pods"])
    return case


def _demand_little(spec: Json) -> None:
    """One container and nothing besides, so that room for it can be made on most nodes."""
    for name in ("initContainers", "overhead", "resources", "volumes", "affinity", "nodeSelector"):
        spec.pop(name, None)
    del spec["containers"][1:]
    spec["containers"][0]["resources"] = {"requests": {"cpu": "900m"}}


def _small(dice: Dice, node: Json) -> Json:
    """Room for a few pods only."""
    offers = node["status"]["allocatable"]
    offers["cpu"] = dice.choice(["1", "2", "3"])
    offers["memory"] = dice.choice(["1Gi", "2Gi", "4Gi"])
    offers["pods"] = dice.choice(["2", "4", "6", "110"])
    return node


def kind_of(case: Json, node: str, name: str) -> str:
    """The name of a victim; where ties are broken by an unstable sort, what it has in common with
    its replicas."""
    priority = case["pod"]["spec"]["priority"]
    lower = [
        pod
        for pod in case["pods"]
        if pod["spec"]["nodeName"] == node and pod["spec"].get("priority", 0) < priority
    ]
    if len(lower) <= _STABLE:
        return name
    found = next(
        pod for pod in lower if f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" == name
    )
    return str((found["spec"]["priority"], found["status"].get("startTime")))


def _beginning(dice: Dice, scene: Scene, names: list[str]) -> list[Json]:
    """Pods that are all different; they tie only where there are few enough for a stable sort."""
    made = [_crowded(dice, scene, dice.choice(names)) for _ in range(dice.randint(4, 24))]
    ties = len(made) <= _STABLE
    priority = dice.choice([None, 0])
    for number, pod in enumerate(made):
        second = dice.choice([0, 0, 1, number]) if ties else number
        if not ties or dice.often(0.7):
            pod["status"]["startTime"] = f"2026-01-01T00:00:{second:02}Z"
        if priority is not None:
            pod["spec"]["priority"] = priority
    return made


def _crowded(dice: Dice, scene: Scene, where: str) -> Json:
    made = scene.standing(where)
    made["spec"]["priority"] = dice.choice(_PRIORITIES)
    made["status"]["phase"] = "Running"
    del made["status"]["startTime"]
    if "deletionTimestamp" in made["metadata"] and dice.often(0.5):
        made["status"]["conditions"] = [_disruption(dice)]
    return made


def _replicas(dice: Dice, scene: Scene, names: list[str]) -> list[Json]:
    """Many pods on a node: of a few templates, each with a priority and a start of its own."""
    where = dice.choice(names)
    made: list[Json] = []
    for number, priority in enumerate(dice.sample(sorted(set(_PRIORITIES)), dice.randint(1, 3))):
        template = _crowded(dice, scene, where)
        template["spec"]["priority"] = priority
        for container in containers_of(template):
            # Ports would be taken from all but one, and make a difference between them.
            container.pop("ports", None)
        if dice.often(0.5):
            template["status"]["startTime"] = f"2026-01-01T00:00:0{number}Z"
        for _ in range(dice.randint(5, 15)):
            scene.serial += 1
            twin = copied(template)
            twin["metadata"] |= {"name": f"p{scene.serial}", "uid": f"uid-p{scene.serial}"}
            made.append(twin)
    dice.shuffle(made)
    return made


def _disruption(dice: Dice) -> Json:
    return {
        "type": "DisruptionTarget",
        "status": dice.choice(["True", "True", "False"]),
        "reason": dice.choice(["PreemptionByScheduler", "EvictionByEvictionAPI"]),
    }


def budgets(dice: Dice, *, by_name: bool) -> list[Json]:
    """Several a namespace, of which some cover the same pods and some are exhausted.

    `by_name`: some have counted the eviction of a pod already.
    """
    if dice.often(0.4):
        return []
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"budget{number}", "namespace": namespace},
            "spec": {"selector": _selector(dice)},
            "status": {
                "disruptionsAllowed": dice.choice([0, 0, 1, 1, 2, 5]),
                "disruptedPods": {
                    f"p{dice.randint(1, 20)}": dice.choice(["2026-01-01T00:00:00Z", None])
                    for _ in range(dice.randint(0, 3) if by_name else 0)
                },
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
            },
        }
        for namespace in NAMESPACES
        for number in range(dice.choice([1, 2, 4, 6]))
    ]


def _selector(dice: Dice) -> Json | None:
    if dice.often(0.5):
        key = dice.choice(list(POD_LABELS))
        return {"matchLabels": {key: dice.choice(POD_LABELS[key])}}
    if dice.often(0.1):
        # An API server does not take it; it matches nothing, as one that is empty or missing.
        return {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["web"]}]}
    return None if dice.often(0.1) else dice.label_selector()
