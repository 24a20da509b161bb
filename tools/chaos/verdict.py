"""What must hold after a run: the audit of etcd's history, and what only the run knows.

The audit judges every bind. The run adds pods that were never bound, and counts bound pods without
an event apart where docs/events.md allows them (`announcements`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from stowplan.audit import Finding, Options, Report, audit_history, etcd_history, read_audit_log
from stowplan.audit.etcd import save_history
from tools.chaos.announcements import Announcements

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
    #: Bound pods without an event that were gone before it: the documented bound.
    gone_before_event: int = 0
    #: Everything that should not have happened.
    findings: list[str] = field(default_factory=list)


def audit(etcd_url: str, audit_log: Path, history: Path) -> tuple[Report, Announcements]:
    """Audit the whole run, and keep its history in a file that `stowplan audit` reads."""
    requests = list(read_audit_log(audit_log))
    announcements = Announcements()
    revisions = announcements.follow(save_history(etcd_history(etcd_url), history))
    return audit_history(revisions, requests=requests, options=AUDIT), announcements


def judge(
    report: Report, pending: Iterable[str], is_overdue: Callable[[str], bool] = lambda uid: True
) -> Verdict:
    """`pending` are pods that were left over; `is_overdue` judges one without an event, by UID."""
    verdict = Verdict(report.judged, report.revisions)
    verdict.lost = [f"{path} was never bound" for path in pending]
    verdict.findings += verdict.lost
    for finding in report.findings:
        if finding.kind == "no-event" and not is_overdue(finding.uid):
            verdict.gone_before_event += 1
        else:
            verdict.counts[finding.kind] += 1
            verdict.findings.append(_words(finding))
    return verdict


def _words(finding: Finding) -> str:
    where = f" on {finding.node}" if finding.node else ""
    return f"{finding.kind}: {finding.pod}{where}: {finding.message} (revision {finding.revision})"
