"""The class itself: a name, points, methods with the right parameters, declarations that agree."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import msgspec

from stowplan.framework.misspelt import METHODS, misspelt, misspelt_attributes
from stowplan.framework.parameters import wrong_parameters
from stowplan.framework.plugin import POINTS, Plugin, Reads, points_of
from stowplan.framework.status import Status
from stowplan.plugin_failures import defined_at
from stowplan.testing.plugin_checks.subject import CheckFailed, Subject

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
    for member, meant in misspelt_attributes(plugin):
        raise CheckFailed(
            f"{plugin.name} has an attribute {member}, which is never read.",
            f"call it {meant}, or _{member} if it is meant for the plugin itself.",
        )
    if not points_of(plugin):
        methods = ", ".join(names[0] for names in POINTS.values())
        raise CheckFailed(
            f"{plugin.name} takes part in nothing.", f"give it at least one of {methods}."
        )
    for method in METHODS:
        if method not in _MAY_BE_ASYNC and inspect.iscoroutinefunction(getattr(plugin, method, 0)):
            raise CheckFailed(
                f"{plugin.name}.{method} is async.",
                f"write it as a plain method: only {', '.join(_MAY_BE_ASYNC)} may wait.",
            )
    for function, wanted in wrong_parameters(plugin):
        signature = inspect.signature(function)
        raise CheckFailed(
            f"{plugin.name}: {function.__name__}{signature} cannot be called as the framework"
            f" does{defined_at(function)}.",
            f"{wanted}.",
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
                f"{plugin.name}.verdicts[{place}] is {verdict!r}, which is not a rejection.",
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
