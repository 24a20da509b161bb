"""Create, read, update, patch over HTTP: versions, conflicts, names and the Status of refusals."""

from __future__ import annotations

import re

import pytest

from tests.unit.apiserver.serving import MERGE, NODES, PODS, STRATEGIC, Api, node, pod

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


async def test_create_gives_identity(api: Api) -> None:
    created = await api.create(PODS, pod("a"))
    metadata = created["metadata"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["generation"] == 1
    assert (metadata["namespace"], created["kind"], created["apiVersion"]) == (
        "default",
        "Pod",
        "v1",
    )
    assert await api.get(f"{PODS}/a") == created


async def test_a_client_cannot_choose_what_belongs_to_the_server(api: Api) -> None:
    sent = pod("a", {"uid": "mine", "generation": 9, "creationTimestamp": "2001-01-01T00:00:00Z"})
    sent["status"] = {"phase": "Running", "podIP": "1.2.3.4"}
    created = await api.create(PODS, sent)
    assert created["metadata"]["uid"] != "mine"
    assert created["metadata"]["generation"] == 1
    assert not created["metadata"]["creationTimestamp"].startswith("2001")
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_versions_rise_over_all_kinds(api: Api) -> None:
    first = await api.create(PODS, pod("a"))
    second = await api.create(NODES, node())
    third = await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    versions = [int(each["metadata"]["resourceVersion"]) for each in (first, second, third)]
    assert versions == sorted(set(versions))
    assert (await api.get(PODS))["metadata"]["resourceVersion"] == str(versions[-1])


async def test_the_same_name_twice(api: Api) -> None:
    await api.create(PODS, pod("a"))
    answer = await api.request("POST", PODS, pod("a"))
    assert answer.status == 409
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "a" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "a", "kind": "pods"},
        "code": 409,
    }


async def test_what_is_not_there_in_a_named_group(api: Api) -> None:
    answer = await api.request("GET", f"{LEASES}/l")
    assert answer.status == 404
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'leases.coordination.k8s.io "l" not found',
        "reason": "NotFound",
        "details": {"name": "l", "group": "coordination.k8s.io", "kind": "leases"},
        "code": 404,
    }


async def test_generated_names_use_kubernetes_alphabet_and_differ(api: Api) -> None:
    body = {**pod(), "metadata": {"generateName": "web-"}}
    names = {(await api.create(PODS, body))["metadata"]["name"] for _ in range(10)}
    assert len(names) == 10
    for name in names:
        assert re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{5}", name)


async def test_update_needs_the_latest_version(api: Api) -> None:
    created = await api.create(PODS, pod("a"))
    await api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
    answer = await api.request("PUT", f"{PODS}/a", created)
    assert answer.status == 409
    assert answer.reason == "Conflict"
    assert answer.message == (
        'Operation cannot be fulfilled on pods "a": the object has been modified; please apply'
        " your changes to the latest version and try again"
    )


async def test_update_replaces_and_keeps_identity(api: Api) -> None:
    created = await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    sent = {"metadata": {"name": "c", "labels": {"x": "y"}}, "data": {"b": "2"}}
    answer = await api.request("PUT", f"{CONFIG_MAPS}/c", sent)
    assert answer.status == 200
    assert answer.body["data"] == {"b": "2"}
    assert answer.body["metadata"]["uid"] == created["metadata"]["uid"]
    assert int(answer.body["metadata"]["resourceVersion"]) > int(
        created["metadata"]["resourceVersion"]
    )


async def test_a_write_that_changes_nothing_keeps_the_version(api: Api) -> None:
    created = await api.create(PODS, pod("a"))
    assert (await api.request("PUT", f"{PODS}/a", created)).body == created
    assert await api.patch(f"{PODS}/a", {}) == created
    assert await api.patch(f"{PODS}/a", {}, STRATEGIC) == created


async def test_the_status_subresource_touches_status_only(api: Api) -> None:
    created = await api.create(PODS, pod("a"))
    sent = {**created, "status": {"phase": "Running"}}
    sent["spec"] = {**created["spec"], "nodeName": "n1", "schedulerName": "x"}
    answer = await api.request("PUT", f"{PODS}/a/status", sent)
    assert answer.status == 200
    assert answer.body["spec"] == created["spec"]
    assert answer.body["status"]["phase"] == "Running"
    assert answer.body["metadata"]["generation"] == 1


async def test_the_main_resource_leaves_status_alone(api: Api) -> None:
    created = await api.create(NODES, node())
    patched = await api.patch(f"{NODES}/n1", {"status": {"capacity": {"cpu": "9"}}})
    assert patched["status"] == created["status"]


async def test_generation_counts_spec_changes(api: Api) -> None:
    await api.create(PODS, pod("a"))
    labelled = await api.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
    assert labelled["metadata"]["generation"] == 1
    deadline = await api.patch(f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 5}})
    assert deadline["metadata"]["generation"] == 2
    status = await api.patch(f"{PODS}/a/status", {"status": {"message": "m"}})
    assert status["metadata"]["generation"] == 2


async def test_put_creates_where_kubernetes_lets_it(api: Api) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    assert (await api.request("PUT", f"{LEASES}/l", body)).status == 201
    assert (await api.request("PUT", f"{PODS}/a", pod("a"))).status == 404


async def test_a_lease_update_must_name_its_version(api: Api) -> None:
    created = await api.create(LEASES, {"metadata": {"name": "l"}})
    answer = await api.request("PUT", f"{LEASES}/l", {"metadata": {"name": "l"}})
    assert answer.status == 422
    assert "metadata.resourceVersion" in answer.message
    created["spec"] = {"holderIdentity": "me"}
    assert (await api.request("PUT", f"{LEASES}/l", created)).status == 200


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"name": "b"}, "the name of the object (b) does not match the name on the URL (a)"),
        (
            {"name": "a", "namespace": "kube-system"},
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
async def test_the_object_must_be_the_one_in_the_url(
    api: Api, metadata: dict[str, str], message: str
) -> None:
    await api.create(PODS, pod("a"))
    answer = await api.request("PUT", f"{PODS}/a", {**pod(), "metadata": metadata})
    assert (answer.status, answer.message) == (400, message)


async def test_a_patch_with_an_old_version_conflicts(api: Api) -> None:
    await api.create(PODS, pod("a"))
    body = {"metadata": {"resourceVersion": "1", "labels": {"x": "y"}}}
    answer = await api.request("PATCH", f"{PODS}/a", body, content_type=MERGE)
    assert (answer.status, answer.reason) == (409, "Conflict")


async def test_yaml_in_and_out(api: Api) -> None:
    body = b"metadata: {name: c}\ndata:\n  when: 2026-01-02\n  on: 'yes'\n  2: two\n"
    answer = await api.request("POST", CONFIG_MAPS, raw=body, content_type="application/yaml")
    assert answer.status == 201, answer.raw
    # A date is not a date in Kubernetes' YAML, and keys are strings whatever they look like.
    assert answer.body["data"] == {"when": "2026-01-02", "true": "yes", "2": "two"}
    text = (await api.request("GET", f"{CONFIG_MAPS}/c", accept="application/yaml")).raw
    assert b"apiVersion: v1\n" in text
    assert b"when: '2026-01-02'" in text


@pytest.mark.parametrize(
    "body",
    [b"{", b"", b"[]", b"a: b: c", b"? [a]\n: b", b"x: !!binary aGk=", b"!!python/object:a.b {}"],
)
async def test_junk_bodies_are_bad_requests(api: Api, body: bytes) -> None:
    for content_type in ("application/json", "application/yaml"):
        answer = await api.request("POST", PODS, raw=body, content_type=content_type)
        assert (answer.status, answer.reason) == (400, "BadRequest"), answer.raw
        assert "the object provided is unrecognized (must be of type Pod): " in answer.message


async def test_dry_run_of_create_and_patch_stores_nothing(api: Api) -> None:
    answer = await api.request("POST", f"{PODS}?dryRun=All", pod("a"))
    assert answer.status == 201
    assert answer.body["spec"]["schedulerName"] == "default-scheduler"
    assert "resourceVersion" not in answer.body["metadata"]
    assert (await api.request("GET", f"{PODS}/a")).status == 404
    created = await api.create(PODS, pod("a"))
    patch = {"metadata": {"labels": {"x": "y"}}}
    answer = await api.request("PATCH", f"{PODS}/a?dryRun=All", patch, content_type=MERGE)
    assert answer.body["metadata"]["labels"] == {"x": "y"}
    assert await api.get(f"{PODS}/a") == created


async def test_events_are_one_in_both_groups(api: Api) -> None:
    core, new = (
        "/api/v1/namespaces/default/events",
        "/apis/events.k8s.io/v1/namespaces/default/events",
    )
    reference = {"kind": "Pod", "namespace": "default", "name": "a"}
    body = {
        "metadata": {"name": "e"},
        "regarding": reference,
        "note": "hello",
        "reason": "Scheduled",
        "type": "Normal",
        "action": "Binding",
        "eventTime": "2026-01-02T03:04:05.000001Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-x",
    }
    created = await api.create(new, body)
    seen = await api.get(f"{core}/e")
    assert seen["involvedObject"] == reference
    assert seen["message"] == "hello"
    assert seen["reportingComponent"] == "default-scheduler"
    assert seen["metadata"] == created["metadata"]
    await api.patch(f"{core}/e", {"message": "changed"})
    assert (await api.get(f"{new}/e"))["note"] == "changed"
    listed = await api.get(f"{new}?fieldSelector=regarding.name=a,reason=Scheduled")
    assert [item["note"] for item in listed["items"]] == ["changed"]


async def test_self_subject_access_reviews_always_say_yes(api: Api) -> None:
    answer = await api.create(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}},
    )
    assert answer["status"] == {"allowed": True}
