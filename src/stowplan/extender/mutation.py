"""`/mutate`: annotations that tell CRI Resource Manager which memory a pod of an app should get.

An admission webhook for pods, asked by the API server. The formulas are the WCA scheduler's: an
app's working set becomes the limit of the top tier of memory, and an app whose working set is more
than `dram_threshold` percent of its memory gets DRAM only. What must stay true: whatever goes wrong
here, the pod is admitted; the answer then has no patch, and a counter says why.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from stowplan.errors import ConfigError
from stowplan.extender import background
from stowplan.extender.background import Troubles
from stowplan.extender.cluster_view import APP_LABEL
from stowplan.extender.data import DataProvider, Resource
from stowplan.extender.http_messages import Answer, Request
from stowplan.extender.metrics import Metric

GROUP: Final = "admission.k8s.io"
VERSIONS: Final = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
TOP_TIER: Final = "toptierlimit.cri-resource-manager.intel.com/pod"
MEMORY_TYPE: Final = "cri-resource-manager.intel.com/memory-type"
COLD_START: Final = "cri-resource-manager.intel.com/cold-start"
DRAM: Final = "dram"
DRAM_AND_PMEM: Final = "dram,pmem"

PATCHED: Final = "patched"
UNCHANGED: Final = "unchanged"
OTHER_NAMESPACE: Final = "other_namespace"
NOT_A_POD: Final = "not_a_pod"
NO_APP_LABEL: Final = "no_app_label"
UNKNOWN_APP: Final = "unknown_app"
FAILED: Final = "failed"
_RESULTS: Final = (
    PATCHED, UNCHANGED, OTHER_NAMESPACE, NOT_A_POD, NO_APP_LABEL, UNKNOWN_APP, FAILED,
)  # fmt: skip
#: A quantity has no more digits than that behind the point.
_DIGITS: Final = 9


_encode = msgspec.json.Encoder().encode


class _NothingToDoError(Exception):
    """Carries the result that is counted."""


class Mutator:
    """See the module. `monitored_namespaces`: pods of others are admitted as they are."""

    def __init__(
        self,
        data_provider: DataProvider | None,
        *,
        monitored_namespaces: Iterable[str] = ("default",),
        dram_threshold: float = 100.0,
        cold_start_duration: float | None = None,
        if_toptier_limit: bool = True,
    ) -> None:
        """`cold_start_duration`: seconds that an app with both kinds of memory begins on PMEM."""
        if not 0 <= dram_threshold < math.inf:
            raise ConfigError(f"{dram_threshold:g} is no percentage", where="dram_threshold")
        if cold_start_duration is not None and not 0 <= cold_start_duration < math.inf:
            raise ConfigError(
                f"{cold_start_duration:g} is no number of seconds", where="cold_start_duration"
            )
        self._data_provider = data_provider
        self._namespaces = frozenset(monitored_namespaces)
        self._dram_threshold = dram_threshold
        self._cold_start_duration = cold_start_duration
        self._if_toptier_limit = if_toptier_limit
        self._results = dict.fromkeys(_RESULTS, 0)
        self._troubles = Troubles("annotating pods")

    def handle(self, request: Request) -> Answer:
        """Of the HTTP server; always 200."""
        return Answer(self.answer(bytes(request.body)))

    def measures(self) -> Iterable[Metric]:
        for result, count in self._results.items():
            yield Metric(background.MUTATIONS, count, {"result": result})

    def answer(self, body: bytes) -> bytes:
        """An AdmissionReview for an AdmissionReview, in the same version."""
        version, uid, patch = VERSIONS[0], "", []
        try:
            review = _mapping(msgspec.json.decode(body), "the body")
            asked = _mapping(review.get("request"), "the review's request")
            # First of all, because without it no answer is taken.
            uid = _text(asked, "uid")
            version = _text(review, "apiVersion") or version
            if version not in VERSIONS:
                raise ValueError(f"apiVersion {version!r} is none of {', '.join(VERSIONS)}")
            patch = self._patch(asked)
            result = PATCHED if patch else UNCHANGED
        except _NothingToDoError as nothing:
            result = str(nothing)
        except Exception as error:  # whatever a provider of a user's own may raise
            result = FAILED
            self._troubles.add(f"{type(error).__name__}: {error}")
        self._results[result] += 1
        response: dict[str, Any] = {"uid": uid, "allowed": True}
        if patch:
            response["status"] = {"message": "Patching pod"}
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(_encode(patch)).decode()
        return _encode({"apiVersion": version, "kind": "AdmissionReview", "response": response})

    def _patch(self, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What has to change; _NothingToDoError where nothing can be said about the pod."""
        kind = _mapping(asked.get("kind") or {}, "its kind")
        if _text(asked, "subResource") or _text(kind, "kind") not in ("", "Pod"):
            raise _NothingToDoError(NOT_A_POD)
        if _text(asked, "operation") not in ("", "CREATE", "UPDATE"):
            raise _NothingToDoError(UNCHANGED)
        if _text(asked, "namespace") not in self._namespaces:
            raise _NothingToDoError(OTHER_NAMESPACE)
        pod = _mapping(asked.get("object"), "the pod")
        metadata = _mapping(pod.get("metadata"), "its metadata")
        app = _mapping(metadata.get("labels") or {}, "its labels").get(APP_LABEL)
        if not app or not isinstance(app, str):
            raise _NothingToDoError(NO_APP_LABEL)
        wanted = self.annotations(app)
        if not wanted:
            raise _NothingToDoError(UNKNOWN_APP)
        present = _mapping(metadata.get("annotations") or {}, "its annotations")
        if not present:
            return [{"op": "add", "path": "/metadata/annotations", "value": wanted}]
        return [
            {"op": "add", "path": f"/metadata/annotations/{_escaped(name)}", "value": value}
            for name, value in wanted.items()
            if present.get(name) != value
        ]

    def annotations(self, app: str) -> dict[str, str]:
        """Of a pod of the app; none if nothing is known of it."""
        if self._data_provider is None:
            return {}
        known = self._data_provider.get_apps_requested_resources([Resource.WSS, Resource.MEM])
        needs = known.get(app, {})
        working_set, memory = needs.get(Resource.WSS), needs.get(Resource.MEM)
        annotations: dict[str, str] = {}
        if working_set is None or not 0 <= working_set < math.inf:
            return annotations
        if self._if_toptier_limit:
            annotations[TOP_TIER] = f"{_plain(working_set)}G"
        if memory is not None and 0 <= memory < math.inf:
            memory_type = self._memory_type(working_set, memory)
            annotations[MEMORY_TYPE] = memory_type
            if memory_type == DRAM_AND_PMEM and self._cold_start_duration is not None:
                # The WCA scheduler wrote an object, which no API server takes for an annotation.
                seconds = f"{_plain(self._cold_start_duration)}s"
                annotations[COLD_START] = _encode({"duration": seconds}).decode()
        return annotations

    def _memory_type(self, working_set: float, memory: float) -> str:
        if not memory:
            return DRAM_AND_PMEM
        is_hot = working_set / memory * 100 > self._dram_threshold
        return DRAM if is_hot else DRAM_AND_PMEM


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what}: not an object")
    return value


def _text(mapping: Mapping[str, Any], name: str) -> str:
    value = mapping.get(name) or ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _plain(number: float) -> str:
    """Without an exponent, which quantities spell differently."""
    return f"{number:.{_DIGITS}f}".rstrip("0").rstrip(".")
