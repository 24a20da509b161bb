"""Validation of what the controllers of Deployments, StatefulSets and Jobs read of a spec."""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.field_errors import not_allowed, not_negative, required, unsupported, wrong
from stowplan.apiserver.history import Json
from stowplan.apiserver.statuses import Cause
from stowplan.loader.numbers import whole_number

_MOST_PARALLEL_INDEXES = 100_000
_NOT_A_PERCENTAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or"
    " '93%', regex used for validation is '[0-9]+%')"
)


def is_percentage(value: Any) -> bool:
    return isinstance(value, str) and value.endswith("%") and whole_number(value[:-1]) is not None


def percentage_causes(field: str, value: int | str) -> list[Cause]:
    """A number of pods or a percentage of them, and not below zero."""
    if isinstance(value, int):
        return not_negative(field, value)
    return [] if is_percentage(value) else [wrong(field, value, _NOT_A_PERCENTAGE)]


def deployment_causes(deployment: Json) -> list[Cause]:
    spec = deployment["spec"]
    causes = _strategy_causes(spec["strategy"])
    for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        causes += not_negative(f"spec.{field}", spec.get(field, 0))
    deadline = spec["progressDeadlineSeconds"]
    if deadline <= spec.get("minReadySeconds", 0):
        detail = "must be greater than minReadySeconds"
        causes.append(wrong("spec.progressDeadlineSeconds", deadline, detail))
    return causes


def _strategy_causes(strategy: Json) -> list[Cause]:
    if strategy["type"] not in ("Recreate", "RollingUpdate"):
        return [unsupported("spec.strategy", strategy["type"], ("Recreate", "RollingUpdate"))]
    path = "spec.strategy.rollingUpdate"
    if strategy["type"] == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [not_allowed(path, detail)] if "rollingUpdate" in strategy else []
    unavailable, surge = (
        strategy["rollingUpdate"][name] for name in ("maxUnavailable", "maxSurge")
    )
    causes = percentage_causes(f"{path}.maxUnavailable", unavailable)
    causes += percentage_causes(f"{path}.maxSurge", surge)
    if not _amount(unavailable) and not _amount(surge):
        detail = "may not be 0 when `maxSurge` is 0"
        causes.append(wrong(f"{path}.maxUnavailable", unavailable, detail))
    if is_percentage(unavailable) and _amount(unavailable) > 100:
        causes.append(wrong(f"{path}.maxUnavailable", unavailable, "must not be greater than 100%"))
    return causes


def _amount(value: int | str) -> int:
    if isinstance(value, int):
        return value
    return int(value[:-1]) if is_percentage(value) else 0


def stateful_set_causes(stateful_set: Json) -> list[Cause]:
    spec = stateful_set["spec"]
    causes: list[Cause] = []
    if spec["podManagementPolicy"] not in ("OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        causes.append(wrong("spec.podManagementPolicy", spec["podManagementPolicy"], detail))
    strategy = spec["updateStrategy"]
    if strategy["type"] not in ("RollingUpdate", "OnDelete"):
        detail = "must be 'RollingUpdate' or 'OnDelete'"
        causes.append(wrong("spec.updateStrategy", strategy, detail))
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    causes += not_negative("spec.updateStrategy.rollingUpdate.partition", partition)
    causes += not_negative("spec.minReadySeconds", spec.get("minReadySeconds", 0))
    start = (spec.get("ordinals") or {}).get("start", 0)
    return causes + not_negative("spec.ordinals.start", start)


def job_causes(job: Json) -> list[Cause]:
    spec = job["spec"]
    causes: list[Cause] = []
    for field in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ):
        causes += not_negative(f"spec.{field}", spec.get(field, 0))
    mode = spec["completionMode"]
    if mode not in ("NonIndexed", "Indexed"):
        causes.append(unsupported("spec.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        if "completions" not in spec:
            detail = "when completion mode is Indexed"
            causes.append(required("spec.completions", detail))
        if spec["parallelism"] > _MOST_PARALLEL_INDEXES:
            detail = (
                f"must be less than or equal to {_MOST_PARALLEL_INDEXES} when completion mode is"
                " Indexed"
            )
            causes.append(wrong("spec.parallelism", spec["parallelism"], detail))
    return causes
