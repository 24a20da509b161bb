"""Algorithms that tests of the extender ask kube-scheduler to use."""

from __future__ import annotations

import json
import os
import ssl
import urllib.request
from typing import Any

from stowplan.extender import (
    Algorithm,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
)


class Labels(Algorithm):
    """Does what the pod's labels say: `fail` raises, `only` is the one node that may have it,
    `evict` the one where others may be evicted for it.
    """

    def filter(self, extender_args: ExtenderArgs) -> ExtenderFilterResult:
        labels = extender_args.Pod["metadata"].get("labels", {})
        if "fail" in labels:
            raise LookupError(labels["fail"])
        only = labels.get("only")
        kept = [name for name in extender_args.NodeNames if only in (None, name)]
        others = {name: f"not {only}" for name in extender_args.NodeNames if name not in kept}
        return ExtenderFilterResult(
            NodeNames=kept,
            FailedNodes=others if "soft" in labels else {},
            FailedAndUnresolvableNodes={} if "soft" in labels else others,
        )

    def prioritize(self, extender_args: ExtenderArgs) -> list[HostPriority]:
        best = max(extender_args.NodeNames)
        return [HostPriority(name, 99 * (name == best)) for name in extender_args.NodeNames]

    def preempt(self, extender_args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        only = extender_args.Pod["metadata"].get("labels", {}).get("evict")
        nodes = extender_args.NodeNameToMetaVictims
        return ExtenderPreemptionResult({name: nodes[name] for name in nodes if name == only})


class Binder(Labels):
    """Binds the pods itself, with an annotation to be known by."""

    runs_in_thread = True

    def __init__(self) -> None:
        self._server = os.environ["BINDER_SERVER"]
        self._token = os.environ["BINDER_TOKEN"]
        self._tls = ssl.create_default_context(cafile=os.environ["BINDER_CA"])

    def bind(self, extender_args: ExtenderBindingArgs) -> ExtenderBindingResult:
        if extender_args.PodName.startswith("refused"):
            return ExtenderBindingResult("the binder does not like its name")
        binding: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": extender_args.PodName,
                "uid": extender_args.PodUID,
                "annotations": {"bound-by": "extender"},
            },
            "target": {"kind": "Node", "name": extender_args.Node},
        }
        path = f"/api/v1/namespaces/{extender_args.PodNamespace}/pods/{extender_args.PodName}"
        request = urllib.request.Request(
            f"{self._server}{path}/binding",
            json.dumps(binding).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=self._tls, timeout=10):
            return ExtenderBindingResult()
