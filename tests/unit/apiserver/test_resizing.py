"""The `resize` subresource: amounts of CPU and memory change, nothing else does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.paths import parse_path
from stowplan.apiserver.rest import ApiRequest
from stowplan.errors import ApiError

Json = dict[str, Any]
_POD = "/api/v1/namespaces/default/pods/web"


@pytest.fixture
def cluster() -> EmbeddedCluster:
    made = EmbeddedCluster()
    container = {
        "name": "main",
        "image": "web:1",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [container]}}
    made.create("", "v1", "pods", pod, namespace="default")
    return made


def _send(cluster: EmbeddedCluster, method: str, path: str, body: Json | None = None) -> Json:
    target = parse_path(path)
    assert target is not None
    media = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
    sent = msgspec.json.encode(body) if body is not None else b""
    answer = cluster.rest.answer(ApiRequest(method, target, {}, sent, media))
    decoded: Json = msgspec.json.decode(answer.body)
    return decoded


def _patch(cluster: EmbeddedCluster, container: Json, **others: Any) -> Json:
    spec = {"containers": [{"name": "main", **container}], **others}
    return _send(cluster, "PATCH", f"{_POD}/resize", {"spec": spec})


def test_amounts_change_and_the_generation_counts_it(cluster: EmbeddedCluster) -> None:
    _patch(cluster, {"resources": {"requests": {"cpu": "500m"}}})
    pod = _send(cluster, "GET", _POD)
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "500m", "memory": "1Gi"}
    assert pod["metadata"]["generation"] == 2


def test_everything_else_is_left_as_it_was(cluster: EmbeddedCluster) -> None:
    _patch(cluster, {"image": "web:2"}, nodeName="elsewhere")
    pod = _send(cluster, "GET", _POD)
    assert pod["spec"]["containers"][0]["image"] == "web:1"
    assert "nodeName" not in pod["spec"]


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ({"cpu": None}, "resource requests cannot be removed"),
        ({"ephemeral-storage": "1Gi"}, "only cpu and memory resources are mutable"),
        ({"cpu": "-1"}, "must be greater than or equal to 0"),
    ],
)
def test_what_may_not_be(cluster: EmbeddedCluster, requests: Json, words: str) -> None:
    with pytest.raises(ApiError, match=words):
        _patch(cluster, {"resources": {"requests": requests}})


def test_the_quality_of_service_stays(cluster: EmbeddedCluster) -> None:
    limits = {"cpu": "1", "memory": "1Gi"}
    with pytest.raises(ApiError, match="Pod QOS Class may not change"):
        _patch(cluster, {"resources": {"limits": limits}})


def test_containers_stay_who_they_are(cluster: EmbeddedCluster) -> None:
    pod = _send(cluster, "GET", _POD)
    other = {"name": "other", "image": "web:1"}
    changed = {**pod, "spec": {**pod["spec"], "containers": [*pod["spec"]["containers"], other]}}
    with pytest.raises(ApiError, match="containers may not be added or removed on resize"):
        _send(cluster, "PUT", f"{_POD}/resize", changed)
    renamed = [{**pod["spec"]["containers"][0], "name": "new"}]
    changed = {**pod, "spec": {**pod["spec"], "containers": renamed}}
    with pytest.raises(ApiError, match="containers may not be renamed or reordered on resize"):
        _send(cluster, "PUT", f"{_POD}/resize", changed)
