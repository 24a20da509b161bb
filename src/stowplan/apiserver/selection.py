"""Label and field selectors of list, watch and deletecollection, as predicates over objects.

Field selectors know, per kind, only the fields that kube-apiserver indexes; any other field is
the client's mistake and a 400 in upstream's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import Kind
from stowplan.apiserver.statuses import bad_request

Predicate: TypeAlias = Callable[[Json], bool]

_REQUIREMENT = re.compile(
    r"""\s*(?:
        (?P<absent>!)\s*(?P<absent_key>[^\s=!<>,()]+)
      | (?P<key>[^\s=!<>,()]+)\s*(?:
            (?P<op>==|=|!=|>|<)\s*(?P<value>[^\s=!<>,()]*)
          | (?P<set>in|notin)\s*\((?P<values>[^()]*)\)
        )?
    )\s*""",
    re.VERBOSE,
)
_LABEL_KEY = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
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
}
_FALSE_WHEN_ABSENT = ("spec.hostNetwork", "spec.unschedulable")


def predicate(kind: Kind, label_selector: str, field_selector: str) -> Predicate | None:
    """One test for both selectors; None when everything is selected."""
    tests = [*_label_tests(label_selector), *_field_tests(kind, field_selector)]
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda obj: all(test(obj) for test in tests)


def labels_match(selector: Json | None, labels: dict[str, str]) -> bool:
    """A metav1.LabelSelector against labels; nothing selects nothing, {} selects all."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for term in selector.get("matchExpressions") or ():
        values = term.get("values") or ()
        present = term["key"] in labels
        match term["operator"]:
            case "In":
                good = present and labels[term["key"]] in values
            case "NotIn":
                good = not present or labels[term["key"]] not in values
            case "Exists":
                good = present
            case _:
                good = not present
        if not good:
            return False
    return True


def _labels(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _label_tests(selector: str) -> Iterable[Predicate]:
    position = 0
    while selector.strip() and position <= len(selector):
        found = _REQUIREMENT.match(selector, position)
        if found is None or (found.end() < len(selector) and selector[found.end()] != ","):
            raise bad_request(
                f"unable to parse requirement: found '{selector[position:].strip()}',"
                " expected: identifier, '!', 'in', 'notin', '=', '==', '!=', '>' or '<'"
            )
        yield _label_test(found)
        position = found.end() + 1


def _label_test(found: re.Match[str]) -> Predicate:
    key = found["absent_key"] or found["key"]
    if not _LABEL_KEY.fullmatch(key):
        raise bad_request(
            f"unable to parse requirement: <nil>: Invalid value: {_quote(key)}: name part must"
            " consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
            " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
            " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )
    if found["absent"]:
        return lambda obj: key not in _labels(obj)
    value = found["value"]
    match found["op"]:
        case "=" | "==":
            return lambda obj: _labels(obj).get(key) == value
        case "!=":
            return lambda obj: _labels(obj).get(key) != value
        case ">" | "<" as operator:
            return _number_test(key, operator, value)
    if found["set"]:
        values = {part.strip() for part in found["values"].split(",")}
        if found["set"] == "in":
            return lambda obj: _labels(obj).get(key) in values
        return lambda obj: _labels(obj).get(key) not in values
    return lambda obj: key in _labels(obj)


def _number_test(key: str, operator: str, value: str) -> Predicate:
    if not re.fullmatch(r"[+-]?\d+", value):
        raise bad_request(
            f"unable to parse requirement: values[0][{key}]: Invalid value: {_quote(value)}: for"
            " 'Gt', 'Lt' operators, the value must be an integer"
        )
    bound = int(value)

    def test(obj: Json) -> bool:
        text = _labels(obj).get(key, "")
        if not re.fullmatch(r"[+-]?\d+", text):
            return False
        return int(text) > bound if operator == ">" else int(text) < bound

    return test


def _field_tests(kind: Kind, selector: str) -> Iterable[Predicate]:
    for part in re.split(r"(?<!\\),", selector):
        if not part:
            continue
        found = re.fullmatch(r"([^=!]*)(==|=|!=)(.*)", part, re.DOTALL)
        if found is None:
            raise bad_request(f"invalid selector: '{selector}'; can't understand '{part}'")
        field, operator, escaped = found.groups()
        _require_supported(kind, field)
        value = re.sub(r"\\([\\,=])", r"\1", escaped)
        yield _field_test(field, operator, value)


def _require_supported(kind: Kind, field: str) -> None:
    supported = _FIELDS.get((kind.group, kind.kind))
    if supported is None:
        if field not in _META_FIELDS:
            raise bad_request(
                f'{_quote(field)} is not a known field selector: only "metadata.name",'
                ' "metadata.namespace"'
            )
    elif field not in supported:
        raise bad_request(f"field label not supported: {field}")


def _field_test(field: str, operator: str, value: str) -> Predicate:
    path = tuple(field.split("."))
    absent = "false" if field in _FALSE_WHEN_ABSENT else ""

    def text(obj: Json) -> str:
        if field == "source":
            source = (obj.get("source") or {}).get("component")
            return str(source or obj.get("reportingComponent", ""))
        node: object = obj
        for name in path:
            node = node.get(name) if isinstance(node, dict) else None
        if node is None:
            return absent
        if isinstance(node, bool):
            return "true" if node else "false"
        return str(node)

    if operator == "!=":
        return lambda obj: text(obj) != value
    return lambda obj: text(obj) == value


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
