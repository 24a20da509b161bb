"""Summary of a followed recording: how many decisions agree, and which do not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from stowplan.config.defaults import default_config
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.errors import StowplanError
from stowplan.framework.registry import Registry
from stowplan.judge.configuration import Configuration, default_registry
from stowplan.present.tables import counted, format_table, printable
from stowplan.recording.decisions import EVENT, LEDGER
from stowplan.recording.entries import Entry
from stowplan.recording.reading import MOST_GAPS, read_sessions
from stowplan.replay.following import Comparison, Follower, Verdict
from stowplan.replay.ordering import Ordering, changes

#: Number of differences, schedulers and results that the text lists.
_LISTED: Final = 20
_SOURCES: Final = {EVENT: "events of the scheduler", LEDGER: "the scheduler's ledger"}


class Tally:
    """Counts of comparisons, and the first differences."""

    def __init__(self) -> None:
        self.verdicts: Counter[Verdict] = Counter()
        #: How often each plugin prefers another node.
        self.plugins: Counter[str] = Counter()
        self.differences: list[Comparison] = []
        self.refused: Counter[str] = Counter()
        self.unserved: Counter[str] = Counter()
        self.told: Counter[tuple[str, str]] = Counter()
        self.gaps: list[tuple[float, str]] = []
        #: What the first plugin that failed raised; "" if none failed.
        self.failure = ""

    @property
    def decided(self) -> int:
        return sum(self.verdicts.values())

    @property
    def agreed(self) -> int:
        return self.verdicts[Verdict.SAME] + self.verdicts[Verdict.SAME_BEFORE]

    @property
    def agreement(self) -> float | None:
        """Share of the decisions that agree; None if there are none."""
        return self.agreed / self.decided if self.decided else None

    @property
    def progress(self) -> str:
        """A short summary for a status line."""
        if self.agreement is None:
            return "no decision"
        return f"{counted(self.decided, 'decision')}, {self.agreement:.2%} the same"

    def add(self, comparison: Comparison) -> None:
        self.verdicts[comparison.verdict] += 1
        if comparison.verdict is Verdict.FAILED:
            self.failure = self.failure or comparison.note
        if not comparison.agrees:
            self.plugins.update(plugin for plugin, lead in comparison.lead.items() if lead > 0)
            if len(self.differences) < _LISTED:
                self.differences.append(comparison)

    def close(self, follower: Follower) -> None:
        """Add the counts of a follower that has ended."""
        self.gaps += follower.gaps[: MOST_GAPS - len(self.gaps)]
        self.refused += follower.refused
        self.unserved += follower.unserved
        self.told += follower.told

    def check(self) -> None:
        """Raise StowplanError if a plugin failed."""
        if number := self.verdicts[Verdict.FAILED]:
            raise StowplanError(
                f"a plugin failed for {counted(number, 'decision')}: {self.failure}."
                " Fix: correct the plugin"
            )

    @property
    def _why_none(self) -> str:
        if seen := self.unserved.total():
            return (
                f"{counted(seen, 'binding')} seen, none of a pod that this configuration has a"
                " profile for, so there is nothing to compare"
            )
        return "No binding was seen, so there is nothing to compare"

    def text(self, *, lists: bool = True) -> str:
        """The summary as text, with a table of differences if `lists`."""
        lines = [
            self._why_none
            if self.agreement is None
            else f"{counted(self.decided, 'decision')}; in {self.agreed:,} ({self.agreement:.2%}) "
            "the chosen node is among the best ones here"
        ]
        if earlier := self.verdicts[Verdict.SAME_BEFORE]:
            lines.append(f"{earlier:,} of them on the cluster as it was around the binding")
        for verdict, what in (
            (Verdict.OTHER, "another node has a higher score"),
            (Verdict.REJECTED, "a filter rejects the chosen node"),
            (Verdict.PENDING, "no node fits"),
            (Verdict.FAILED, "a plugin failed"),
        ):
            if number := self.verdicts[verdict]:
                lines.append(f"{number:,}: {what}")
        if self.plugins:
            told = ", ".join(f"{name} {number:,}" for name, number in self.plugins.most_common(5))
            lines.append(f"scores that made the difference: {told}")
        for why, number in self.refused.most_common(_LISTED):
            lines.append(f"left out: {counted(number, 'change')}: {why}")
        if (others := len(self.refused) - _LISTED) > 0:
            lines.append(f"and changes for {counted(others, 'more reason')} (-o json)")
        for name, number in self.unserved.most_common(_LISTED):
            lines.append(f"left out: {counted(number, 'pod')} of schedulerName {name or '(none)'}")
        if (others := len(self.unserved) - _LISTED) > 0:
            lines.append(f"and pods of {counted(others, 'more schedulerName')} (-o json)")
        for (result, source), number in self.told.most_common(_LISTED):
            lines.append(
                f"{counted(number, 'attempt')} {result}, by {_SOURCES.get(source, source)}"
            )
        if (others := len(self.told) - _LISTED) > 0:
            lines.append(f"and attempts with {counted(others, 'more result')} (-o json)")
        lines += [f"gap at {at:,.1f} s: {note}" for at, note in self.gaps[:5]]
        if len(self.gaps) > 5:
            lines.append(f"and {counted(len(self.gaps) - 5, 'more gap')}")
        text = "".join(f"{printable(line)}\n" for line in lines)
        if not self.differences or not lists:
            return text
        rows = [
            (f"{each.at:,.1f} s", each.pod, each.node, ", ".join(each.best) or "none", reason(each))
            for each in self.differences
        ]
        table = format_table(("at", "pod", "recorded", "here", "because"), rows)
        more = self.decided - self.agreed - len(rows)
        return f"{text}\n{table}" + (f"and {more:,} more (--decisions)\n" if more > 0 else "")

    def data(self) -> dict[str, Any]:
        """The summary as data."""
        return {
            "decisions": self.decided,
            "agreement": None if self.agreement is None else round(self.agreement, 6),
            "verdicts": {verdict.value: self.verdicts[verdict] for verdict in Verdict},
            "plugins": dict(self.plugins.most_common()),
            "refused": dict(self.refused),
            "unserved": dict(self.unserved),
            "told": [
                {"result": result, "source": source, "attempts": number}
                for (result, source), number in sorted(self.told.items())
            ],
            "gaps": [{"at": at, "note": note} for at, note in self.gaps],
            "differences": [comparison_data(each) for each in self.differences],
        }


def configuration_of(
    config: KubeSchedulerConfiguration | None, registry: Registry | None
) -> Configuration:
    """A configuration to compare with; None stands for the defaults."""
    return Configuration(config or default_config(), registry or default_registry())


def follow_file(file: Path, configuration: Configuration, tally: Tally) -> Iterator[Comparison]:
    """Compare all decisions of a recording, and count them in `tally`.

    Times are seconds since the first session began, as in `replay` and `compare`.
    """
    for session in read_sessions(file):
        follower = Follower(configuration)
        for comparison in follow_entries(follower, session.entries):
            tally.add(comparison)
            yield comparison
        tally.close(follower)


def follow_entries(follower: Follower, entries: Iterable[Entry]) -> Iterator[Comparison]:
    """Compare all decisions of a session."""
    ordering = Ordering()
    for change in changes(entries):
        ordering.put(change)
        yield from follower.follow(ordering, change.at)
    yield from follower.follow(ordering)


def comparison_data(each: Comparison) -> dict[str, Any]:
    return {
        "at": each.at,
        "pod": each.pod,
        "node": each.node,
        "verdict": each.verdict.value,
        "best": list(each.best),
        "bestCount": each.best_count,
        "lead": dict(each.lead),
        "note": each.note,
    }


def comparison_line(each: Comparison) -> str:
    return json.dumps(comparison_data(each), ensure_ascii=False, sort_keys=True) + "\n"


def reason(each: Comparison) -> str:
    """Why this configuration decides otherwise."""
    if each.note:
        return each.note
    return ", ".join(f"{plugin} {lead:+d}" for plugin, lead in each.lead.items())
