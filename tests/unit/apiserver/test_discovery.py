"""Discovery and OpenAPI: every served kind is told of, in all forms alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stowplan.apiserver.discovery import AGGREGATED_V2, discovery_document, group_versions
from stowplan.apiserver.kinds import KINDS
from stowplan.apiserver.openapi import openapi_document

Json = dict[str, Any]

KUBECTL_ACCEPT = (
    f"{AGGREGATED_V2},"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


def body(path: str, accept: str = "") -> Json:
    document = discovery_document(path, accept)
    assert document is not None
    return document.body


def openapi(path: str) -> Json:
    document = openapi_document(path)
    assert document is not None
    parsed: Json = json.loads(document[1])
    return parsed


def listed() -> set[tuple[str, str, str]]:
    """(groupVersion, resource, kind) by the older documents, followed from their roots."""
    versions = [(version, f"/api/{version}") for version in body("/api")["versions"]]
    for group in body("/apis")["groups"]:
        assert body(f"/apis/{group['name']}")["versions"] == group["versions"]
        versions += [
            (entry["groupVersion"], f"/apis/{entry['groupVersion']}") for entry in group["versions"]
        ]
    found = set()
    for group_version, path in versions:
        document = body(path)
        assert document["groupVersion"] == group_version
        found |= {(group_version, r["name"], r["kind"]) for r in document["resources"]}
    return found


def aggregated() -> set[tuple[str, str, str]]:
    found = set()
    for root in ("/api", "/apis"):
        for group in body(root, KUBECTL_ACCEPT)["items"]:
            for version in group["versions"]:
                name = f"{group['metadata']['name']}/{version['version']}".lstrip("/")
                for resource in version["resources"]:
                    found.add((name, resource["resource"], resource["responseKind"]["kind"]))
                    found |= {
                        (
                            name,
                            f"{resource['resource']}/{sub['subresource']}",
                            sub["responseKind"]["kind"],
                        )
                        for sub in resource.get("subresources", ())
                    }
    return found


def test_all_kinds_are_listed() -> None:
    kinds = {(kind.api_version, kind.plural, kind.kind) for kind in KINDS}
    assert kinds <= listed()


def test_both_forms_say_the_same() -> None:
    assert listed() == aggregated()


def test_core_comes_first_and_events_before_what_has_the_same_name() -> None:
    groups = [group for group, _ in group_versions()]
    assert groups[:3] == ["", "apps", "events.k8s.io"]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/json"),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        (KUBECTL_ACCEPT, AGGREGATED_V2),
        ("application/json," + AGGREGATED_V2, "application/json"),
        (
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
            "application/json",
        ),
        ("application/vnd.kubernetes.protobuf," + AGGREGATED_V2, AGGREGATED_V2),
    ],
)
def test_the_form_is_the_one_asked_for(accept: str, expected: str) -> None:
    for path in ("/api", "/apis"):
        document = discovery_document(path, accept)
        assert document is not None
        assert document.content_type == expected


@pytest.mark.parametrize("path", ["/apis/nothing", "/api/v2", "/apis/apps/v9", "/other", "/apis/"])
def test_there_is_nothing_elsewhere(path: str) -> None:
    if path == "/apis/":
        assert discovery_document(path) == discovery_document("/apis")
    else:
        assert discovery_document(path) is None


def test_short_names_categories_and_verbs() -> None:
    pods = next(r for r in body("/api/v1")["resources"] if r["name"] == "pods")
    assert pods["shortNames"] == ["po"]
    assert pods["categories"] == ["all"]
    assert {"get", "list", "watch", "patch"} <= set(pods["verbs"])
    eviction = next(r for r in body("/api/v1")["resources"] if r["name"] == "pods/eviction")
    assert (eviction["group"], eviction["version"], eviction["kind"]) == (
        "policy",
        "v1",
        "Eviction",
    )


def test_openapi_tells_kubectl_that_the_server_validates() -> None:
    for entry in openapi("/openapi/v3")["paths"].values():
        document = openapi(entry["serverRelativeURL"].partition("?")[0])
        for operations in document["paths"].values():
            names = {parameter["name"] for parameter in operations["patch"]["parameters"]}
            assert "fieldValidation" in names
            assert (
                "application/strategic-merge-patch+json"
                in (operations["patch"]["requestBody"]["content"])
            )


def test_openapi_knows_every_kind_that_can_be_patched() -> None:
    found = set()
    for root in openapi("/openapi/v3")["paths"]:
        for operations in openapi(f"/openapi/v3/{root}")["paths"].values():
            told = operations["patch"]["x-kubernetes-group-version-kind"]
            found.add((told["group"], told["version"], told["kind"]))
    assert found == {(k.group, k.version, k.kind) for k in KINDS if "patch" in k.verbs}


def test_openapi_elsewhere() -> None:
    assert openapi_document("/openapi/v3/apis/nothing/v1") is None
    protobuf = openapi_document("/openapi/v2")
    assert protobuf is not None
    assert protobuf[1].endswith(b"2.0")
