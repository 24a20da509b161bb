"""/mutate: annotations by hand-made numbers, both versions of reviews, and all that goes wrong."""

from __future__ import annotations

import base64
import copy
import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.json_patch import apply_json_patch
from stowplan.errors import ConfigError
from stowplan.extender import mutation
from stowplan.extender.data import AppName, Resource, Resources
from stowplan.extender.mutation import COLD_START, MEMORY_TYPE, TOP_TIER, Mutator
from stowplan.http.messages import Request, Response
from stowplan.http.parser import Headers, RequestHead
from tests.unit.extender.memory_provider import MemoryProvider

APPS = {
    "hot": {"wss": 4.0, "mem": 4.0},  # 100 %, which is not more than 100
    "cold": {"wss": 2.0, "mem": 4.0},
    "odd": {"wss": 5.0, "mem": 4.0},  # 125 %
    "tiny": {"wss": 0.0000125, "mem": 0.25},
    "empty": {"wss": 2.5, "mem": 0.0},
    "no-wss": {"mem": 4.0},
    "no-mem": {"wss": 2.0},
    "negative": {"wss": -1.0, "mem": 4.0},
}


def review(pod: Any, *, version: str = "admission.k8s.io/v1", **request: Any) -> bytes:
    asked = {
        "uid": "u1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "default",
        "operation": "CREATE",
        "object": pod,
        **request,
    }
    return json.dumps({"apiVersion": version, "kind": "AdmissionReview", "request": asked}).encode()


def pod_of(app: str, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "a", "labels": {"app": app}}
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}


def counted(mutator: Mutator) -> dict[str, float]:
    return {m.labels["result"]: m.value for m in mutator.measures() if m.value}


def answered(mutator: Mutator, body: bytes) -> dict[str, Any]:
    """The response of a well-formed answer that admits the pod."""
    answer = json.loads(mutator.answer(body))
    assert answer["kind"] == "AdmissionReview"
    response: dict[str, Any] = answer["response"]
    assert response["allowed"] is True
    assert ("patch" in response) == ("patchType" in response)
    return response


def mutated(mutator: Mutator, pod: dict[str, Any], **request: Any) -> dict[str, Any]:
    """The pod as an API server has it after the patch."""
    response = answered(mutator, review(pod, **request))
    if "patch" not in response:
        return pod
    assert response["patchType"] == "JSONPatch"
    assert response["status"] == {"message": "Patching pod"}
    operations = json.loads(base64.b64decode(response["patch"]))
    result: dict[str, Any] = apply_json_patch(copy.deepcopy(pod), operations)
    return result


@pytest.mark.parametrize(
    ("app", "annotations"),
    [
        ("hot", {TOP_TIER: "4G", MEMORY_TYPE: "dram,pmem"}),
        ("cold", {TOP_TIER: "2G", MEMORY_TYPE: "dram,pmem"}),
        ("odd", {TOP_TIER: "5G", MEMORY_TYPE: "dram"}),
        ("tiny", {TOP_TIER: "0.0000125G", MEMORY_TYPE: "dram,pmem"}),
        ("empty", {TOP_TIER: "2.5G", MEMORY_TYPE: "dram,pmem"}),
        ("no-mem", {TOP_TIER: "2G"}),
    ],
)
def test_annotations(app: str, annotations: dict[str, str]) -> None:
    mutator = Mutator(MemoryProvider(apps=APPS))
    pod = pod_of(app)
    expected = pod_of(app, annotations)
    assert mutated(mutator, pod) == expected
    assert counted(mutator) == {"patched": 1}


def test_names_are_those_that_cri_resource_manager_reads() -> None:
    assert TOP_TIER == "toptierlimit.cri-resource-manager.intel.com/pod"
    assert MEMORY_TYPE == "cri-resource-manager.intel.com/memory-type"
    assert COLD_START == "cri-resource-manager.intel.com/cold-start"


def test_the_threshold_is_a_percentage_of_memory() -> None:
    provider = MemoryProvider(apps=APPS)  # cold: 50 %
    for threshold, memory_type in ((50.0, "dram,pmem"), (49.9, "dram"), (0.0, "dram")):
        mutator = Mutator(provider, dram_threshold=threshold)
        assert mutator.annotations("cold")[MEMORY_TYPE] == memory_type


def test_options() -> None:
    provider = MemoryProvider(apps=APPS)
    assert Mutator(provider, if_toptier_limit=False).annotations("odd") == {MEMORY_TYPE: "dram"}
    slow = Mutator(provider, cold_start_duration=60)
    assert slow.annotations("cold")[COLD_START] == '{"duration":"60s"}'
    assert COLD_START not in slow.annotations("odd"), "it has no persistent memory to begin on"
    with pytest.raises(ConfigError, match="dram_threshold: -1 is not a percentage"):
        Mutator(provider, dram_threshold=-1)
    with pytest.raises(ConfigError, match="cold_start_duration: -1 is not a number of seconds"):
        Mutator(provider, cold_start_duration=-1)


def test_annotations_that_are_there_stay() -> None:
    mutator = Mutator(MemoryProvider(apps=APPS))
    before = {"note": "mine", "a/b~c": "d", MEMORY_TYPE: "hbm"}
    after = {"note": "mine", "a/b~c": "d", MEMORY_TYPE: "dram", TOP_TIER: "5G"}
    assert mutated(mutator, pod_of("odd", before)) == pod_of("odd", after)
    assert mutated(mutator, pod_of("odd", after), operation="UPDATE") == pod_of("odd", after)
    assert counted(mutator) == {"patched": 1, "unchanged": 1}
    assert mutated(mutator, pod_of("odd", {}))["metadata"]["annotations"][TOP_TIER] == "5G"


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_the_answer_has_the_version_and_uid_of_the_question(version: str) -> None:
    mutator = Mutator(MemoryProvider(apps=APPS))
    answer = json.loads(mutator.answer(review(pod_of("odd"), version=version)))
    assert answer["apiVersion"] == version
    assert answer["response"]["uid"] == "u1"
    assert "patch" in answer["response"]


@pytest.mark.parametrize(
    ("result", "pod", "request_"),
    [
        (mutation.OTHER_NAMESPACE, pod_of("odd"), {"namespace": "kube-system"}),
        (mutation.NOT_A_POD, pod_of("odd"), {"kind": {"kind": "Node"}}),
        (mutation.NOT_A_POD, pod_of("odd"), {"subResource": "status"}),
        (mutation.UNCHANGED, None, {"operation": "DELETE"}),
        (mutation.NO_APP_LABEL, {"metadata": {}}, {}),
        (mutation.NO_APP_LABEL, {"metadata": {"labels": None}}, {}),
        (mutation.NO_APP_LABEL, {"metadata": {"labels": {"app": ""}}}, {}),
        (mutation.NO_APP_LABEL, {"metadata": {"labels": {"app": 7}}}, {}),
        (mutation.UNKNOWN_APP, pod_of("stranger"), {}),
        (mutation.UNKNOWN_APP, pod_of("no-wss"), {}),
        (mutation.UNKNOWN_APP, pod_of("negative"), {}),
        (mutation.FAILED, None, {}),
        (mutation.FAILED, {}, {}),
        (mutation.FAILED, {"metadata": []}, {}),
        (mutation.FAILED, {"metadata": {"labels": ["app"]}}, {}),
        (mutation.FAILED, {"metadata": {"labels": {"app": "odd"}, "annotations": "x"}}, {}),
        (mutation.FAILED, pod_of("odd"), {"namespace": 7}),
        (mutation.FAILED, pod_of("odd"), {"kind": "Pod"}),
    ],
)
def test_what_cannot_be_annotated_is_admitted_as_it_is(
    result: str, pod: Any, request_: dict[str, Any]
) -> None:
    mutator = Mutator(MemoryProvider(apps=APPS))
    response = answered(mutator, review(pod, **request_))
    assert response == {"uid": "u1", "allowed": True}
    assert counted(mutator) == {result: 1}


def test_namespaces_of_the_configuration_count() -> None:
    mutator = Mutator(MemoryProvider(apps=APPS), monitored_namespaces=["shop"])
    assert "patch" in answered(mutator, review(pod_of("odd"), namespace="shop"))
    assert "patch" not in answered(mutator, review(pod_of("odd"), namespace="default"))


class Broken(MemoryProvider):
    def get_apps_requested_resources(
        self, resources: Iterable[Resource]
    ) -> dict[AppName, Resources]:
        raise ZeroDivisionError("no numbers today")


@pytest.mark.parametrize("provider", [Broken(), None])
def test_a_provider_that_fails_or_is_not_there_blocks_no_pod(
    provider: MemoryProvider | None, caplog: pytest.LogCaptureFixture
) -> None:
    mutator = Mutator(provider)
    for _ in range(3):
        assert answered(mutator, review(pod_of("odd"))) == {"uid": "u1", "allowed": True}
    assert counted(mutator) == {"unknown_app" if provider is None else "failed": 3}
    assert len(caplog.records) == (provider is not None), "once a minute"


JUNK = [
    b"", b"{", b"null", b"[]", b"7", b'"x"', b"\xff", b"{}", b'{"request":null}', b'{"request":[]}',
    b'{"request":{"uid":7}}', b'{"apiVersion":7,"request":{}}', b"[" * 100_000,
    b'{"request":' * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("body", JUNK)
def test_junk_is_admitted(body: bytes) -> None:
    mutator = Mutator(MemoryProvider(apps=APPS))
    assert "patch" not in answered(mutator, body)
    assert sum(counted(mutator).values()) == 1


def test_a_version_of_the_future_is_admitted() -> None:
    mutator = Mutator(MemoryProvider(apps=APPS))
    response = answered(mutator, review(pod_of("odd"), version="admission.k8s.io/v7"))
    assert response == {"uid": "u1", "allowed": True}
    assert counted(mutator) == {"failed": 1}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "uid": ANYTHING,
            "namespace": st.just("default") | ANYTHING,
            "operation": st.just("CREATE") | ANYTHING,
            "kind": ANYTHING,
            "object": st.fixed_dictionaries(
                {
                    "metadata": st.fixed_dictionaries(
                        {"labels": st.just({"app": "odd"}) | ANYTHING, "annotations": ANYTHING}
                    )
                }
            )
            | ANYTHING,
        },
    )
)
def test_whatever_is_asked_the_answer_admits_the_pod(asked: dict[str, Any]) -> None:
    mutator = Mutator(MemoryProvider(apps=APPS))
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "request": asked}).encode()
    response = answered(mutator, body)
    if isinstance(asked.get("uid"), str):
        assert response["uid"] == asked["uid"]
    if "patch" in response:
        operations = json.loads(base64.b64decode(response["patch"]))
        patched: dict[str, Any] = apply_json_patch(asked["object"], operations)
        assert patched["metadata"]["annotations"][TOP_TIER] == "5G"


def posted(body: bytes) -> Request:
    head = RequestHead("POST", "/mutate", "", Headers(), len(body), keeps_alive=True)
    return Request(head, bytearray(body))


def test_the_handler_answers_200() -> None:
    answer = Mutator(None).handle(posted(b"junk"))
    assert isinstance(answer, Response)
    assert answer.status == 200
    assert answer.content_type == "application/json"
    assert json.loads(answer.body)["response"]["allowed"] is True


class Slow(MemoryProvider):
    def __init__(self) -> None:
        super().__init__(apps=APPS)
        self.may_go_on = threading.Event()

    def get_apps_requested_resources(
        self, resources: Iterable[Resource]
    ) -> dict[AppName, Resources]:
        assert self.may_go_on.wait(30)
        return super().get_apps_requested_resources(resources)


async def test_no_pod_waits_long_for_a_slow_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "_PATIENCE_S", 0.1)
    provider = Slow()
    mutator = Mutator(provider, in_thread=True)

    async def response() -> dict[str, Any]:
        coming = mutator.handle(posted(review(pod_of("odd"))))
        assert not isinstance(coming, Response)
        content: dict[str, Any] = json.loads((await coming).body)["response"]
        return content

    assert await response() == {"uid": "u1", "allowed": True}
    assert counted(mutator) == {"failed": 1}
    provider.may_go_on.set()
    while "patch" not in await response():
        pass
    coming = mutator.handle(posted(b"junk"))
    assert not isinstance(coming, Response)
    assert json.loads((await coming).body)["response"]["allowed"] is True
