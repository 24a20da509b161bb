"""What random questions about devices must have shown of DynamicResources.

Without every hit of MUST a run proves too little.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tests.parity.generate.dice import Json

MUST = [
    "allocated",
    "allocated: a subrequest",
    "allocated: adminAccess",
    "allocated: bindingConditions",
    "allocated: consumedCapacity",
    "allocated: several devices for one request",
    "allocated: shareID",
    "allocated: tolerations",
    "allocated: config FromClaim",
    "allocated: config FromClass",
    "allocated: node selector of labels",
    "allocated: node selector of a name",
    "allocated: no node selector",
    "allocated: extended resources",
    "nothing to allocate",
    "scores tell nodes apart",
    "reason: cannot allocate all claims",
    "reason: invalid resource pools were encountered",
    "reason: resourceclaim not available on the node",
    "reason: request ...: device class ... does not exist",
    "reason: resource claim ..., request ...: unknown request type",
    "reason: could not find ResourceClaim ...",
    "reason: resourceclaim ... is being deleted",
    "reason: ResourceClaim ... was not created for Pod ... (Pod is not owner)",
    "reason: pod ...: ResourceClaim not created yet",
    "error: CEL compile error",
    "error: CEL runtime error",
    "error: currently being updated",
    "error: currently invalid",
    "error: exceeds the claim limit",
    "error: constraint would not be satisfied",
    "error: unsupported ResourceSlice.NodeSelector",
    "postfilter: deallocation of ResourceClaim completed",
    "postfilter: no new claims to deallocate",
    "postfilter: still not schedulable",
]
#: Only histories can show these.
MUST_OF_HISTORIES = ["reason: resource claim ... is in the process of being allocated"]
_ERRORS = [hit.removeprefix("error: ") for hit in MUST if hit.startswith("error: ")]
_NAMES = re.compile(r'"[^"]*"|(?<=, request )[^:]+|(?<=^request )[^:]+|(?<=class )\S+|\b\w+/[\w-]+')


def device_hits(answer: Json) -> Counter[str]:
    """What the oracle's answer shows."""
    return Counter(_hits(answer))


def _hits(answer: Json) -> Iterator[str]:
    if "error" in answer:
        yield from (f"error: {text}" for text in _ERRORS if text in answer["error"])
        return
    verdicts = [answer.get("prefilter") or {}, *(answer.get("nodes") or {}).values()]
    for said in verdicts:
        if said.get("plugin") == "DynamicResources":
            yield from (f"reason: {_NAMES.sub('...', text)}" for text in said.get("reasons", ()))
    scores = [of.get("DynamicResources", 0) for of in (answer.get("scores") or {}).values()]
    if len(set(scores)) > 1:
        yield "scores tell nodes apart"
    devices = answer["devices"]
    if "postfilter" in devices:
        yield from (f"postfilter: {text}" for text in devices["postfilter"].get("reasons", ()))
    for allocated in (devices.get("nodes") or {}).values():
        if not allocated:
            yield "nothing to allocate"
        for one in allocated:
            if one.get("requests"):
                yield "allocated: extended resources"
            yield from (f"allocated{what}" for what in _shown(one.get("allocation") or {}))


def _shown(allocation: Json) -> Iterator[str]:
    yield ""
    results = allocation["devices"].get("results") or []
    for field in (
        *("adminAccess", "bindingConditions", "consumedCapacity", "shareID", "tolerations"),
    ):
        if any(field in result for result in results):
            yield f": {field}"
    names = [result["request"] for result in results]
    if any("/" in name for name in names):
        yield ": a subrequest"
    if len(set(names)) < len(names):
        yield ": several devices for one request"
    for config in allocation["devices"].get("config") or ():
        yield f": config {config['source']}"
    selector = allocation.get("nodeSelector")
    if selector is None:
        yield ": no node selector"
    else:
        by_name = "matchFields" in selector["nodeSelectorTerms"][0]
        yield f": node selector of {'a name' if by_name else 'labels'}"
