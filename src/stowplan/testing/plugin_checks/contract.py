"""The class itself: a name, points, methods with the right parameters, declarations that agree."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stowplan.framework.misspelt import misspelt
from stowplan.framework.plugin import POINTS, Plugin, Reads, points_of
from stowplan.framework.status import Status
from stowplan.testing.plugin_checks.subject import CheckFailed, Subject

#: Parameters of each method without `self`; of filter and score the last may be left out.
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "pre_enqueue": ("pod",),
    "sort_key": ("queued",),
    "less": ("a", "b"),
    "pre_filter": ("cycle",),
    "filter": ("pod", "node", "cycle"),
    "filter_columns": ("cycle", "rows", "out", "overlay"),
    "post_filter": ("cycle", "diagnosis"),
    "pre_score": ("cycle", "rows"),
    "score": ("pod", "node", "cycle"),
    "score_columns": ("cycle", "rows", "out"),
    "normalize": ("cycle", "scores"),
    "reserve": ("cycle", "pod", "node"),
    "unreserve": ("cycle", "pod", "node"),
    "permit": ("cycle", "pod", "node"),
    "pre_bind_pre_flight": ("cycle", "pod", "node"),
    "pre_bind": ("cycle", "pod", "node"),
    "bind": ("cycle", "pod", "node"),
    "post_bind": ("cycle", "pod", "node"),
    "sign": ("info",),
    "surroundings": ("cycle",),
    "events": (),
    "verdict": ("cycle", "verdict_id"),
    "what_if": ("cycle", "other", "row", "delta"),
}
_MAY_BE_ASYNC = ("pre_bind", "bind", "post_bind")


def check_contract(subject: Subject) -> None:
    """The class is one that the framework can use as it is meant."""
    plugin = subject.plugin
    _check_name(plugin)
    _check_methods(plugin)
    _check_declarations(plugin)


def _check_name(plugin: type[Plugin]) -> None:
    if not plugin.name or not isinstance(plugin.name, str):
        raise CheckFailed(
            f"{plugin.__qualname__} has no name.",
            f'add `name = "{plugin.__name__}"` to the class: configuration, messages and metrics'
            " know it by that.",
        )


def _check_methods(plugin: type[Plugin]) -> None:
    for member, meant in misspelt(plugin):
        raise CheckFailed(
            f"{plugin.name} has a method {member}, which is never called.",
            f"call it {meant}, or _{member} if it is meant for the plugin itself.",
        )
    if not points_of(plugin):
        methods = ", ".join(names[0] for names in POINTS.values())
        raise CheckFailed(
            f"{plugin.name} takes part in nothing.", f"give it at least one of {methods}."
        )
    for method, parameters in _PARAMETERS.items():
        function = getattr(plugin, method, None)
        if callable(function):
            _check_parameters(plugin, method, function, parameters)


def _check_parameters(
    plugin: type[Plugin], method: str, function: Callable[..., Any], parameters: tuple[str, ...]
) -> None:
    wanted = f"{method}({', '.join(('self', *parameters))})"
    if inspect.iscoroutinefunction(function) and method not in _MAY_BE_ASYNC:
        raise CheckFailed(
            f"{plugin.name}.{method} is async.",
            f"write it as a plain method: only {', '.join(_MAY_BE_ASYNC)} may wait.",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    is_static = isinstance(inspect.getattr_static(plugin, method), staticmethod | classmethod)
    counts = {len(parameters)}
    if method in ("filter", "score"):
        counts.add(2)
    for count in counts:
        arguments = [None] * (count if is_static else count + 1)
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return
    more = " or without the cycle" if method in ("filter", "score") else ""
    raise CheckFailed(
        f"{plugin.name}.{method}{signature} cannot be called as the framework does.",
        f"write it as {wanted}{more}.",
    )


def _check_declarations(plugin: type[Plugin]) -> None:
    args: Any = plugin.Args
    if args is not None and not (isinstance(args, type) and issubclass(args, msgspec.Struct)):
        raise CheckFailed(
            f"{plugin.name}.Args is {args!r}.",
            "make it a class derived from msgspec.Struct, with frozen=True.",
        )
    verdicts: Sequence[Any] = plugin.verdicts
    for place, verdict in enumerate(verdicts):
        if not isinstance(verdict, Status) or not verdict.is_rejected:
            raise CheckFailed(
                f"{plugin.name}.verdicts[{place}] is {verdict!r}, which is no refusal.",
                "list what the ids 1, 2, ... mean by stowplan.unschedulable(...) or"
                " stowplan.unresolvable(...); 0 always means that the pod fits.",
            )
    has_columns = hasattr(plugin, "filter_columns") or hasattr(plugin, "score_columns")
    if plugin.reads is not Reads.ANYTHING and not has_columns:
        raise CheckFailed(
            f"{plugin.name} declares reads = {plugin.reads}, but has no columns to keep.",
            "leave `reads` out, or write filter_columns or score_columns.",
        )
    if (
        hasattr(plugin, "filter_columns")
        and not plugin.verdicts
        and plugin.verdict is Plugin.verdict
    ):
        raise CheckFailed(
            f"{plugin.name}.filter_columns writes ids, but nothing says what they mean.",
            "list the statuses in `verdicts`, or have a method verdict(cycle, verdict_id).",
        )
