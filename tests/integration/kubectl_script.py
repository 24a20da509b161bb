"""The commands of the kubectl transcripts, in their order. Both servers are given all of them.

A step is a kubectl command line, with what it reads from its standard input. A watch step is
started first, sees the steps in `during` happen, and is ended when its output has a line for each
text in `until`. State is made with kubectl too (`--raw`, `--subresource=status`), because there is
no scheduler, kubelet or controller on either side.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.integration.kubectl_manifests import (
    NODES,
    RUNNING,
    UNSCHEDULABLE,
    binding,
    event,
    events_v1,
    manifest,
    pod,
)

NAMESPACE = "transcripts"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(frozen=True)
class Step:
    command: str
    given: str | None = None
    during: tuple[Step, ...] = ()
    until: tuple[str, ...] = ()


def step(command: str, given: str | None = None) -> Step:
    return Step(command, given)


NAMESPACES = (
    step(f"create namespace {NAMESPACE}"),
    step(f"create namespace {NAMESPACE}"),
    step(f"get namespace {NAMESPACE}"),
    step(f"get namespace {NAMESPACE} -o yaml"),
    step("create namespace Bad_Name"),
    step("get namespaces default kube-system"),
    step("get ns nope"),
)

NODE_STEPS = (
    step("create -f -", NODES),
    step("get nodes -l suite=transcripts"),
    step("get nodes -l suite=transcripts -o wide"),
    step("get nodes -l suite=transcripts -o name"),
    step("get node transcript-a -o yaml"),
    step("get no/transcript-a no/nope"),
    step("cordon transcript-a"),
    step("cordon transcript-a"),
    step("get node transcript-a"),
    step("get node transcript-a -o jsonpath={.spec}"),
    step("uncordon transcript-a"),
    step("uncordon transcript-a"),
    step("uncordon transcript-b"),
    step("cordon nope"),
    step("taint nodes transcript-a dedicated=gpu:NoSchedule"),
    step("taint nodes transcript-a dedicated=gpu:NoSchedule"),
    step("taint nodes transcript-a dedicated=cpu:NoSchedule"),
    step("taint nodes transcript-a dedicated=cpu:NoSchedule --overwrite"),
    step("taint nodes transcript-a other:NoExecute"),
    step("get node transcript-a -o jsonpath={.spec.taints}"),
    step("taint nodes transcript-a dedicated:NoSchedule-"),
    step("taint nodes transcript-a dedicated:NoSchedule-"),
    step("taint nodes transcript-a other-"),
    step("taint nodes transcript-a nonsense"),
    step("taint nodes nope a=b:NoSchedule"),
    step("label node transcript-a disk=ssd"),
    step("label node transcript-a disk=ssd"),
    step("label node transcript-a disk=hdd"),
    step("label node transcript-a disk=hdd --overwrite"),
    step("label node transcript-a disk-"),
    step("label node transcript-a disk-"),
    step("label node transcript-a bad=/value/"),
    step("label node nope a=b"),
    step("annotate node transcript-a note=hello"),
    step("annotate node transcript-a note-"),
    step("describe node transcript-a"),
    step("describe node nope"),
)

POD_STEPS = (
    step("get pods"),
    step("create -f -", pod("pending", labels={"app": "web"})),
    step("create -f -", pod("pending")),
    step("create -f -", pod("Bad_Name")),
    step("create -f -", pod("empty", containers=[])),
    step("create -f -", pod("noimage", containers=[{"name": "a"}])),
    step("create -f -", pod("vip", priorityClassName="nope")),
    step("create -f - --namespace nope", pod("lost")),
    step("create -f -", pod("elsewhere", metadata={"namespace": "default"})),
    step("create -f -", pod("badlabel", labels={"a": "not valid!"})),
    step("create -f -", "kind: Pod\napiVersion: v1\nmetadata: {name: x"),
    step("create -f -", manifest("Nonsense", "x")),
    step("create -f -", manifest("Pod", "x", api="v9")),
    step("create -f -", pod("typo", nodeNmae="transcript-a")),
    step("create -f - --validate=warn", pod("typo", nodeNmae="transcript-a")),
    step("create -f -", pod("wrongtype", nodeName=7)),
    step("create -f -", pod("badquantity", overhead={"cpu": "lots"})),
    step("create -f - --dry-run=server", pod("dry")),
    step("get pod dry"),
    step("run runner --image=registry.example/pause:1"),
    step("get pods"),
    step("get pods -o wide"),
    step("get pods -o name"),
    step("get pods --show-labels"),
    step("get pods -L app"),
    step("get pods -l app=web"),
    step("get pods -l app!=web"),
    step("get pods -l app=nothing"),
    step("get pods -l ((("),
    step("get pods --field-selector status.phase=Pending,metadata.name=pending"),
    step("get pods --field-selector spec.nodeName=transcript-a"),
    step("get pods --field-selector spec.color=red"),
    step("get pods --sort-by=.metadata.name"),
    step("get pods --no-headers"),
    step("get pods --chunk-size=1"),
    step("get pods -A --field-selector metadata.namespace=transcripts"),
    step("get pods -o custom-columns=NAME:.metadata.name,QOS:.status.qosClass"),
    step("get pods -o jsonpath={.items[*].metadata.name}"),
    step("get pod pending -o yaml"),
    step("get pod pending -o json"),
    step("get pod pending nope"),
    step("get pod,node pending"),
    step("get nonsense"),
    step("get pods/pending/status"),
    step("get pod pending --subresource=status"),
    step(f"get --raw {PODS_PATH}/pending/status"),
    step("get --raw /api/v1/nonsense"),
    step("get --raw /readyz"),
)

SCHEDULING_STEPS = (
    step("patch pod pending --subresource=status --type=strategic -p", UNSCHEDULABLE),
    step(
        "create -f -",
        event(
            "pending.1",
            "pending",
            "Warning",
            "FailedScheduling",
            "0/2 nodes are available: 2 Insufficient cpu.",
        ),
    ),
    step("describe pod pending"),
    step("create -f -", events_v1("pending.2", "pending")),
    step("events"),
    step("events --for pod/pending"),
    step("events --types=Normal"),
    step("get events"),
    step("get events -o wide"),
    step("get events.v1.events.k8s.io"),
    step("get event pending.2 -o yaml"),
    step("get events.v1.events.k8s.io pending.1 -o yaml"),
    step("create -f -", pod("bound", labels={"app": "web"})),
    step(f"create --raw {PODS_PATH}/bound/binding -f -", binding("bound", "transcript-a")),
    step(f"create --raw {PODS_PATH}/bound/binding -f -", binding("bound", "transcript-b")),
    step(f"create --raw {PODS_PATH}/nope/binding -f -", binding("nope", "transcript-b")),
    step(
        "create -f -",
        event(
            "bound.1",
            "bound",
            "Normal",
            "Scheduled",
            "Successfully assigned transcripts/bound to transcript-a",
        ),
    ),
    step("get pod bound -o wide"),
    step("describe pod bound"),
    step("get pod bound -o jsonpath={.status.conditions[0].type}={.status.conditions[0].status}"),
    step("patch pod bound --subresource=status --type=strategic -p", RUNNING),
    step("get pod bound -o wide"),
    step("get pod bound -o yaml"),
    step("describe pod bound"),
    step("describe node transcript-a"),
    step("describe pod nope"),
    step("describe pods -l app=web"),
    step("create -f -", pod("gated", schedulingGates=[{"name": "example.com/wait"}])),
    step("get pod gated"),
    step("get pod gated -o jsonpath={.status.conditions}"),
    step(
        "patch pod gated --type=json -p",
        json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}]),
    ),
    step("get pod gated"),
    step("get pod gated -o jsonpath={.spec.schedulingGates}"),
)

WAIT_STEPS = (
    step("wait --for=condition=Ready pod/bound --timeout=20s"),
    step("wait --for=condition=PodScheduled pod/bound pod/bound"),
    step("wait --for=condition=PodScheduled=False pod/pending"),
    step("wait --for=jsonpath={.status.phase}=Running pod/bound"),
    step("wait --for=jsonpath={.spec.nodeName} pod/bound"),
    step("wait --for=condition=Ready pod/pending --timeout=2s"),
    step("wait --for=condition=Ready pod/nope"),
    step("wait --for=delete pod/nope"),
    step("wait --for=create pod/pending --timeout=5s"),
    step("wait --for=condition=Ready node -l suite=transcripts"),
    Step(
        "wait --for=condition=Ready pod/runner --timeout=30s",
        during=(step("patch pod runner --subresource=status --type=strategic -p", RUNNING),),
        until=("condition met",),
    ),
)

PATCH_STEPS = (
    step("label pod pending tier=front"),
    step("label pods --all checked=yes"),
    step("label pods -l app=web checked-"),
    step("annotate pod pending note=one"),
    step("annotate pod pending note=two"),
    step("annotate pod pending note=two --overwrite"),
    step("patch pod pending --type=merge -p", '{"metadata":{"labels":{"tier":null,"x":"y"}}}'),
    step("patch pod pending --type=merge -p", '{"metadata":{"labels":{"x":"y"}}}'),
    step("patch pod pending --type=merge -p", '{"metadata":{"resourceVersion":"1"}}'),
    step("patch pod pending --type=merge -p", "[]"),
    step("patch pod pending --type=merge -p", "{nonsense"),
    step("patch pod nope --type=merge -p", "{}"),
    step(
        "patch pod pending -p",
        '{"spec":{"containers":[{"name":"main","image":"registry.example/pause:2"}]}}',
    ),
    step(
        "patch pod pending -p",
        '{"spec":{"tolerations":[{"key":"gpu","operator":"Exists","effect":"NoSchedule"}]}}',
    ),
    step("patch pod pending -p", '{"spec":{"containers":[{"image":"x"}]}}'),
    step("patch pod pending -p", '{"spec":{"nodeName":"transcript-a"}}'),
    step("patch pod pending -p", '{"metadata":{"labels":{"$patch":"replace","app":"web"}}}'),
    step("patch pod pending -p", '{"metadata":{"finalizers":["example.com/a"]}}'),
    step("patch pod pending -p", '{"metadata":{"finalizers":["example.com/b"]}}'),
    step("get pod pending -o jsonpath={.metadata.finalizers}"),
    step(
        "patch pod pending -p",
        '{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/a","example.com/b"]}}',
    ),
    step("get pod pending -o yaml"),
    step(
        "patch pod pending --type=json -p",
        '[{"op":"test","path":"/metadata/labels/app","value":"web"},'
        '{"op":"replace","path":"/metadata/labels/app","value":"api"},'
        '{"op":"add","path":"/metadata/labels/example.com~1new","value":"1"}]',
    ),
    step("patch pod pending --type=json -p", '[{"op":"test","path":"/kind","value":"Node"}]'),
    step("patch pod pending --type=json -p", '[{"op":"remove","path":"/nothing"}]'),
    step("patch pod pending --type=json -p", '{"op":"remove"}'),
    step("get pod pending --show-labels"),
    step("patch node transcript-a -p", '{"spec":{"unschedulable":true}}'),
    step("patch node transcript-a -p", '{"spec":{"unschedulable":null}}'),
    step("get node transcript-a -o jsonpath={.spec}"),
    step("replace -f -", pod("pending", metadata={"resourceVersion": "1"})),
    step("replace -f -", pod("nope")),
)
