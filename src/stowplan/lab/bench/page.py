"""The results of a benchmark as an HTML page with plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

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
from stowplan.present import html, plots
from stowplan.present.plots import Bar, Series, bars, breakable, lines

_BUCKET_S: Final = 0.5
_COLORS: Final = {STOWPLAN: "ours", KUBE: "kube", RAW: "raw", RAW_EVENTS: "raw-events"}
_COLOURS: Final[html.Colours] = {
    "ours": ("#0b7285", "#3bc9db"),
    "kube": ("#d9480f", "#ff922b"),
    "raw": ("#868e96", "#868e96"),
    "raw-events": ("#adb5bd", "#5c636a"),
}

_STYLE: Final = """
body { max-width: 58rem; } p.bad { font-weight: 600; }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; padding-left: 0; position: sticky; left: 0;
  background: var(--paper); }
@media (max-width: 44rem) { th, td { padding: .25rem .35rem; } th { white-space: normal; }
  td:first-child { white-space: normal; min-width: 6rem; } }
"""


def page(all_measured: Sequence[Measured]) -> str:
    title = "Stowplan beside kube-scheduler"
    body = _body(title, all_measured)
    return html.page(title, body, colours=_COLOURS, style=plots.STYLE + _STYLE)


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
                "ours",
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
    series = [
        Series(
            run.contestant,
            [
                ((bucket + 0.5) * _BUCKET_S, count / _BUCKET_S)
                for bucket, count in enumerate(run.binds_over_time)
            ],
            _color(run.contestant),
            dashed=run.contestant == RAW_EVENTS,
        )
        for name in outcome.contestants
        for run in outcome.of(name)
        if run.round == shown
    ]
    caption = f"Pods bound per second, round {shown}"
    until_s = max([len(line.points) for line in series] + [1]) * _BUCKET_S
    yield lines(f"{setup.title}, binds over time", caption, series, until_s=until_s)
    ratios = [
        f"{escape(below)}: <b>{ratio_text(ratio, is_limit=below != KUBE)}</b>"
        for below in (KUBE, RAW, RAW_EVENTS)
        if (ratio := outcome.ratio(below)) is not None
    ]
    if ratios:
        yield f"<p>Stowplan beside {', '.join(ratios)}</p>"
    if setup.without_raw:
        yield f'<p class="about">raw did not take part: {escape(setup.without_raw)}.</p>'
    yield html.table(figure_lines(outcome))
    commands = {" ".join(each.about.command) for each in measured.results}
    commits = {each.about.commit for each in measured.results if each.about.commit}
    said = "; ".join(f"<code>{escape(command)}</code>" for command in sorted(commands))
    yield f'<p class="about">{said} at {escape(", ".join(sorted(commits)) or "a release")}</p>'


def _color(contestant: str) -> str:
    return _COLORS.get(contestant, "raw")
