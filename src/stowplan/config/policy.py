"""A Policy file, which configured kube-scheduler up to 1.22: read, not judged.

Go ignores the case of JSON field names, so files have `urlPrefix` as well as `URLPrefix`, and some
have the old internal name `ExtenderConfigs`. This module normalises every name before it decodes
the file into structs. Unknown fields are reported as notes, because kube-scheduler ignored them.
Called by `migrate.py`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stowplan.config.decode import decode, members_of, without_nulls
from stowplan.config.durations import format_duration
from stowplan.config.fields import FieldError, invalid, raise_errors
from stowplan.config.load import parse_tree
from stowplan.config.types import Extender, Int32, Int64, Section
from stowplan.errors import ConfigError

#: Names of older files, in lower case, and what they became.
_OLD_NAMES: Final = {"extenderconfigs": "extenders"}
_POLICY_KEY: Final = "policy.cfg"


class LabelsPresence(Section, frozen=True):
    labels: tuple[str, ...] = ()
    presence: bool = False


class ServiceAffinity(Section, frozen=True):
    labels: tuple[str, ...] = ()


class PredicateArgument(Section, frozen=True):
    service_affinity: ServiceAffinity | None = None
    labels_presence: LabelsPresence | None = None


class Predicate(Section, frozen=True):
    name: str = ""
    argument: PredicateArgument | None = None


class ServiceAntiAffinity(Section, frozen=True):
    label: str = ""


class LabelPreference(Section, frozen=True):
    label: str = ""
    presence: bool = False


class ShapePoint(Section, frozen=True):
    utilization: Int32 = 0
    score: Int32 = 0


class RatioResource(Section, frozen=True):
    name: str = ""
    weight: Int64 = 0


class CapacityRatio(Section, frozen=True):
    shape: tuple[ShapePoint, ...] = ()
    resources: tuple[RatioResource, ...] = ()


class PriorityArgument(Section, frozen=True):
    service_anti_affinity: ServiceAntiAffinity | None = None
    label_preference: LabelPreference | None = None
    requested_to_capacity_ratio_arguments: CapacityRatio | None = None


class Priority(Section, frozen=True):
    name: str = ""
    weight: Int32 = 0
    argument: PriorityArgument | None = None


class Policy(Section, frozen=True):
    """None and an empty list differ: the first means the defaults, the second none at all."""

    kind: str = "Policy"
    api_version: str = "v1"
    predicates: tuple[Predicate, ...] | None = None
    priorities: tuple[Priority, ...] | None = None
    extenders: tuple[Extender, ...] = ()
    hard_pod_affinity_symmetric_weight: Int32 = 0
    always_check_all_predicates: bool = False


def read_policy(text: str, *, where: str) -> tuple[Policy, list[FieldError]]:
    """Read a policy from YAML or JSON text or from a ConfigMap; also return unknown fields."""
    errors: list[FieldError] = []
    raw = parse_tree(text, where, errors)
    if isinstance(raw, dict) and raw.get("kind") == "ConfigMap":
        raw = parse_tree(_from_config_map(raw, where), where, errors)
    if not isinstance(raw, dict):
        raise ConfigError("expected a Policy, found no mapping", where=where)
    notes: list[FieldError] = []
    tree = without_nulls(_usual_names(raw, Policy, "", notes, errors), Policy)
    if tree.get("kind", "Policy") != "Policy" or tree.get("apiVersion", "v1") != "v1":
        said = f"{tree.get('apiVersion', 'v1')} {tree.get('kind', 'Policy')}"
        raise ConfigError(f"expected a Policy of v1, found {said}", where=where)
    extenders = tree.get("extenders")
    for extender in extenders if isinstance(extenders, list) else ():
        if isinstance(extender, dict):
            _timeout_as_text(extender)
    policy = decode(tree, Policy, errors)
    raise_errors(errors, where=where)
    assert policy is not None  # decode gives a reason for None
    return policy, notes


def _from_config_map(raw: dict[Any, Any], where: str) -> str:
    data = raw.get("data")
    text = data.get(_POLICY_KEY) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise ConfigError(f"the ConfigMap has no text under data.{_POLICY_KEY}", where=where)
    return text


def _usual_names(
    value: Any,
    wanted: type[msgspec.Struct],
    path: str,
    notes: list[FieldError],
    errors: list[FieldError],
) -> Any:
    """A mapping with its keys as `wanted` spells them; what is no mapping is left to `decode`."""
    if not isinstance(value, dict):
        return value
    fields = members_of(wanted)
    spelled = {name.lower(): name for name in fields}
    renamed: dict[str, Any] = {}
    for key, item in value.items():
        lowered = str(key).lower()
        name = spelled.get(_OLD_NAMES.get(lowered, lowered))
        inner = f"{path}.{name or key}" if path else str(name or key)
        if name is None:
            notes.append(FieldError(inner, "is not a field of a Policy and was left out"))
        elif name in renamed:
            errors.append(FieldError(inner, f"duplicate field, once as {key}"))
        else:
            renamed[name] = _inside(item, fields[name], inner, notes, errors)
    return renamed


def _inside(
    item: Any,
    struct: type[msgspec.Struct] | None,
    path: str,
    notes: list[FieldError],
    errors: list[FieldError],
) -> Any:
    if struct is None:
        return item
    if isinstance(item, list):
        return [
            _usual_names(one, struct, f"{path}[{index}]", notes, errors)
            for index, one in enumerate(item)
        ]
    return _usual_names(item, struct, path, notes, errors)


def _timeout_as_text(extender: dict[str, Any]) -> None:
    """A Policy counts nanoseconds, as Go writes its durations; text is a duration already."""
    value = extender.get("httpTimeout")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        extender["httpTimeout"] = format_duration(value / 1e9)


def weight_errors(policy: Policy) -> list[FieldError]:
    """Weights that kube-scheduler refused in a Policy."""
    return [
        invalid(f"priorities[{index}].weight", priority.weight, "must be greater than zero")
        for index, priority in enumerate(policy.priorities or ())
        if priority.weight <= 0
    ]
