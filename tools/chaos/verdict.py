"""What must hold after a run: the audit of etcd's history, and what only the run knows.

The audit judges every bind. The run adds pods that were never bound, and excuses bound pods
without an event that were gone, with their namespace or alone, before the next leader could write
it, which docs/events.md allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stowplan.audit import Finding, Options, Report, audit_history, etcd_history, read_audit_log
from stowplan.audit.etcd import save_history
from tools.chaos.observer import Seen

#: A new leader writes missing events within this time.
EVENT_GRACE_S = 40.0
#: Watches fall silent in storms, so a decision may be made on nodes of that age. Where the
#: schedulers have put pods they must know, whatever happens.
AUDIT = Options(in_flight_s=60.0, grace_s=10.0, event_ttl_s=6 * 3600.0)


@dataclass
class Verdict:
    """Findings, in words; empty lists are what is expected."""

    binds: int = 0
    revisions: int = 0
    #: By the audit's kinds.
    counts: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    #: Bound pods without an event that were gone soon after: the documented bound.
    gone_before_event: int = 0
    #: Everything that should not have happened.
    findings: list[str] = field(default_factory=list)


def audit(etcd_url: str, audit_log: Path, history: Path) -> Report:
    """Audit the whole run, and keep its history in a file that `stowplan audit` reads."""
    requests = list(read_audit_log(audit_log))
    revisions = save_history(etcd_history(etcd_url), history)
    return audit_history(revisions, requests=requests, options=AUDIT)


def judge(
    report: Report,
    seen: Mapping[str, Seen],
    pending: Iterable[str],
    deleted: Sequence[tuple[str, float]] = (),
) -> Verdict:
    """`seen` has the times of pods, `pending` those that were left over.

    `deleted` are namespaces, with the times at which their deletion began.
    """
    verdict = Verdict(report.judged, report.revisions)
    verdict.lost = [f"{path} was never bound" for path in pending]
    verdict.findings += verdict.lost
    for finding in report.findings:
        if finding.kind == "no-event" and _was_gone(seen.get(finding.uid), deleted):
            verdict.gone_before_event += 1
        else:
            verdict.counts[finding.kind] += 1
            verdict.findings.append(_words(finding))
    return verdict


def _was_gone(pod: Seen | None, deleted: Sequence[tuple[str, float]]) -> bool:
    # One that the observer has never seen was there for the time of an outage at most.
    if pod is None:
        return True
    ends = [pod.gone_at] if pod.gone_at else []
    ends += [at for name, at in deleted if name == pod.namespace and at >= pod.bound_at]
    return any(end - pod.bound_at < EVENT_GRACE_S for end in ends)


def _words(finding: Finding) -> str:
    where = f" on {finding.node}" if finding.node else ""
    return f"{finding.kind}: {finding.pod}{where}: {finding.message} (revision {finding.revision})"
