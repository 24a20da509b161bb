"""Rules that the arguments of several plugins share, in kube-scheduler's words and order.

They see plain values and API objects, never argument structs, so that those can call them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stowplan.api.labels import label_key_errors
from stowplan.api.objects import NodeAffinity, TopologySpreadConstraint
from stowplan.api.selectors import compile_node_selector, compile_node_selector_term
from stowplan.config.fields import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")


def label_name_problems(path: str, name: str) -> Iterator[FieldError]:
    """A name with an optional domain, such as `cpu` or `example.com/gpu`."""
    for reason in label_key_errors(name):
        yield invalid(path, name, reason)


def weight_problems(path: str, resources: Sequence[tuple[str, int]]) -> Iterator[FieldError]:
    for index, (name, weight) in enumerate(resources):
        if not 0 < weight <= 100:
            detail = f"resource weight of {name} not in valid range (0, 100]"
            yield invalid(f"{path}[{index}].weight", weight, detail)


def shape_problems(path: str, points: Sequence[tuple[int, int]]) -> Iterator[FieldError]:
    """Points (utilization, score) of a function: some, rising, within their ranges."""
    if not points:
        yield required(path, "at least one point must be specified")
    for index in range(1, len(points)):
        if points[index - 1][0] >= points[index][0]:
            detail = "values must be sorted in increasing order"
            yield invalid(f"{path}[{index}].utilization", points[index][0], detail)
            break
    for index, (utilization, score) in enumerate(points):
        if not 0 <= utilization <= 100:
            at = f"{path}[{index}].utilization"
            yield invalid(at, utilization, "not in valid range [0, 100]")
        if not 0 <= score <= 10:
            yield invalid(f"{path}[{index}].score", score, "not in valid range [0, 10]")


def affinity_problems(path: str, affinity: NodeAffinity) -> Iterator[FieldError]:
    """Unlike a pod's, the profile's own terms must all be valid."""
    at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    if affinity.required is not None:
        for text in compile_node_selector(affinity.required).errors:
            yield _from_text(f"{at}.{text}")
    at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(affinity.preferred or ()):
        # Upstream ignores a term with weight 0, so it does not validate one.
        if preferred.weight != 0:
            term = compile_node_selector_term(preferred.preference, f"{at}[{index}]")
            for text in term.errors:
                yield _from_text(text)


def constraint_problems(
    path: str, constraints: Sequence[TopologySpreadConstraint]
) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        key, action = constraint.topology_key, constraint.when_unsatisfiable
        if constraint.max_skew <= 0:
            yield invalid(f"{at}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
        if not key:
            yield required(f"{at}.topologyKey", "can not be empty")
        else:
            yield from label_name_problems(f"{at}.topologyKey", key)
        if not action:
            yield required(f"{at}.whenUnsatisfiable", "can not be empty")
        elif action not in _UNSATISFIABLE:
            yield not_supported(f"{at}.whenUnsatisfiable", action, _UNSATISFIABLE)
        if constraint.label_selector is not None:
            detail = "constraint must not define a selector, as they deduced for each pod"
            yield forbidden(f"{at}.labelSelector", detail)
        if (key, action) in seen:
            yield duplicate(at, f"{{{key}, {action}}}")
        seen.add((key, action))


def _from_text(text: str) -> FieldError:
    """An error of the api package, whose path is the part before the first colon and space."""
    path, _, message = text.partition(": ")
    return FieldError(path, message)
