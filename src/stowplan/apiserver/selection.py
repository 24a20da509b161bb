"""Label and field selectors of list, watch and deletecollection, as predicates over objects.

Field selectors know, per kind, only the fields that kube-apiserver indexes; any other field is
the client's mistake and a 400 in upstream's words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from stowplan.api.objects import LabelSelector
from stowplan.api.selectors import (
    compile_label_selector,
    parse_field_selector,
    parse_label_selector,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import RESOURCE_SLICES, Kind
from stowplan.apiserver.statuses import bad_request

Predicate: TypeAlias = Callable[[Json], bool]

_META_FIELDS = ("metadata.name", "metadata.namespace")
_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (
        *_META_FIELDS,
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ("", "Node"): ("metadata.name", "spec.unschedulable"),
    ("", "Namespace"): ("status.phase", "metadata.name"),
    ("", "ReplicationController"): (*_META_FIELDS, "status.replicas"),
    ("", "Secret"): ("type", *_META_FIELDS),
    ("", "Service"): (*_META_FIELDS, "spec.clusterIP", "spec.type"),
    ("", "Event"): (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
        *_META_FIELDS,
    ),
    ("events.k8s.io", "Event"): (
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reason",
        "reportingController",
        "type",
        *_META_FIELDS,
    ),
    ("resource.k8s.io", "ResourceSlice"): ("metadata.name", "spec.nodeName", "spec.driver"),
}
_FALSE_WHEN_ABSENT = ("spec.hostNetwork", "spec.unschedulable")


def predicate(kind: Kind, label_selector: str, field_selector: str) -> Predicate | None:
    """One test for both selectors; None when everything is selected."""
    try:
        labels = parse_label_selector(label_selector)
        fields = parse_field_selector(field_selector)
    except ValueError as error:
        raise bad_request(str(error)) from error
    tests: list[Predicate] = []
    if not labels.is_empty:
        tests.append(lambda obj: labels.matches(obj["metadata"].get("labels")))
    refused: dict[str, set[str]] = {}
    for field, operator, value in fields.requirements:
        _require_supported(kind, field)
        if operator == "!=":
            refused.setdefault(field, set()).add(value)
        else:
            tests.append(_has_value(field, value))
    tests += [_has_none_of(field, values) for field, values in refused.items()]
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda obj: all(test(obj) for test in tests)


def labels_match(selector: Json | None, labels: dict[str, str]) -> bool:
    """A metav1.LabelSelector against labels; nothing selects nothing, {} selects all."""
    try:
        compiled = compile_label_selector(msgspec.convert(selector, LabelSelector | None))
    except (ValueError, msgspec.ValidationError):
        return False
    return compiled.matches(labels)


def _require_supported(kind: Kind, field: str) -> None:
    supported = _FIELDS.get((kind.group, kind.kind))
    if supported is None:
        if field not in _META_FIELDS:
            raise bad_request(
                f'"{field}" is not a known field selector: only "metadata.name",'
                ' "metadata.namespace"'
            )
    elif field not in supported:
        of = f" for {kind.api_version}, Kind={kind.kind}" if kind is RESOURCE_SLICES else ""
        raise bad_request(f"field label not supported{of}: {field}")


def _has_value(field: str, value: str) -> Predicate:
    text = _text_of(field)
    return lambda obj: text(obj) == value


def _has_none_of(field: str, values: set[str]) -> Predicate:
    text = _text_of(field)
    return lambda obj: text(obj) not in values


def _text_of(field: str) -> Callable[[Json], str]:
    """The function that reads a field as selectors compare it."""
    if field == "source":
        return _source_of
    first, _, second = field.partition(".")
    absent = "false" if field in _FALSE_WHEN_ABSENT else ""

    def text(obj: Json) -> str:
        value: object = obj.get(first)
        if second:
            value = value.get(second) if isinstance(value, dict) else None
        if type(value) is str:
            return value
        if value is None:
            return absent
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return text


def _source_of(event: Json) -> str:
    source = (event.get("source") or {}).get("component")
    return str(source or event.get("reportingComponent", ""))
