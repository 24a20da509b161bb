"""The OpenAPI description of POST /v1/decide; tests compare it with what the server does."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from stowplan.http.messages import JSON
from stowplan.server.v1 import errors

Json: TypeAlias = dict[str, Any]

MAX_QUESTIONS: Final = 100
#: The first is the default.
DETAILS: Final = ("nodes", "summary")

_OBJECT: Final[Json] = {"type": "object"}
_TEXT: Final[Json] = {"type": "string"}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_TEXTS: Final[Json] = {"type": "array", "items": _TEXT}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _optional(schema: Json, description: str) -> Json:
    return {"oneOf": [schema, {"type": "null"}], "description": description}


_QUESTION: Final[Json] = {
    "type": "object",
    "required": ["pod"],
    "additionalProperties": False,
    "properties": {
        "id": {"description": "Any JSON; returned unchanged. Default: the question's number."},
        "pod": {**_OBJECT, "description": "The pod to place; apiVersion and kind are optional."},
        "objects": _optional(
            {"type": "array", "items": _OBJECT},
            "A cluster to ask about instead of the live one, as kubectl get -o json prints it.",
        ),
        "apply": _optional(
            {"type": "array", "items": _OBJECT},
            "Objects to create or replace in a copy of the live cluster.",
        ),
        "delete": _optional(
            {"type": "array", "items": _OBJECT},
            "Objects to delete from that copy, each by kind, name and namespace.",
        ),
        "config": _optional(
            _OBJECT, "A KubeSchedulerConfiguration instead of the running scheduler's."
        ),
    },
}
_VERDICT: Final[Json] = {
    "type": "object",
    "required": ["code"],
    "properties": {"code": _TEXT, "plugin": _TEXT, "reasons": _TEXTS},
}
_ANSWER: Final[Json] = {
    "type": "object",
    "description": "What stowplan decide prints. With ?detail=summary it has total, feasible and"
    " rejected instead of nodes, scores and totals. In a batch it may be only an error.",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {},
        "error": {**_TEXT, "description": "Why the question was not answered."},
        "warnings": {**_TEXTS, "description": "What the API server would complain about."},
        "prefilter": _ref("Verdict"),
        "nodes": {"type": "object", "additionalProperties": _ref("Verdict")},
        "devices": {
            "type": "object",
            "description": "What nodes lack for the pod's claims, of the first 20 that lack it.",
            "additionalProperties": _TEXTS,
        },
        "allocations": {
            "type": "object",
            "description": "The devices that the pod would get, on the first 5 of the best nodes.",
            "additionalProperties": {"type": "array", "items": _ref("AllocatedDevice")},
        },
        "scores": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {"type": "integer"},
            },
        },
        "totals": {"type": "object", "additionalProperties": {"type": "integer"}},
        "best": {**_TEXTS, "description": "Nodes with the highest score; ten in a summary."},
        "total": {**_COUNT, "description": "Nodes of the cluster."},
        "feasible": {**_COUNT, "description": "Nodes that fit the pod."},
        "bestCount": {**_COUNT, "description": "Nodes that have the highest score."},
        "score": {"type": "integer", "description": "The highest score."},
        "message": {**_TEXT, "description": "Why no node fits, as FailedScheduling says it."},
        "rejected": {
            "type": "array",
            "description": "Verdicts by number of nodes, the commonest first.",
            "items": {
                "type": "object",
                "required": ["nodes", "code", "plugin", "reasons"],
                "properties": {**_VERDICT["properties"], "nodes": _COUNT},
            },
        },
    },
}
_BATCH: Final[Json] = {
    "type": "object",
    "required": ["questions"],
    "additionalProperties": False,
    "properties": {
        "questions": {
            "type": "array",
            "maxItems": MAX_QUESTIONS,
            "description": "An item that is no valid question gets an answer with an error.",
            "items": {"anyOf": [_ref("Question"), {}]},
        }
    },
}
_ANSWERS: Final[Json] = {
    "type": "object",
    "required": ["answers"],
    "additionalProperties": False,
    "properties": {"answers": {"type": "array", "items": _ref("Answer")}},
}

_DEVICE_PARTS: Final = ("claim", "request", "driver", "pool", "device")
_DEVICE: Final[Json] = {
    "type": "object",
    "required": list(_DEVICE_PARTS),
    "properties": dict.fromkeys(_DEVICE_PARTS, _TEXT),
}

SCHEMAS: Final[dict[str, Json]] = {
    "AllocatedDevice": _DEVICE,
    "Question": _QUESTION,
    "Questions": _BATCH,
    "Verdict": _VERDICT,
    "Answer": _ANSWER,
    "Answers": _ANSWERS,
}


def _query(name: str, values: tuple[str, ...], description: str) -> Json:
    schema = {"type": "string", "enum": list(values), "default": values[0]}
    return {"name": name, "in": "query", "description": description, "schema": schema}


DECIDE: Final[Json] = {
    "operationId": "decide",
    "summary": "Which nodes fit a pod, why the others do not, and each plugin's scores.",
    "description": "Nothing is scheduled, and nothing is kept. See docs/dry-run-api.md.",
    "parameters": [
        _query("detail", DETAILS, "Every node's verdict and scores, or counts."),
        _query("defaults", ("false", "true"), "Complete objects as the API server would."),
    ],
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": {"oneOf": [_ref("Question"), _ref("Questions")]}}},
    },
    "responses": {
        "200": {
            "description": "the answer, or the answers to questions in their order",
            "content": {JSON: {"schema": {"oneOf": [_ref("Answer"), _ref("Answers")]}}},
        },
        **errors(
            _413="the body is longer than 4 MiB",
            _415="the Content-Type is not application/json",
            _503="the scheduler has not read the cluster yet, or the time of a request is over",
        ),
    },
}
