"""Defaults of pods and of pod templates: the fields that kube-apiserver fills in by itself.

The scheduler's decisions depend on some of them (requests from limits, host ports, tolerations);
the rest is there so that `kubectl get -o yaml` and `describe` show what a real cluster shows.
Everything here changes the object it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan.api.quantity import format_quantity, nanos
from stowplan.apiserver.history import Json

_TOLERATED_S = 300
_GATED = "Scheduling is blocked due to non-empty scheduling gates"


def default_pod(pod: Json) -> None:
    """A whole pod, on creation and on every update."""
    spec = pod["spec"]
    default_pod_spec(spec)
    for container in containers_of(spec):
        _requests_from_limits(container["resources"])
    _default_pod_requests(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in containers_of(spec):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))
    _tolerate_node_trouble(spec)


def begin_status(pod: Json, now: str) -> None:
    """What a new pod has besides its defaults."""
    spec = pod["spec"]
    status = pod["status"]
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": _GATED,
            }
        ]
    status["qosClass"] = qos_class(spec)


def default_pod_spec(spec: Json) -> None:
    """What pods and templates share."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # the older name is kept equal to the newer one
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers_of(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def containers_of(spec: Json) -> Iterator[Json]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _default_container(container: Json) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is not None:
            _default_probe(probe)
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _pull_policy(image: str) -> str:
    """Always for :latest, which is also what an image without tag and digest means."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or (not tag and not digest) else "IfNotPresent"


def _default_probe(probe: Json) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(field):
            probe[field] = value
    get = probe.get("httpGet")
    if get is not None:
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    default_volume_source(volume)


def default_volume_source(volume: Json) -> None:
    """Of a pod's volume, or of a persistent volume's spec."""
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", 0o644)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def _requests_from_limits(resources: Json | None) -> None:
    if not resources or not resources.get("limits"):
        return
    resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _tolerate_node_trouble(spec: Json) -> None:
    """The DefaultTolerationSeconds admission: five minutes on a node that went away."""
    tolerations: list[Json] = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            toleration.get("key", "") in ("", key)
            and toleration.get("effect", "") in ("", "NoExecute")
            for toleration in tolerations
        ):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATED_S,
                }
            )
    if not tolerations:
        del spec["tolerations"]


def merge_label_keys(pod: Json) -> None:
    """Turn the matchLabelKeys of a new pod into plain requirements of the selector."""
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    for constraint in spec.get("topologySpreadConstraints") or ():
        _require(constraint.get("labelSelector"), constraint.get("matchLabelKeys"), "In", labels)
    affinity = spec.get("affinity") or {}
    for name in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(name) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        terms += [
            weighted["podAffinityTerm"]
            for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
            if weighted.get("podAffinityTerm")
        ]
        for term in terms:
            _require(term.get("labelSelector"), term.get("matchLabelKeys"), "In", labels)
            _require(term.get("labelSelector"), term.get("mismatchLabelKeys"), "NotIn", labels)


def _require(selector: Json | None, keys: Any, operator: str, labels: dict[str, str]) -> None:
    if selector is None:
        return
    for key in keys or ():
        if key in labels:
            selector.setdefault("matchExpressions", []).append(
                {"key": key, "operator": operator, "values": [labels[key]]}
            )


def qos_class(spec: Json) -> str:
    """BestEffort without cpu and memory, Guaranteed when every limit is set and requested."""
    pod_level = spec.get("resources")
    holders = [{"resources": pod_level}] if pod_level else list(containers_of(spec))
    any_set, all_equal = False, True
    for holder in holders:
        resources = holder.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            request, limit = nanos(requests.get(name, 0)), nanos(limits.get(name, 0))
            any_set = any_set or bool(request) or bool(limit)
            all_equal = all_equal and bool(limit) and request == limit
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if all_equal else "Burstable"


def _default_pod_requests(spec: Json) -> None:
    """Pod-level requests: what the containers ask for together, else the pod-level limits."""
    resources = spec.get("resources")
    if not resources or not resources.get("limits"):
        return
    requests = dict(resources.get("requests") or {})
    for name in ("cpu", "memory"):
        if name not in requests:
            total = sum_of_containers(spec, name)
            if total is not None:
                requests[name] = total
    for name, limit in resources["limits"].items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests.setdefault(name, limit)
    if requests:
        resources["requests"] = requests


def sum_of_containers(spec: Json, name: str) -> str | None:
    """Containers run together; before them each init container, beside the sidecars so far."""
    written: list[str] = []

    def request(container: Json) -> int:
        text = (container["resources"].get("requests") or {}).get(name)
        if text is None:
            return 0
        written.append(text)
        return nanos(text)

    sidecars = peak = 0
    for container in spec.get("initContainers") or ():
        asked = request(container)
        if container.get("restartPolicy") == "Always":
            sidecars += asked
            asked = 0
        peak = max(peak, sidecars + asked)
    total = max(peak, sidecars + sum(request(c) for c in spec.get("containers") or ()))
    if not written:
        return None
    if written[0].endswith("i") and total % (1024 * 10**9) == 0:
        return format_quantity(f"{total // (1024 * 10**9)}Ki")
    return format_quantity(f"{total // 10**6}m")
