"""Host ports, images and declared features for the comparison with kube-scheduler."""

from __future__ import annotations

from typing import Any

from tests.e2e.scheduler_play import Step

Json = dict[str, Any]

_MIB = 1024 * 1024
_RESTARTS = "RestartAllContainersOnContainerExits"


def _node(name: str, **status: Any) -> Step:
    offers = {"cpu": "8", "memory": "8Gi", "pods": "30"}
    return Step("node", name, {"status": {"capacity": offers, "allocatable": offers, **status}})


def _pod(name: str, container: Json | None = None, **spec: Any) -> Step:
    main = {"name": "main", "image": "main", **(container or {})}
    return Step("pod", name, {"containers": [main], **spec})


def host_ports() -> list[Step]:
    """Ports run out, on all addresses or on one, and come back with whoever leaves."""

    def taking(name: str, port: int = 80, **more: str) -> Step:
        return _pod(name, {"ports": [{"containerPort": 80, "hostPort": port, **more}]})

    sidecar = {"name": "side", "image": "main", "restartPolicy": "Always"}
    once = {"name": "once", "image": "main"}
    ports = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    return [
        *(_node(name) for name in ("h-n1", "h-n2", "h-n3")),
        Step("barrier"),
        taking("h-a"),
        taking("h-address", hostIP="10.0.0.1"),
        taking("h-same-address", hostIP="10.0.0.1"),
        taking("h-other-address", hostIP="10.0.0.2"),
        taking("h-udp", protocol="UDP"),
        taking("h-443", 443),
        _pod("h-none"),
        _pod("h-once", initContainers=[{**once, **ports}]),
        _pod("h-sidecar", initContainers=[{**sidecar, **ports}]),
        Step("forget_pending", "h-sidecar"),
        taking("h-waits"),
        Step("delete_pod", "h-udp"),
        Step("delete_pod", "h-a"),
        Step("bound", "h-waits"),
        taking("h-waits-for-a-node"),
        _node("h-n4"),
        Step("bound", "h-waits-for-a-node"),
    ]


def images() -> list[Step]:
    """Pods go where their images are, unless only few nodes have them."""

    def image(name: str, mib: int) -> Json:
        return {"names": [f"{name}@sha256:{'0' * 64}", name], "sizeBytes": mib * _MIB}

    def using(name: str, *names: str, **spec: Any) -> Step:
        containers = [{"name": f"c{i}", "image": image} for i, image in enumerate(names)]
        return Step("pod", name, {"containers": containers, **spec})

    web, web_elsewhere = image("example.com:5000/web:latest", 700), image("web:2", 100)
    reported = {
        "i-n1": [web, image("db:latest", 900)],
        "i-n2": [web, image("db:latest", 90), web_elsewhere],
        "i-n3": [image("tool:v1", 3000)],
        "i-n4": [web, image("tool:v1", 20), image("small:latest", 30)],
        "i-n5": [],
    }
    # Nodes are told of twice: kube-scheduler's view of a node keeps how many others had an image
    # when the node itself last changed.
    return [
        *(_node(name, images=held) for name, held in reported.items()),
        Step("barrier"),
        *(
            Step("change_node", name, {"metadata": {"labels": {"seen": "twice"}}})
            for name in reported
        ),
        Step("barrier"),
        using("i-web", "example.com:5000/web"),
        using("i-db", "db"),
        using("i-tool", "tool:v1"),
        using("i-latest-tool", "tool"),
        using("i-both", "example.com:5000/web:latest", "db"),
        using("i-small", "small"),
        using("i-init", "x", initContainers=[{"name": "i", "image": "tool:v1"}]),
        using("i-volume", "x", volumes=[{"name": "v", "image": {"reference": "db"}}]),
        using("i-again", "db", "db"),
        using("i-unknown", "unknown"),
        using("i-web-2", "web:2", "db"),
    ]


def features() -> list[Step]:
    """A pod that needs a feature waits for a node that declares it."""
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}
    restarting = {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    init = {"name": "i", "image": "main", **restarting}
    return [
        _node("f-n1"),
        _node("f-n2", declaredFeatures=["Another"]),
        Step("barrier"),
        _pod("f-plain"),
        _pod("f-waits", restarting),
        Step("change_node", "f-n2", {"status": {"declaredFeatures": ["Another", _RESTARTS]}}),
        Step("bound", "f-waits"),
        _pod("f-goes", restarting),
        _pod("f-init", initContainers=[init]),
    ]
