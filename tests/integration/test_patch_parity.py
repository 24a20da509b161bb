"""Patches and server-side apply do on the embedded server what they do on kube-apiserver.

Seeded random patches of every format go to the same object on both servers; the answers, objects
or errors, must be equal. A failure names the seed, which is all that is needed to see it again.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiAccess, ApiError, unverified_access
from tests.embedded_fixtures import EmbeddedServer

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SEEDS = range(40)
PATCHES_PER_SEED = 4
NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def servers(
    control_plane: ControlPlane, embedded_server: EmbeddedServer
) -> tuple[ApiAccess, ApiAccess]:
    return control_plane.api, unverified_access(embedded_server.url)


def ask(
    server: ApiAccess, method: str, path: str, body: Any, content_type: str
) -> tuple[int, Json]:
    """The status and the decoded answer, whatever they are."""
    try:
        return 200, json.loads(server.raw(method, path, body, content_type))
    except ApiError as error:
        return error.status, {"message": str(error)}


def comparable(answer: tuple[int, Json], *, owners: bool) -> tuple[int, Json]:
    """Less what every server makes up by itself."""
    status, body = answer
    metadata = body.get("metadata", {})
    for name in ("uid", "resourceVersion", "creationTimestamp", "selfLink"):
        metadata.pop(name, None)
    managers = metadata.pop("managedFields", [])
    if owners:
        # Creations and updates are only tracked from the first apply on.
        metadata["owners"] = {
            entry["manager"]: entry["fieldsV1"]
            for entry in managers
            if entry["operation"] == "Apply"
        }
    return status, body


def differences(real: Any, embedded: Any, path: str = "") -> list[str]:
    """Where the two answers are not equal, in words short enough to read."""
    if isinstance(real, dict) and isinstance(embedded, dict):
        return [
            found
            for key in sorted(real.keys() | embedded.keys())
            for found in differences(real.get(key), embedded.get(key), f"{path}.{key}")
        ]
    if isinstance(real, list) and isinstance(embedded, list) and len(real) == len(embedded):
        return [
            found
            for index, pair in enumerate(zip(real, embedded, strict=True))
            for found in differences(*pair, f"{path}[{index}]")
        ]
    return [] if real == embedded else [f"{path}: real {real}, embedded {embedded}"]


# Random patches


def container(rng: random.Random, name: str) -> Json:
    result: Json = {"name": name, "image": f"registry.example/{name}:{rng.randrange(3)}"}
    if rng.random() < 0.5:
        result["env"] = [{"name": n, "value": str(rng.randrange(3))} for n in picked(rng)]
    if rng.random() < 0.5:
        result["ports"] = [{"containerPort": 80 + i} for i in range(rng.randrange(3))]
    if rng.random() < 0.3:
        result["args"] = picked(rng)
    return result


def picked(rng: random.Random) -> list[str]:
    return rng.sample(NAMES, rng.randrange(len(NAMES) + 1))


def deployment(rng: random.Random, name: str) -> Json:
    names = rng.sample(NAMES, rng.randrange(1, len(NAMES)))
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels, "finalizers": ["example.com/x"]},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [container(rng, n) for n in names],
                    "volumes": [{"name": n, "emptyDir": {}} for n in picked(rng)],
                    "tolerations": [{"key": n, "operator": "Exists"} for n in picked(rng)],
                },
            },
        },
    }


def strategic_container(rng: random.Random, name: str) -> Json:
    roll = rng.random()
    if roll < 0.15:
        return {"name": name, "$patch": "delete"}
    change = container(rng, name)
    if roll < 0.3:
        change["env"] = [{"name": n, "$patch": "delete"} for n in picked(rng)]
    if roll > 0.85:
        change = {"name": name, "image": None, "args": ["x"], "env": None}
    if roll > 0.95:
        del change["name"]
    return change


def strategic_patch(rng: random.Random) -> Json:
    names, order = picked(rng), rng.sample(NAMES, len(NAMES))
    if ordered := rng.random() < 0.4:
        names.sort(key=order.index)
    changes = [strategic_container(rng, name) for name in names]
    if ordered:
        # With an order given, kube-apiserver forgets the live order of what comes behind a
        # deleted element: its slices share memory.
        changes = [change for change in changes if "$patch" not in change]
    pod_spec: Json = {"containers": changes}
    if ordered:
        wanted = rng.choice([order, names, [*names, "server-only"], order[1:]])
        pod_spec["$setElementOrder/containers"] = [{"name": name} for name in wanted]
    if rng.random() < 0.1:
        pod_spec["containers"].append({"$patch": "replace"})
    if rng.random() < 0.4:
        pod_spec["volumes"] = [
            {"name": name, "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
            for name in picked(rng)
        ]
    if rng.random() < 0.3:
        pod_spec["tolerations"] = [{"key": name, "operator": "Exists"} for name in picked(rng)]
    if rng.random() < 0.2:
        pod_spec["nodeSelector"] = rng.choice([{"a": "b"}, {"a": None}, {"$patch": "delete"}])
    metadata = rng.choice(
        [
            {"labels": {"x": rng.choice(["1", "2", None])}},
            {"labels": {"$patch": "replace", "y": "1"}},
            {"finalizers": [f"example.com/{name}" for name in picked(rng)]},
            {"$deleteFromPrimitiveList/finalizers": ["example.com/x", "example.com/a"]},
            {},
        ]
    )
    return {"metadata": metadata, "spec": {"template": {"spec": pod_spec}}}


def merge_patch(rng: random.Random) -> Json:
    return {
        "metadata": {"labels": {name: rng.choice(["1", None]) for name in picked(rng)} or None},
        "spec": {
            "replicas": rng.choice([0, 3, None]),
            "template": {"spec": {"containers": [container(rng, n) for n in picked(rng)]}},
        },
    }


def json_patch(rng: random.Random) -> list[Json]:
    base = "/spec/template/spec/containers"
    return [
        rng.choice(
            [
                {"op": "add", "path": f"{base}/-", "value": container(rng, rng.choice(NAMES))},
                {"op": "add", "path": f"{base}/0", "value": container(rng, rng.choice(NAMES))},
                {"op": "remove", "path": f"{base}/{rng.choice(['0', '1', '-1', '7', 'x'])}"},
                {"op": "replace", "path": f"{base}/0/image", "value": "registry.example/new"},
                {"op": "test", "path": "/kind", "value": rng.choice(["Deployment", "Pod"])},
                {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
                {"op": "move", "from": "/metadata/labels/x", "path": "/metadata/labels/z~1w"},
                {"op": "add", "path": "/metadata/labels/x", "value": "1"},
                {"op": "replace", "path": "/metadata/labels/new", "value": "1"},
                {"op": "remove", "path": "/spec/replicas"},
            ]
        )
        for _ in range(rng.randrange(1, 4))
    ]


FORMATS = {
    "application/strategic-merge-patch+json": strategic_patch,
    "application/merge-patch+json": merge_patch,
    "application/json-patch+json": json_patch,
}


@pytest.fixture
def name(servers: tuple[ApiAccess, ApiAccess], request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the object of a test, which is removed when the test is over."""
    chosen = f"parity-{request.node.callspec.params['seed']}"
    yield chosen
    for server in servers:
        path = f"{DEPLOYMENTS}/{chosen}"
        ask(server, "DELETE", path, {}, "application/json")
        released = {"metadata": {"finalizers": None}}
        ask(server, "PATCH", path, released, "application/merge-patch+json")


@pytest.mark.parametrize("content_type", FORMATS)
@pytest.mark.parametrize("seed", SEEDS)
def test_patches(
    servers: tuple[ApiAccess, ApiAccess], name: str, seed: int, content_type: str
) -> None:
    rng = random.Random(f"{content_type} {seed}")
    first = deployment(rng, name)
    created = [ask(server, "POST", DEPLOYMENTS, first, "application/json") for server in servers]
    assert [status for status, _ in created] == [200, 200]
    for _ in range(PATCHES_PER_SEED):
        patch = FORMATS[content_type](rng)
        real, embedded = (
            comparable(
                ask(server, "PATCH", f"{DEPLOYMENTS}/{name}", patch, content_type), owners=False
            )
            for server in servers
        )
        assert differences(list(real), list(embedded)) == [], patch


@pytest.mark.parametrize("seed", SEEDS)
def test_server_side_apply(servers: tuple[ApiAccess, ApiAccess], name: str, seed: int) -> None:
    rng = random.Random(f"apply {seed}")
    for _ in range(2 * PATCHES_PER_SEED):
        applied = deployment(rng, name)
        manager = rng.choice(["one", "two"])
        force = rng.choice(["true", "false"])
        if rng.random() < 0.3:
            del applied["metadata"]["labels"]
        if rng.random() < 0.3:
            del applied["spec"]["template"]["spec"]["tolerations"]
        path = f"{DEPLOYMENTS}/{name}?fieldManager={manager}&force={force}"
        real, embedded = (
            comparable(
                ask(server, "PATCH", path, applied, "application/apply-patch+yaml"), owners=True
            )
            for server in servers
        )
        assert differences(list(real), list(embedded)) == [], (manager, force, applied)
