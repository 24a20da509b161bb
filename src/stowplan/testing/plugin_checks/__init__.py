"""What `pytest --stowplan-plugin` checks a plugin for; `check_plugin` does the same without pytest.

Each check is a function of a `Subject` that raises `CheckFailed` (what is wrong, how to mend it) or
`NotApplicable`; `run_check` stops one that takes too long. They ask the plugin by the framework's
own steps, on clusters of a seeded generator that speaks the plugin's vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from stowplan.framework.plugin import Plugin
from stowplan.plugin_failures import place_of
from stowplan.testing.plugin_checks.answering import check_answers
from stowplan.testing.plugin_checks.arguments import check_arguments
from stowplan.testing.plugin_checks.columns import check_dtypes, check_forms
from stowplan.testing.plugin_checks.contract import check_contract
from stowplan.testing.plugin_checks.cost import check_cost
from stowplan.testing.plugin_checks.determinism import check_instances, check_processes
from stowplan.testing.plugin_checks.effects import check_effects
from stowplan.testing.plugin_checks.keeping import check_kept, check_signature
from stowplan.testing.plugin_checks.purity import check_changes_nothing, check_same_question
from stowplan.testing.plugin_checks.subject import CheckFailed, NotApplicable, Subject, load_subject
from stowplan.testing.plugin_checks.time_limit import TimeIsUp, time_limit
from stowplan.testing.plugin_checks.waking import check_events

Check: TypeAlias = Callable[[Subject], None]

#: In the order in which they are run: the first to fail is the one to look at first. A plugin that
#: sleeps or waits for a network is found before others ask it a thousand times.
CHECKS: Mapping[str, Check] = {
    "no-effects": check_effects,
    "contract": check_contract,
    "arguments": check_arguments,
    "answers": check_answers,
    "same-question": check_same_question,
    "changes-nothing": check_changes_nothing,
    "instances": check_instances,
    "processes": check_processes,
    "dtypes": check_dtypes,
    "forms": check_forms,
    "signature": check_signature,
    "kept-columns": check_kept,
    "events": check_events,
    "cost": check_cost,
}


@dataclass(frozen=True)
class Finding:
    """How one check ended: "passed", "failed" or "not applicable", and why."""

    check: str
    outcome: str
    message: str = ""

    @property
    def is_failure(self) -> bool:
        return self.outcome == "failed"


def check_plugin(
    plugin: type[Plugin] | str,
    args: Mapping[str, Any] | None = None,
    *,
    only: Iterable[str] | None = None,
    **options: Any,
) -> list[Finding]:
    """Run the checks (all, or those named) on a class or on `module:Class`."""
    if isinstance(plugin, str):
        subject = load_subject(plugin, args, **options)
    else:
        subject = Subject(plugin, args, **options)
    return [_find(name, subject) for name in (CHECKS if only is None else only)]


def run_check(name: str, subject: Subject) -> None:
    """Run one check within its time limit; none if the plugin got stuck in an earlier one."""
    if subject.stuck_in:
        raise NotApplicable(f"it would take too long, see {subject.stuck_in}")
    try:
        with time_limit(subject.limit_s):
            CHECKS[name](subject)
    except TimeIsUp as stopped:
        subject.stuck_in = name
        raise CheckFailed(
            f"{subject.name} took more than {subject.limit_s:g} s in this check and was stopped"
            f"{place_of(stopped)}.",
            "answer at once: one thread decides for all pods, and they wait meanwhile.",
        ) from None


def _find(name: str, subject: Subject) -> Finding:
    try:
        run_check(name, subject)
    except CheckFailed as mistake:
        return Finding(name, "failed", str(mistake))
    except NotApplicable as reason:
        return Finding(name, "not applicable", str(reason))
    return Finding(name, "passed")


__all__ = [
    "CHECKS",
    "Check",
    "CheckFailed",
    "Finding",
    "NotApplicable",
    "Subject",
    "check_plugin",
    "load_subject",
    "run_check",
]
