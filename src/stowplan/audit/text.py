"""A report for people: a line for each finding, then what was checked."""

from __future__ import annotations

from collections import Counter

from stowplan.audit.findings import Finding, Report
from stowplan.present.tables import format_table

_LATER = "(may have become so after binding)"


def report_text(report: Report) -> str:
    parts = []
    if report.findings:
        headers = ["finding", "pod", "node", "scheduler", "since", "what"]
        if report.revisions:
            headers.insert(4, "revision")
        parts.append(format_table(headers, [_row(each, report) for each in report.findings]))
        parts.append("\n")
    parts += [f"Note: {each}.\n" for each in report.notes]
    parts.append(f"{summary(report)}\n")
    return "".join(parts)


def summary(report: Report) -> str:
    """What was found and checked, in one line."""
    counts = Counter(each.kind for each in report.findings)
    found = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    text = f"{_many(len(report.findings), 'finding')}"
    if found:
        text += f": {found}"
        later = sum(each.maybe_later for each in report.findings)
        if later:
            text += f"; {later} may have become so after binding"
    if report.revisions:
        checked = f"{_many(report.judged, 'binding')} in {_many(report.revisions, 'revision')}"
    else:
        checked = f"{_many(report.judged, 'bound pod')} of {report.pods}"
    return f"{text}. Checked {checked}, {_many(report.nodes, 'node')}."


def _row(finding: Finding, report: Report) -> list[object]:
    what = f"{finding.message} {_LATER}" if finding.maybe_later else finding.message
    row: list[object] = [finding.kind, finding.pod, finding.node, finding.scheduler, finding.time]
    if report.revisions:
        row.insert(4, finding.revision or "")
    return [*row, what]


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
