"""Answers of the right kind: nothing raises, reasons are given, scores are within 0 to 100."""

from __future__ import annotations

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.errors import PluginError, StowplanError
from stowplan.plugin_failures import describe
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.permit import run_permit, run_reserve, run_unreserve
from stowplan.testing.plugin_checks.asking import Asker, PluginAnswers, in_words
from stowplan.testing.plugin_checks.cases import Case
from stowplan.testing.plugin_checks.subject import CheckFailed, Subject

_RANGE = (
    "return max(0, min(100, ...)), or let normalize(cycle, scores) scale the scores of all nodes"
    " to 0..100."
)
_RAISES = (
    "answer for every pod and node that an API server accepts: fields may be absent"
    " (labels and annotations are None, not {}), a node may offer nothing at all. What cannot be"
    " decided is a Status, not an exception."
)


def check_answers(subject: Subject) -> None:
    """Whatever pod and cluster: the plugin answers, and within its contract."""
    for case in subject.cases:
        cluster, plugin = subject.on(case)
        asker = Asker(plugin, cluster)
        for pod in case.askers:
            answers = asker.ask(pod)
            if answers.problem:
                raise _broken(subject, case, pod, answers.raised)
            _check_reasons(subject, case, pod, answers)
            _check_decisions(subject, case, asker, pod)
            _check_late_points(subject, case, asker, pod, answers)


def _broken(subject: Subject, case: Case, pod: Pod, problem: BaseException | None) -> CheckFailed:
    where = f"{in_words(pod)} (cluster {case.seed})"
    if isinstance(problem, PluginError) and problem.point == "Weigh":
        return CheckFailed(f"Of {where}: {problem}.", _RANGE)
    cause = problem.__cause__ if problem is not None else None
    if cause is None and isinstance(problem, PluginError):
        told, _, fix = str(problem).partition(". Fix: ")
        if not fix and (expected := told.partition("; expected ")[2]):
            fix = f"answer {expected}"
        return CheckFailed(
            f"Of {where}: {told}.", f"{fix or 'answer what docs/plugins.md says for this point'}."
        )
    return CheckFailed(
        f"{subject.name} breaks the attempt of {where}: {_told(problem)}.",
        _RAISES,
    )


def _told(problem: BaseException | None) -> str:
    return (
        str(problem) if isinstance(problem, StowplanError) or problem is None else describe(problem)
    )


def _check_decisions(subject: Subject, case: Case, asker: Asker, pod: Pod) -> None:
    """Nothing raises in a decision of the scheduler, whether columns are cached or not."""
    for _ in range(3):
        decision = decide(asker.cluster.table, compile_pod(pod), asker.profile)
        for problem in decision.cycle.failures:
            raise _broken(subject, case, pod, problem)


def _check_reasons(subject: Subject, case: Case, pod: Pod, answers: PluginAnswers) -> None:
    for node, told in answers.filter.items():
        if told and ": " not in told:
            raise CheckFailed(
                f"{subject.name} rejects node {node} for {in_words(pod)} without a reason"
                f" (cluster {case.seed}).",
                'return a reason: stowplan.unschedulable("node(s) ...") or a text. It is all that'
                " users see in events and in kubectl describe.",
            )


def _check_late_points(
    subject: Subject, case: Case, asker: Asker, pod: Pod, answers: PluginAnswers
) -> None:
    """Reserve, Permit and Unreserve, of a node that the plugin lets pass."""
    node = next((name for name, told in answers.filter.items() if not told), None)
    if node is None and not answers.filter and not answers.pre_filter.startswith("only"):
        node = case.nodes[0].name
    profile, plugin = asker.profile, asker.plugin
    if node is None or not (profile.at("reserve") or profile.at("permit")):
        return
    cycle = asker.start(pod)
    rows = asker.pre_filter(cycle, PluginAnswers())
    if rows is None or not asker.pre_score(cycle, rows, PluginAnswers()):
        return
    row = asker.cluster.table.row_of[node]
    for step in asker.filters:
        if plugin.name not in cycle.skip_filter:
            step.status_of_row(cycle, row)
    now = asker.cluster.clock.monotonic()
    try:
        status = run_reserve(profile, cycle, pod, node)
        if status.is_success:
            status, _ = run_permit(profile, cycle, pod, node, now=now)
        run_unreserve(profile, cycle, pod, node)
    except StowplanError as problem:
        raise _broken(subject, case, pod, problem) from problem
    for failure in cycle.failures:
        raise _broken(subject, case, pod, failure)
    if not (status.is_success or status.is_wait or status.is_rejected):
        raise CheckFailed(
            f"Of {in_words(pod)} on node {node} (cluster {case.seed}): {status.message}.", _RAISES
        )
    if not hasattr(plugin, "unreserve"):
        return
    try:
        plugin.unreserve(asker.start(pod), pod, node)
    except Exception as problem:
        raise CheckFailed(
            f"{subject.name}.unreserve raises if reserve was not called before:"
            f" {describe(problem)}.",
            "allow that: when another plugin's reserve fails, unreserve of all plugins is called.",
        ) from problem
