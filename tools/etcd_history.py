"""Every state that the pods of a cluster have been in, in order, from etcd's own history.

An audit through the API sees only what is left in the end. etcd keeps every revision until it is
compacted, so a control plane that is to be audited runs with `APISERVER_FLAGS`: nothing is
compacted, and objects are stored as JSON.
"""

from __future__ import annotations

import json
import urllib.request
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stowplan.api.quantity import milli_value

APISERVER_FLAGS = ("--etcd-compaction-interval=0", "--storage-media-type=application/json")

_PODS = "/registry/pods/"
_END = b"/audit/end"


@dataclass(frozen=True)
class Revision:
    """One change of one pod; `pod` is None when it was removed."""

    number: int
    key: str
    pod: dict[str, Any] | None


@dataclass(frozen=True)
class Overcommit:
    """A change after which a node held more than it has."""

    revision: int
    pod: str
    node: str
    held_milli: int
    milli: int


def pod_history(etcd_url: str) -> Iterator[Revision]:
    """All revisions of all pods so far."""
    # A key of our own, written now, marks the end.
    mark = _post(etcd_url, "/v3/kv/put", {"key": _text(_END), "value": ""})
    end = int(mark["header"]["revision"])
    everything = {"key": _text(b"/"), "range_end": _text(b"0"), "start_revision": "1"}
    with _open(etcd_url, "/v3/watch", {"create_request": everything}, timeout=30.0) as answer:
        for line in answer:
            result = json.loads(line)["result"]
            if result.get("canceled"):
                raise RuntimeError(f"etcd ended the watch: {result.get('cancel_reason')}")
            for event in result.get("events", ()):
                stored = event["kv"]
                number, key = int(stored["mod_revision"]), b64decode(stored["key"]).decode()
                if number >= end:
                    return
                if not key.startswith(_PODS):
                    continue
                is_gone = event.get("type") == "DELETE"
                pod = None if is_gone else json.loads(b64decode(stored["value"]))
                yield Revision(number, key.removeprefix(_PODS), pod)


def overcommits(history: Iterable[Revision], cpu_milli: Mapping[str, int]) -> list[Overcommit]:
    """Every change that gave a node more CPU requests than it has, at whatever revision."""
    where: dict[str, tuple[str, int]] = {}
    held: defaultdict[str, int] = defaultdict(int)
    found: list[Overcommit] = []
    for revision in history:
        old_node, old_milli = where.pop(revision.key, ("", 0))
        held[old_node] -= old_milli
        if revision.pod is None or _is_finished(revision.pod):
            continue
        node, milli = revision.pod["spec"].get("nodeName", ""), _requested(revision.pod)
        where[revision.key] = node, milli
        held[node] += milli
        if node and node != old_node and held[node] > cpu_milli[node]:
            key = revision.key
            found.append(Overcommit(revision.number, key, node, held[node], cpu_milli[node]))
    return found


def _is_finished(pod: dict[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _requested(pod: dict[str, Any]) -> int:
    return sum(
        milli_value(container.get("resources", {}).get("requests", {}).get("cpu", 0))
        for container in pod["spec"]["containers"]
    )


def _text(raw: bytes) -> str:
    return b64encode(raw).decode()


def _post(etcd_url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    with _open(etcd_url, path, body, timeout=10.0) as answer:
        read: dict[str, Any] = json.load(answer)
    return read


def _open(etcd_url: str, path: str, body: dict[str, Any], *, timeout: float) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(etcd_url + path, json.dumps(body).encode(), method="POST")
    return opener.open(request, timeout=timeout)
