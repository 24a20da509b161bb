"""Random pods as far as resources, ports, images and their life go.

What a pod asks of nodes, of other pods and of volumes is drawn in modules of its own.
"""

from __future__ import annotations

from tests.parity.generate.dice import NAMESPACES, Dice, Json
from tests.parity.generate.node_wishes import constrain, toleration
from tests.parity.generate.nodes import GPU, HUGE, IMAGES, NIC, PAGES, STORAGE

#: The least and the most that the API takes, and what system pods have.
PRIORITIES = [-2147483648, -5, 0, 0, 1000, 2000001000]

ANOTHER_SCHEDULER = "another-scheduler"


def pod(dice: Dice, name: str, *, easy: bool = False) -> Json:
    """A pod that waits; an easy one asks for nothing that only some nodes have."""
    spec: Json = {
        "schedulerName": "default-scheduler",
        "restartPolicy": "Always",
        "containers": [_container(dice, f"c{i}") for i in range(dice.choice([1, 1, 2, 3]))],
    }
    if dice.often(0.2):
        spec["initContainers"] = [_init_container(dice, f"i{i}") for i in range(2)]
    elif dice.often(0.05):
        spec["initContainers"] = None
    if dice.often(0.1):
        spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    if dice.often(0.1):
        # Pod-level requests are no less than the containers'.
        spec["resources"] = {"requests": {"cpu": "6", "memory": "7Gi"}}
    if dice.often(0.1):
        spec["volumes"] = [
            {"name": "model", "image": {"reference": dice.choice(list(IMAGES))}},
        ]
    if dice.often(0.5):
        spec["tolerations"] = [toleration(dice) for _ in range(dice.randint(1, 3))]
    elif dice.often(0.1):
        spec["tolerations"] = dice.choice([None, []])
    if dice.often(0.1):
        spec["hostNetwork"] = True
        spec["hostUsers"] = dice.choice([True, False])
        for container in spec["containers"]:
            for port in container.get("ports", ()):
                port["hostPort"] = port["containerPort"]
    if dice.often(0.3):
        spec["priority"] = dice.choice(PRIORITIES)
    if not easy or dice.often(0.5):
        constrain(dice, spec, hard=not easy)
    metadata: Json = {"name": name, "namespace": dice.choice(NAMESPACES), "uid": f"uid-{name}"}
    if dice.often(0.8):
        metadata["labels"] = dice.pod_labels()
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def standing(dice: Dice, made: Json, node: str) -> Json:
    """The pod on a node."""
    made["spec"]["nodeName"] = node
    made["status"]["phase"] = "Running"
    if dice.often(0.1):
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if dice.often(0.15):
        # A resize that the kubelet has not finished: more or less than the spec asks for.
        made["status"]["containerStatuses"] = [
            {
                "name": container["name"],
                "allocatedResources": requests(dice),
                "resources": {"requests": requests(dice)},
            }
            for container in made["spec"]["containers"]
        ]
        if made["spec"].get("resources"):
            made["status"]["resources"] = {"requests": requests(dice)}
            made["status"]["allocatedResources"] = requests(dice)
        if dice.often(0.3):
            made["status"]["conditions"] = [
                {
                    "type": "PodResizePending",
                    "status": "True",
                    "reason": dice.choice(["Infeasible", "Deferred"]),
                }
            ]
    if dice.often(0.03):
        made["status"]["phase"] = dice.choice(["Succeeded", "Failed"])
    if dice.often(0.02):
        # That others have devices is of no concern to a pod that wants none.
        made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "somebody-s"}]
    return made


def promised(dice: Dice, made: Json, node: str) -> Json:
    """The pod waiting for a node that it was promised."""
    made["status"]["nominatedNodeName"] = node
    if dice.often(0.05):
        # Nobody here will place it, so the promise is none of ours.
        made["spec"]["schedulerName"] = ANOTHER_SCHEDULER
    elif dice.often(0.05):
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def _container(dice: Dice, name: str) -> Json:
    wanted = requests(dice)
    container: Json = {
        "name": name,
        "image": dice.choice(
            [*IMAGES, "pause", "registry.example/model", "registry.example/none:3"]
        ),
        "resources": {"requests": wanted} if wanted else {},
    }
    if exact := {name: wanted[name] for name in (GPU, NIC, PAGES) if name in wanted}:
        # An API server insists on limits for what cannot be overcommitted.
        container["resources"]["limits"] = exact
    if dice.often(0.3):
        container["ports"] = [_port(dice) for _ in range(dice.randint(1, 2))]
    if dice.often(0.05):
        container["restartPolicy"] = "Never"
        container["restartPolicyRules"] = [
            {
                "action": dice.choice(["Restart", "RestartAllContainers"]),
                "exitCodes": {"operator": "In", "values": [42]},
            }
        ]
    return container


def _init_container(dice: Dice, name: str) -> Json:
    container = _container(dice, name)
    container.pop("restartPolicyRules", None)
    container.pop("restartPolicy", None)
    if dice.often(0.5):
        container["restartPolicy"] = "Always"
    return container


def requests(dice: Dice) -> Json:
    wanted: Json = {}
    for name, chance, amounts in (
        ("cpu", 0.7, ["0", "1m", "250m", "1", "1900m", "0.5", "1e0"]),
        ("memory", 0.7, ["0", "1", "100Mi", "1Gi", "2G", "1.5Gi", "1500m", "1e8"]),
        (STORAGE, 0.15, ["0", "500Mi", "2Gi"]),
        (GPU, 0.2, ["0", "1", "3", "5"]),
        (NIC, 0.05, ["0", "1"]),
        (PAGES, 0.12, ["0", "32Mi", "64Mi"]),
    ):
        if dice.often(chance):
            wanted[name] = dice.choice(amounts)
    if PAGES in wanted and dice.often(0.9):
        # An API server wants either beside pages.
        wanted.setdefault("cpu", "1m")
    if dice.often(0.01):
        name = dice.choice(list(HUGE))
        wanted[name] = dice.choice(HUGE[name])
    return wanted


def _port(dice: Dice) -> Json:
    port: Json = {
        "containerPort": dice.choice([80, 443, 8080]),
        "protocol": dice.choice(["TCP", "TCP", "UDP", "SCTP"]),
    }
    if dice.often(0.7):
        port["hostPort"] = dice.choice([80, 443, 8080])
        if dice.often(0.4):
            port["hostIP"] = dice.choice(["0.0.0.0", "127.0.0.1", "10.0.0.1"])
    return port
