"""What extenders are sent of nodes and pods: all of it, as the API server wrote it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.config.types import Extender
from stowplan.scheduler.configured_extender import ConfiguredExtender
from stowplan.scheduler.whole_objects import WholeObjects


def extender(**settings: Any) -> ConfiguredExtender:
    return ConfiguredExtender(Extender(url_prefix="http://x", **settings))


def store(*extenders: ConfiguredExtender) -> WholeObjects:
    return WholeObjects(extenders, lambda pod: pod.spec.scheduler_name == "ours")


def pod_json(uid: str = "u", node: str = "", scheduler: str = "ours") -> bytes:
    return json.dumps(
        {
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "d", "uid": uid, "managedFields": [{"x": 1}]},
            "spec": {"schedulerName": scheduler, "nodeName": node, "dnsPolicy": "Default"},
        }
    ).encode()


def node_json() -> bytes:
    return json.dumps(
        {"metadata": {"name": "n", "uid": "u"}, "status": {"nodeInfo": {"kernelVersion": "6"}}}
    ).encode()


def read_pod(raw: bytes) -> Pod:
    return msgspec.json.decode(raw, type=Pod)


def sent(raw: msgspec.Raw) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(bytes(raw))
    return decoded


def test_fields_that_we_do_not_know_are_sent_and_managed_fields_are_not() -> None:
    whole, raw = store(extender(filter_verb="f")), pod_json()
    whole.saw_pod(read_pod(raw), msgspec.Raw(raw))
    got = sent(whole.pod(read_pod(raw)))
    assert got["spec"]["dnsPolicy"] == "Default"
    assert got["metadata"] == {"name": "p", "namespace": "d", "uid": "u"}
    assert got["kind"] == "Pod"


def test_what_is_not_known_whole_is_sent_as_far_as_it_is_known() -> None:
    raw = pod_json()
    got = sent(store().pod(read_pod(raw)))
    assert got["spec"]["schedulerName"] == "ours"
    assert "dnsPolicy" not in got["spec"]
    node = msgspec.json.decode(node_json(), type=Node)
    assert sent(store().node(node))["metadata"]["name"] == "n"


def test_nodes_are_kept_only_for_who_is_sent_them() -> None:
    node = msgspec.json.decode(node_json(), type=Node)

    def kernel(whole: WholeObjects) -> object:
        whole.saw_node(node, node_json())
        return sent(whole.node(node)).get("status", {}).get("nodeInfo")

    assert kernel(store(extender(filter_verb="f"))) == {"kernelVersion": "6"}
    assert kernel(store(extender(prioritize_verb="p"))) == {"kernelVersion": "6"}
    for other in (
        extender(filter_verb="f", node_cache_capable=True),
        extender(bind_verb="b"),
        extender(preempt_verb="p"),
    ):
        assert kernel(store(other)) != {"kernelVersion": "6"}


def test_bound_pods_are_kept_only_for_who_is_sent_victims() -> None:
    bound = pod_json(node="n", scheduler="theirs")

    def is_whole(whole: WholeObjects) -> bool:
        whole.saw_pod(read_pod(bound), bound)
        return "dnsPolicy" in sent(whole.pod(read_pod(bound)))["spec"]

    assert is_whole(store(extender(preempt_verb="p")))
    assert not is_whole(store(extender(preempt_verb="p", node_cache_capable=True)))
    assert not is_whole(store(extender(filter_verb="f")))


def test_nothing_is_kept_that_is_gone_or_not_ours() -> None:
    whole = store(extender(filter_verb="f"))
    waiting, bound = pod_json(), pod_json(node="n")
    for last in (bound, None):
        whole.saw_pod(read_pod(waiting), waiting)
        whole.saw_pod(read_pod(waiting if last is None else last), last)
        assert "dnsPolicy" not in sent(whole.pod(read_pod(waiting)))["spec"]
    theirs = pod_json("v", scheduler="theirs")
    whole.saw_pod(read_pod(theirs), theirs)
    assert "dnsPolicy" not in sent(whole.pod(read_pod(theirs)))["spec"]
    node = msgspec.json.decode(node_json(), type=Node)
    whole.saw_node(node, node_json())
    whole.saw_node(node, None)
    assert "nodeInfo" not in sent(whole.node(node)).get("status", {})
