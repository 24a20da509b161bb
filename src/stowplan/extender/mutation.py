"""`/mutate`: annotate pods with the memory tier that CRI Resource Manager should give them.

An admission webhook for pods, called by the API server. The formulas are the WCA scheduler's: an
app's working set becomes the limit of the top tier of memory, and an app whose working set is more
than `dram_threshold` percent of its memory gets DRAM only. Invariant: the pod is admitted even
after an error; the response then has no patch, and a counter records the reason.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from stowplan.errors import ConfigError
from stowplan.extender import background
from stowplan.extender.background import Troubles
from stowplan.extender.cluster_view import APP_LABEL
from stowplan.extender.data import DataProvider, Resource
from stowplan.extender.metrics import Metric
from stowplan.extender.threads import Threads
from stowplan.http.messages import Request, Response
from stowplan.loader.json_text import load_json

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
#: API servers wait for 10 s unless told otherwise; deploy/extender says 2.
_PATIENCE_S: Final = 1.5
#: A quantity has no more digits than that behind the point.
_DIGITS: Final = 9


_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Review:
    """What was asked; `result` says what became of it, once that is known."""

    version: str = VERSIONS[0]
    uid: str = ""
    app: str = ""
    present: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""


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
        in_thread: bool = False,
    ) -> None:
        """`cold_start_duration`: seconds that an app with both kinds of memory begins on PMEM.
        `in_thread`: for a provider that waits for something; a pod does not wait long for it."""
        if not 0 <= dram_threshold < math.inf:
            raise ConfigError(f"{dram_threshold:g} is not a percentage", where="dram_threshold")
        if cold_start_duration is not None and not 0 <= cold_start_duration < math.inf:
            raise ConfigError(
                f"{cold_start_duration:g} is not a number of seconds", where="cold_start_duration"
            )
        self._data_provider = data_provider
        self._namespaces = frozenset(monitored_namespaces)
        self._dram_threshold = dram_threshold
        self._cold_start_duration = cold_start_duration
        self._if_toptier_limit = if_toptier_limit
        self._threads = Threads(_PATIENCE_S) if in_thread else None
        self._results = dict.fromkeys(_RESULTS, 0)
        self._troubles = Troubles("annotating pods")

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Of the HTTP server; always 200."""
        body = bytes(request.body)
        return Response(self.answer(body)) if self._threads is None else self._answer_slowly(body)

    def measures(self) -> Iterable[Metric]:
        for result, count in self._results.items():
            yield Metric(background.MUTATIONS, count, {"result": result})

    def answer(self, body: bytes) -> bytes:
        """An AdmissionReview for an AdmissionReview, in the same version."""
        review, wanted = self._read(body), {}
        if not review.result:
            try:
                wanted = self.annotations(review.app)
            except Exception as error:  # whatever a provider of a user's own may raise
                self._fail(review, error)
        return self._write(review, wanted)

    async def _answer_slowly(self, body: bytes) -> Response:
        assert self._threads is not None
        review, wanted = self._read(body), {}
        if not review.result:
            try:
                wanted = await self._threads.run(lambda: self.annotations(review.app))
            except Exception as error:
                self._fail(review, error)
        return Response(self._write(review, wanted))

    def _read(self, body: bytes) -> _Review:
        review = _Review()
        try:
            content = _mapping(load_json(body), "the body")
            asked = _mapping(content.get("request"), "the review's request")
            # First of all, because without it no answer is taken.
            review.uid = _text(asked, "uid")
            review.version = _text(content, "apiVersion") or review.version
            if review.version not in VERSIONS:
                raise ValueError(f"apiVersion {review.version!r} is none of {', '.join(VERSIONS)}")
            review.result = self._look_at(asked, review)
        except Exception as error:
            self._fail(review, error)
        return review

    def _look_at(self, asked: Mapping[str, Any], review: _Review) -> str:
        """The result, where nothing can be said about the pod."""
        kind = _mapping(asked.get("kind") or {}, "its kind")
        if _text(asked, "subResource") or _text(kind, "kind") not in ("", "Pod"):
            return NOT_A_POD
        if _text(asked, "operation") not in ("", "CREATE", "UPDATE"):
            return UNCHANGED
        if _text(asked, "namespace") not in self._namespaces:
            return OTHER_NAMESPACE
        pod = _mapping(asked.get("object"), "the pod")
        metadata = _mapping(pod.get("metadata"), "its metadata")
        app = _mapping(metadata.get("labels") or {}, "its labels").get(APP_LABEL)
        if not app or not isinstance(app, str):
            return NO_APP_LABEL
        review.app = app
        review.present = _mapping(metadata.get("annotations") or {}, "its annotations")
        return ""

    def _fail(self, review: _Review, error: Exception) -> None:
        review.result = FAILED
        self._troubles.add(f"{type(error).__name__}: {error}")

    def _write(self, review: _Review, wanted: Mapping[str, str]) -> bytes:
        patch = [] if review.result else _patch(review.present, wanted)
        if not review.result:
            review.result = (PATCHED if patch else UNCHANGED) if wanted else UNKNOWN_APP
        self._results[review.result] += 1
        response: dict[str, Any] = {"uid": review.uid, "allowed": True}
        if patch:
            response["status"] = {"message": "Patching pod"}
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(_encode(patch)).decode()
        return _encode(
            {"apiVersion": review.version, "kind": "AdmissionReview", "response": response}
        )

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


def _patch(present: Mapping[str, Any], wanted: Mapping[str, str]) -> list[dict[str, Any]]:
    """A JSON patch of a pod's annotations."""
    if wanted and not present:
        return [{"op": "add", "path": "/metadata/annotations", "value": wanted}]
    return [
        {"op": "add", "path": f"/metadata/annotations/{_escaped(name)}", "value": value}
        for name, value in wanted.items()
        if present.get(name) != value
    ]


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what}: not an object")
    return value


def _text(mapping: Mapping[str, Any], name: str) -> str:
    value = mapping.get(name) or ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is not text")
    return value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _plain(number: float) -> str:
    """Without an exponent, which quantities spell differently."""
    return f"{number:.{_DIGITS}f}".rstrip("0").rstrip(".")
