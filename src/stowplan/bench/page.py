"""The page with plots: one HTML file that needs nothing else, to be opened or sent around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from stowplan.bench.figures import KUBE, RAW, RAW_EVENTS, STOWPLAN, Outcome
from stowplan.bench.plots import Bar, Line, bars, lines
from stowplan.bench.results import Measured
from stowplan.bench.terminal import figure_lines, number, ratio_text, scale_note

_BUCKET_S: Final = 0.5
_COLORS: Final = {STOWPLAN: "ours", KUBE: "kube", RAW: "raw", RAW_EVENTS: "raw-events"}

_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2126; --faint: #6a737d; --rule: #dfe3e8;
  --ours: #0b7285; --kube: #d9480f; --raw: #868e96; --raw-events: #adb5bd; --bad: #b00020; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181c; --ink: #e6e8ea; --faint: #98a2ad;
  --rule: #2e353c; --ours: #3bc9db; --kube: #ff922b; --raw: #868e96; --raw-events: #5c636a;
  --bad: #ff6b6b; } }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .3rem; }
p.about, td.empty { color: var(--faint); } p.bad { color: var(--bad); font-weight: 600; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--rule);
  white-space: nowrap; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; max-width: 46rem; height: auto; display: block; margin: 1rem 0; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg text.axis { fill: var(--faint); }
.grid { stroke: var(--rule); } .whisker { stroke: var(--ink); stroke-width: 2; }
.line { fill: none; stroke-width: 2; } .mark { stroke: var(--ink); stroke-dasharray: 4 4; }
code { font-size: .9em; }
"""


def page(all_measured: Sequence[Measured]) -> str:
    title = "Stowplan beside kube-scheduler"
    body = "\n".join(_body(title, all_measured))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


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
        "limit of this machine. Bars are medians, whiskers go from the slowest to the fastest "
        "round.</p>"
    )
    if len(all_measured) > 1:
        yield from _overview(all_measured)
    for one in all_measured:
        yield from _section(one)


def _overview(all_measured: Sequence[Measured]) -> Iterator[str]:
    for below, is_limit, heading in (
        (KUBE, False, "Times kube-scheduler's pods per second"),
        (RAW, True, "Share of what bare bindings reach"),
    ):
        rows = [
            Bar(one.setup.test, ratio, ratio_text(ratio, is_limit=is_limit), "ours")
            for one in all_measured
            if (ratio := one.outcome.ratio(below)) is not None
        ]
        if rows:
            yield f"<h2>{heading}</h2>"
            yield bars(heading, rows, label_width=300, mark=1.0)


def _section(measured: Measured) -> Iterator[str]:
    setup, outcome = measured.setup, measured.outcome
    yield f"<h2>{escape(setup.title)}</h2>"
    yield (
        f'<p class="about">{setup.nodes:,} nodes, {setup.pods:,} pods, {setup.measured:,} of them '
        f"measured{scale_note(setup.scale)}, {setup.mode}, rounds: {measured.rounds}</p>"
    )
    for fault in outcome.invalid.values():
        yield f'<p class="bad">INVALID: {escape(fault)}</p>'
    if measured.mixture:
        yield f'<p class="bad">{escape(measured.mixture)}</p>'
    if not outcome.is_valid:
        return
    yield bars(
        f"{setup.title}, pods per second",
        [
            Bar(name, rate, f"{number(rate, 0)} pods/s", _color(name))
            for name in outcome.contestants
            if (rate := outcome.rate(name)) is not None
        ],
    )
    series = [
        Line(name, [count / _BUCKET_S for count in run.binds_over_time], _color(name))
        for name in outcome.contestants
        if (run := next(iter(outcome.of(name)), None)) is not None
    ]
    yield lines(f"{setup.title}, binds over time", series, step_s=_BUCKET_S, unit="pods/s")
    ratios = [
        f"{escape(below)}: <b>{ratio_text(ratio, is_limit=below != KUBE)}</b>"
        for below in (KUBE, RAW, RAW_EVENTS)
        if (ratio := outcome.ratio(below)) is not None
    ]
    if ratios:
        yield f"<p>Stowplan beside {', '.join(ratios)}</p>"
    if setup.without_raw:
        yield f'<p class="about">raw did not take part: {escape(setup.without_raw)}.</p>'
    yield _table(outcome)
    commands = {" ".join(each.about.command) for each in measured.results}
    commits = {each.about.commit for each in measured.results if each.about.commit}
    said = "; ".join(f"<code>{escape(command)}</code>" for command in sorted(commands))
    yield f'<p class="about">{said} at {escape(", ".join(sorted(commits)) or "a release")}</p>'


def _table(outcome: Outcome) -> str:
    titles, *rows = figure_lines(outcome)
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _color(contestant: str) -> str:
    return _COLORS.get(contestant, "raw")
