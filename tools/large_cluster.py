"""Print a large cluster as JSON, in which nothing is wrong; for the cost of `stowplan audit`.

    python -m tools.large_cluster 5000 50000 > large.json

Deployments of fifty pods: a quarter has anti-affinity to its own pods, a quarter a spread
constraint. One pod in fifty is pending and too large for every node.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

_SINCE = "2026-01-01T00:00:00Z"
_ZONE = "topology.kubernetes.io/zone"
_HOST = "kubernetes.io/hostname"
_REPLICAS = 50


def objects(nodes: int, pods: int) -> Iterator[dict[str, Any]]:
    offers = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    for number in range(nodes):
        name = f"n{number}"
        labels = {_HOST: name, _ZONE: f"z{number % 3}"}
        meta = {"name": name, "creationTimestamp": _SINCE, "labels": labels}
        yield _made("Node", meta, {}, {"allocatable": offers})
    groups = max(1, pods // _REPLICAS)
    for number in range(pods):
        yield _pod(number, number % groups, number // groups, nodes)


def _pod(number: int, group: int, replica: int, nodes: int) -> dict[str, Any]:
    is_pending = number % _REPLICAS == _REPLICAS - 1
    requests = {"cpu": "5" if is_pending else "100m", "memory": "500Mi"}
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    selector = {"matchLabels": {"app": f"a{group}"}}
    if group % 4 == 0:
        term = {"labelSelector": selector, "topologyKey": _HOST}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": required}
    elif group % 4 == 1:
        where = {"topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{"maxSkew": 5, "labelSelector": selector, **where}]
    status: dict[str, Any] = {}
    if not is_pending:
        spec["nodeName"] = f"n{(group * 7 + replica * 101) % nodes}"
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _SINCE}
        status = {"conditions": [condition]}
    meta = {
        "name": f"a{group}-{replica}",
        "namespace": f"ns{group % 20}",
        "uid": f"uid-{number}",
        "creationTimestamp": _SINCE,
        "labels": {"app": f"a{group}", "pod": f"p{number}"},
    }
    return _made("Pod", meta, spec, status)


def _made(kind: str, meta: Any, spec: Any, status: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec, "status": status}


if __name__ == "__main__":
    everything = list(objects(int(sys.argv[1]), int(sys.argv[2])))
    json.dump({"apiVersion": "v1", "kind": "List", "items": everything}, sys.stdout)
