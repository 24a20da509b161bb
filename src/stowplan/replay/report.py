"""The result of following a recording: how many decisions agree, and where they do not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from stowplan.config.defaults import default_config
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.framework.registry import Registry
from stowplan.judge.configuration import Configuration, default_registry
from stowplan.present.tables import format_table, printable
from stowplan.recording.entries import Entry
from stowplan.recording.reading import Problems, read_sessions
from stowplan.replay.following import Comparison, Follower, Verdict
from stowplan.replay.ordering import Ordering, changes

#: Differences that are listed; counts are of all.
_LISTED: Final = 20


class Tally:
    """Counts of comparisons, and the first differences."""

    def __init__(self) -> None:
        self.verdicts: Counter[Verdict] = Counter()
        #: Plugins that prefer another node, by how often.
        self.plugins: Counter[str] = Counter()
        self.differences: list[Comparison] = []
        self.unserved: Counter[str] = Counter()
        self.gaps: list[tuple[float, str]] = []

    @property
    def decided(self) -> int:
        return sum(self.verdicts.values())

    @property
    def agreed(self) -> int:
        return self.verdicts[Verdict.SAME] + self.verdicts[Verdict.SAME_BEFORE]

    @property
    def agreement(self) -> float:
        return self.agreed / self.decided if self.decided else 1.0

    def add(self, comparison: Comparison) -> None:
        self.verdicts[comparison.verdict] += 1
        if not comparison.agrees:
            self.plugins.update(plugin for plugin, lead in comparison.lead.items() if lead > 0)
            if len(self.differences) < _LISTED:
                self.differences.append(comparison)

    def close(self, follower: Follower) -> None:
        """Add what the follower counted itself."""
        self.gaps += follower.gaps
        self.unserved += follower.unserved

    def text(self, *, lists: bool = True) -> str:
        """For people; `lists` the differences."""
        lines = [
            f"{self.decided:,} recorded decisions; in {self.agreed:,} ({self.agreement:.2%}) the "
            "recorded node is among the best ones here"
        ]
        if earlier := self.verdicts[Verdict.SAME_BEFORE]:
            lines.append(f"{earlier:,} of them on the cluster as it was just before the binding")
        for verdict, what in (
            (Verdict.OTHER, "another node has a higher score"),
            (Verdict.REJECTED, "a filter rejects the recorded node"),
            (Verdict.PENDING, "no node fits"),
        ):
            if number := self.verdicts[verdict]:
                lines.append(f"{number:,}: {what}")
        if self.plugins:
            told = ", ".join(f"{name} {number:,}" for name, number in self.plugins.most_common(5))
            lines.append(f"scores that made the difference: {told}")
        for name, number in self.unserved.most_common():
            lines.append(f"{number:,} pods of schedulerName {name or '(none)'} were left out")
        lines += [f"gap at {at:,.1f} s: {note}" for at, note in self.gaps[:5]]
        if len(self.gaps) > 5:
            lines.append(f"and {len(self.gaps) - 5:,} more gaps")
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
        """For programs."""
        return {
            "decisions": self.decided,
            "agreement": round(self.agreement, 6),
            "verdicts": {verdict.value: self.verdicts[verdict] for verdict in Verdict},
            "plugins": dict(self.plugins.most_common()),
            "unserved": dict(self.unserved),
            "gaps": [{"at": at, "note": note} for at, note in self.gaps],
            "differences": [comparison_data(each) for each in self.differences],
        }


def configuration_of(
    config: KubeSchedulerConfiguration | None, registry: Registry | None
) -> Configuration:
    """None: the defaults."""
    return Configuration(config or default_config(), registry or default_registry())


def follow_file(
    file: Path, configuration: Configuration, tally: Tally, problems: Problems
) -> Iterator[Comparison]:
    """The comparisons of a recording, counted in `tally`."""
    for session in read_sessions(file, problems):
        follower = Follower(configuration)
        for comparison in follow_entries(follower, session.entries):
            tally.add(comparison)
            yield comparison
        tally.close(follower)


def follow_entries(follower: Follower, entries: Iterable[Entry]) -> Iterator[Comparison]:
    """The comparisons of a whole session."""
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
    """Why this configuration differs."""
    if each.note:
        return each.note
    return ", ".join(f"{plugin} {lead:+d}" for plugin, lead in each.lead.items())
