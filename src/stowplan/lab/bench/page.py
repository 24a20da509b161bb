"""The results of a benchmark as an HTML page with plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from stowplan.console import file_page, plots
from stowplan.console.plots import Bar, Series, bars, breakable, lines
from stowplan.lab.bench.figures import FEW_PODS, KUBE, RAW, RAW_EVENTS, STOWPLAN
from stowplan.lab.bench.results import Measured
from stowplan.lab.bench.terminal import (
    disturbance,
    few_pods,
    figure_lines,
    number,
    ratio_text,
    scale_note,
)

_BUCKET_S: Final = 0.5
#: By contestant: a colour of the look.
_COLORS: Final = {STOWPLAN: "line-1", KUBE: "line-2", RAW: "faint", RAW_EVENTS: "good"}

_STYLE: Final = """
main { max-width: 60rem; } header { padding-block: .6rem; } h1 { font-size: 1.6rem; }
h2 { scroll-margin-top: 4rem; } p.about { color: var(--faint); } p.bad { font-weight: 600; }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; padding-left: 0; position: sticky; left: 0;
  background: var(--paper); }
@media (max-width: 44rem) { th, td { padding: .25rem .35rem; } thead th { white-space: normal; }
  td:first-child { white-space: normal; min-width: 6rem; } }
"""


def page(all_measured: Sequence[Measured]) -> str:
    title = "Stowplan beside kube-scheduler"
    body = _body(title, all_measured)
    return file_page.page(title, body, style=plots.STYLE + _STYLE)


def _body(title: str, all_measured: Sequence[Measured]) -> Iterator[str]:
    yield f"<h1>{title}</h1>"
    abouts = {
        (each.about.machine, each.about.kubernetes, each.about.python)
        for one in all_measured
        for each in one.results
    }
    for machine, kubernetes, python in sorted(abouts):
        text = f"{machine}; Kubernetes {kubernetes}, Python {python}"
        yield f'<p class="about">{escape(text)}</p>'
    yield (
        "<p>Pods per second as binds, end to end on a fresh kube-apiserver and etcd for every run; "
        "contestants take turns. <b>raw</b> binds every pod to the next node without thinking: the "
        "limit of this machine. Bars are medians, whiskers go from the lowest to the highest "
        "round.</p>"
    )
    if len(all_measured) > 1:
        yield from _overview(all_measured)
    for one in all_measured:
        yield from _section(one)


def _overview(all_measured: Sequence[Measured]) -> Iterator[str]:
    tests = Counter(one.setup.test for one in all_measured)
    for below, is_limit, heading, mark in (
        (KUBE, False, "Times kube-scheduler's pods per second", "as many as kube-scheduler"),
        (RAW, True, "Share of what bare bindings reach", "as many as raw"),
    ):
        rows = [
            Bar(
                one.setup.test if tests[one.setup.test] == 1 else one.setup.title,
                ratio.median,
                ratio.low,
                ratio.high,
                ratio_text(ratio, is_limit=is_limit),
                _COLORS[STOWPLAN],
                one.setup.title,
            )
            for one in all_measured
            if (ratio := one.outcome.ratio(below)) is not None
        ]
        if rows:
            yield f"<h2>{heading}</h2>"
            yield f'<p class="about">The dashed line: {mark}.</p>'
            yield bars(heading, rows, mark=1.0)


def _section(measured: Measured) -> Iterator[str]:
    setup, outcome = measured.setup, measured.outcome
    yield f'<h2 id="{escape(setup.title)}">{breakable(setup.title)}</h2>'
    yield (
        f'<p class="about">{setup.nodes:,} nodes, {setup.pods:,} pods, {setup.measured:,} of them '
        f"measured{scale_note(setup.scale)}, {setup.mode}, rounds: {measured.rounds}</p>"
    )
    for fault in outcome.invalid.values():
        yield f'<p class="bad">INVALID: {escape(fault)}</p>'
    if measured.mixture:
        yield f'<p class="bad">MIXED: {escape(measured.mixture)}</p>'
    if setup.measured < FEW_PODS:
        yield f'<p class="about">FEW PODS: {escape(few_pods(setup.measured))}</p>'
    if outcome.disturbed:
        yield f'<p class="about">DISTURBED: {escape(disturbance(outcome))}</p>'
    if not outcome.is_valid:
        return
    yield bars(
        f"{setup.title}, pods per second",
        [
            Bar(
                name,
                rate.median,
                rate.low,
                rate.high,
                f"{number(rate, 0)} pods/s",
                _color(name),
            )
            for name in outcome.contestants
            if (rate := outcome.rate(name)) is not None
        ],
    )
    shown = outcome.runs[0].round
    runs = [run for name in outcome.contestants for run in outcome.of(name) if run.round == shown]
    buckets = max([len(run.binds_over_time) for run in runs] + [1])
    series = [
        Series(
            run.contestant,
            [count / _BUCKET_S for count in run.binds_over_time]
            + [None] * (buckets - len(run.binds_over_time)),
            _color(run.contestant),
            dashed=run.contestant == RAW_EVENTS,
        )
        for run in runs
    ]
    caption = f"Pods bound per second, round {shown}"
    at = [(bucket + 0.5) * _BUCKET_S for bucket in range(buckets)]
    yield lines(f"{setup.title}, binds over time", caption, at, series, until_s=buckets * _BUCKET_S)
    ratios = [
        f"{escape(below)}: <b>{ratio_text(ratio, is_limit=below != KUBE)}</b>"
        for below in (KUBE, RAW, RAW_EVENTS)
        if (ratio := outcome.ratio(below)) is not None
    ]
    if ratios:
        yield f"<p>Stowplan beside {', '.join(ratios)}</p>"
    if setup.without_raw:
        yield f'<p class="about">raw did not take part: {escape(setup.without_raw)}.</p>'
    yield file_page.table(figure_lines(outcome))
    commands = {" ".join(each.about.command) for each in measured.results}
    commits = {each.about.commit for each in measured.results if each.about.commit}
    said = "; ".join(f"<code>{escape(command)}</code>" for command in sorted(commands))
    yield f'<p class="about">{said} at {escape(", ".join(sorted(commits)) or "a release")}</p>'


def _color(contestant: str) -> str:
    return _COLORS.get(contestant, "faint")
