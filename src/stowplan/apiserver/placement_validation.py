"""Validation of what schedulers read: tolerations, taints, affinity, selectors and spreading."""

from __future__ import annotations

from typing import Any

from stowplan.api.labels import label_value_errors
from stowplan.apiserver.field_errors import (
    duplicate,
    label_key_causes,
    label_name,
    labels_causes,
    name_causes,
    not_allowed,
    positive,
    required,
    subdomain_name,
    unsupported,
    wrong,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.statuses import Cause

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def placement_causes(spec: Json, path: str) -> list[Cause]:
    """Of one pod spec, in the order in which kube-apiserver complains."""
    causes = labels_causes(f"{path}.nodeSelector", spec.get("nodeSelector") or {})
    causes += _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    causes += _gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
    causes += _spreading(
        spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints"
    )
    return causes


def toleration_causes(tolerations: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, toleration in enumerate(tolerations or ()):
        causes += _toleration(toleration, f"{path}[{index}]")
    return causes


def _toleration(toleration: Json, at: str) -> list[Cause]:
    causes: list[Cause] = []
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        causes += label_key_causes(f"{at}.key", key)
    elif operator != "Exists":
        detail = (
            "operator must be Exists when `key` is empty, which means"
            ' "match all values and all keys"'
        )
        causes.append(wrong(f"{at}.operator", operator, detail))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(wrong(f"{at}.effect", effect, detail))
    if operator in ("Equal", ""):
        problems = label_value_errors(value)
        if problems:
            causes.append(wrong(f"{at}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            causes.append(wrong(f"{at}.operator", value, detail))
    elif operator in ("Lt", "Gt"):  # behind a feature gate that is off by default
        causes.append(unsupported(f"{at}.operator", operator, ("Equal", "Exists", "Lt", "Gt")))
    else:
        causes.append(unsupported(f"{at}.operator", operator, ("Equal", "Exists")))
    if effect and effect not in _EFFECTS:
        causes.append(unsupported(f"{at}.effect", effect, _EFFECTS))
    return causes


def taint_causes(taints: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints or ()):
        at = f"{path}[{index}]"
        key, value, effect = taint["key"], taint.get("value", ""), taint["effect"]
        causes += label_key_causes(f"{at}.key", key)
        problems = label_value_errors(value)
        if problems:
            causes.append(wrong(f"{at}.value", value, ";".join(problems)))
        if not effect:
            causes.append(required(f"{at}.effect"))
        elif effect not in _EFFECTS:
            causes.append(unsupported(f"{at}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": None}
            detail = "taints must be unique by key and effect pair"
            causes.append(duplicate(at, shown, detail))
        seen.add((key, effect))
    return causes


def label_selector_causes(selector: Json | None, path: str) -> list[Cause]:
    if selector is None:
        return []
    causes = labels_causes(f"{path}.matchLabels", selector.get("matchLabels") or {})
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        causes += _requirement(term, f"{path}.matchExpressions[{index}]")
    return causes


def node_selector_causes(selector: Json | None, path: str) -> list[Cause]:
    if selector is None:
        return []
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    causes: list[Cause] = []
    for index, term in enumerate(terms):
        causes += _node_term(term, f"{path}.nodeSelectorTerms[{index}]")
    return causes


def _node_term(term: Json, path: str, *, any_value: bool = False) -> list[Cause]:
    causes: list[Cause] = []
    for index, rule in enumerate(term.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        causes += _requirement(rule, at, has_order=True, any_value=any_value)
    for index, rule in enumerate(term.get("matchFields") or ()):
        at, values = f"{path}.matchFields[{index}]", rule.get("values") or ()
        if rule["operator"] not in ("In", "NotIn"):
            causes.append(
                wrong(f"{at}.operator", rule["operator"], "not a valid selector operator")
            )
        elif len(values) != 1:
            detail = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            causes.append(required(f"{at}.values", detail))
        if rule["key"] != "metadata.name":
            causes.append(wrong(f"{at}.key", rule["key"], "not a valid field selector key"))
        else:
            for place, value in enumerate(values):
                causes += name_causes(f"{at}.values[{place}]", value, subdomain_name)
    return causes


def _requirement(
    rule: Json, at: str, *, has_order: bool = False, any_value: bool = False
) -> list[Cause]:
    """What is wrong with a requirement; only those on nodes can have the operators Gt and Lt."""
    causes: list[Cause] = []
    values = rule.get("values") or ()
    match rule["operator"]:
        case "In" | "NotIn":
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                causes.append(required(f"{at}.values", detail))
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(not_allowed(f"{at}.values", detail))
        case "Gt" | "Lt" if has_order:
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                causes.append(required(f"{at}.values", detail))
        case operator:
            causes.append(wrong(f"{at}.operator", operator, "not a valid selector operator"))
    causes += label_key_causes(f"{at}.key", rule["key"])
    for place, value in enumerate(() if any_value else values):
        for problem in label_value_errors(value):
            causes.append(wrong(f"{at}.values[{place}]", value, problem))
    return causes


def _affinity(affinity: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    node = affinity.get("nodeAffinity") or {}
    at = f"{path}.nodeAffinity"
    causes += node_selector_causes(node.get(_REQUIRED), f"{at}.{_REQUIRED}")
    for index, weighted in enumerate(node.get(_PREFERRED) or ()):
        here = f"{at}.{_PREFERRED}[{index}]"
        causes += _weight(weighted["weight"], here)
        # Values that no label can have are let through here, as upstream does.
        causes += _node_term(weighted["preference"], f"{here}.preference", any_value=True)
    for name in ("podAffinity", "podAntiAffinity"):
        rules, at = affinity.get(name) or {}, f"{path}.{name}"
        for index, term in enumerate(rules.get(_REQUIRED) or ()):
            causes += _pod_term(term, f"{at}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(rules.get(_PREFERRED) or ()):
            here = f"{at}.{_PREFERRED}[{index}]"
            causes += _weight(weighted["weight"], here)
            causes += _pod_term(weighted["podAffinityTerm"], f"{here}.podAffinityTerm")
    return causes


def _weight(weight: int, at: str) -> list[Cause]:
    if 1 <= weight <= 100:
        return []
    return [wrong(f"{at}.weight", weight, "must be in the range 1-100")]


def _pod_term(term: Json, at: str) -> list[Cause]:
    causes = label_selector_causes(term.get("labelSelector"), f"{at}.labelSelector")
    causes += label_selector_causes(term.get("namespaceSelector"), f"{at}.namespaceSelector")
    for namespace in term.get("namespaces") or ():
        causes += name_causes(f"{at}.namespace", namespace, label_name)
    causes += _label_keys(term, at)
    key = term["topologyKey"]
    if not key:
        causes.append(required(f"{at}.topologyKey", "can not be empty"))
    return causes + label_key_causes(f"{at}.topologyKey", key)


def _gates(gates: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        causes += label_key_causes(f"{path}[{index}]", gate["name"])
        if gate["name"] in seen:
            causes.append(duplicate(f"{path}[{index}]", gate["name"]))
        seen.add(gate["name"])
    return causes


def _spreading(constraints: Any, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        key, action = constraint["topologyKey"], constraint["whenUnsatisfiable"]
        causes += positive(f"{at}.maxSkew", constraint["maxSkew"])
        if not key:
            causes.append(required(f"{at}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            supported = ("DoNotSchedule", "ScheduleAnyway")
            causes.append(unsupported(f"{at}.whenUnsatisfiable", action, supported))
        if any(
            (later["topologyKey"], later["whenUnsatisfiable"]) == (key, action)
            for later in constraints[index + 1 :]
        ):
            field = f"{at}.{{topologyKey, whenUnsatisfiable}}"
            causes.append(duplicate(field, f"{{{key}, {action}}}"))
        if "minDomains" in constraint:
            causes += positive(f"{at}.minDomains", constraint["minDomains"])
            if action != "DoNotSchedule":
                detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                causes.append(wrong(f"{at}.minDomains", constraint["minDomains"], detail))
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(name)
            if policy is not None and policy not in ("Honor", "Ignore"):
                causes.append(unsupported(f"{at}.{name}", policy, ("Honor", "Ignore")))
        causes += _label_keys(constraint, at)
        causes += label_selector_causes(constraint.get("labelSelector"), f"{at}.labelSelector")
    return causes


def _label_keys(holder: Json, at: str) -> list[Cause]:
    """Keys whose values are taken from the pod; by now they have become part of the selector."""
    causes: list[Cause] = []
    selector = holder.get("labelSelector")
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = holder.get(name) or ()
        if keys and selector is None:
            detail = "must not be specified when labelSelector is not set"
            causes.append(not_allowed(f"{at}.{name}", detail))
        for index, key in enumerate(keys):
            causes += label_key_causes(f"{at}.{name}[{index}]", key)
    matched = {key: index for index, key in enumerate(holder.get("matchLabelKeys") or ())}
    if matched and selector is not None:
        seen = set(selector.get("matchLabels") or ())
        for rule in selector.get("matchExpressions") or ():
            key = rule["key"]
            if key in matched and key in seen:
                detail = "exists in both matchLabelKeys and labelSelector"
                causes.append(wrong(f"{at}[{matched[key]}]", key, detail))
            seen.add(key)
    mismatched = set(holder.get("mismatchLabelKeys") or ())
    detail = "exists in both matchLabelKeys and mismatchLabelKeys"
    return causes + [
        wrong(f"{at}.matchLabelKeys[{index}]", key, detail)
        for key, index in matched.items()
        if key in mismatched
    ]
