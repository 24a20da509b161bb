"""What is shown: tables, progress, and the page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from io import StringIO

import pytest

from stowplan.lab.bench.document import document
from stowplan.lab.bench.figures import KUBE, RAW, STOWPLAN, Spread, WorkloadRuns
from stowplan.lab.bench.page import page
from stowplan.lab.bench.progress import BenchProgress
from stowplan.lab.bench.results import Measured
from stowplan.lab.bench.terminal import describe, figure_lines, ratio_text, summary
from stowplan.present.tables import format_figures
from tests.unit.lab.bench.runs import BASIC, measured, result, run, setup

# -- tables ---------------------------------------------------------------------------------------


def test_ratio_texts() -> None:
    assert ratio_text(Spread(3.14, 3.14, 3.14), is_limit=False) == "3.1x"
    assert ratio_text(Spread(0.798, 0.7, 0.85), is_limit=True) == "0.80 (0.70..0.85)"
    assert ratio_text(None, is_limit=True) == "-"


def test_table_has_medians_and_no_empty_rows() -> None:
    outcome = WorkloadRuns(
        [
            run(KUBE, 100, 1, latency_p50_s=None),
            run(STOWPLAN, 200, 1, latency_p50_s=None),
            run(STOWPLAN, 240, 2, latency_p50_s=None),
            run(STOWPLAN, 210, 3, latency_p50_s=None),
        ]
    )
    header, rates, spread, *others = format_figures(figure_lines(outcome)).splitlines()
    assert header.split() == ["stowplan", "kube-scheduler"]
    assert rates.split() == ["pods/s", "210", "100"]
    assert spread.split()[-2:] == ["200..240", "100..100"]
    assert not any("p50" in line for line in others)
    assert any(line.startswith("creation to bind, p99 ms") for line in others)
    assert len({len(line) for line in (header, rates, spread, *others)}) == 1


def test_a_dash_where_only_some_have_a_figure() -> None:
    outcome = WorkloadRuns([run(STOWPLAN, 200), run(RAW, 300, last_event_s=None)])
    lines = {line[0]: line[1:] for line in figure_lines(outcome)}
    assert lines["last event after last bind, s"] == ["2.50", "-"]
    assert lines["bind to event, p99 s"] == ["3.00", "3.00"]


def test_description_says_scale_and_ratios() -> None:
    text = describe(measured(stowplan=900, kube=300, raw=1000, events=600))
    assert "5,000 of them measured (0.5 of what upstream has), backlog, rounds: 3" in text
    assert "stowplan / kube-scheduler = 3.0x" in text
    assert "stowplan / raw = 0.90" in text
    assert "stowplan / raw + events = 1.50" in text
    assert "INVALID" not in text
    assert "DISTURBED" not in text


def test_description_of_what_is_not_to_be_believed() -> None:
    text = describe(measured(stowplan=1200, raw=1000))
    assert text.count("INVALID: round ") == 3
    assert "stowplan / raw" not in text
    noisy = Measured(setup(), [result(run(STOWPLAN, 900, others_cores=0.9))])
    assert "DISTURBED: 1 of 1 runs had to share the machine" in describe(noisy)


def test_summary_has_a_row_for_each_workload() -> None:
    other = Measured(setup("PreemptionBasic"), [result(run(STOWPLAN, 200)), result(run(KUBE, 50))])
    header, first, second = summary(
        [measured(stowplan=900, kube=300, raw=1000), other]
    ).splitlines()
    assert header.split()[:4] == ["workload", "stowplan", "kube-scheduler", "raw"]
    assert first.split() == [f"SchedulingBasic/{BASIC}", "918", "306", "1020", "3.0x", "0.90", "-"]
    assert second.split() == ["PreemptionBasic/5Nodes", "200", "50", "-", "4.0x", "-", "-"]


def test_document_is_json_and_says_whether_it_is_valid() -> None:
    text = json.dumps(
        document([measured(stowplan=900, raw=1000), measured(stowplan=1200, raw=1000)])
    )
    good, bad = json.loads(text)["workloads"]
    assert good["valid"] is True
    assert good["ratios"]["raw"]["median"] == pytest.approx(0.9)
    assert good["contestants"]["raw"]["pods_per_s"] == {"median": 1020, "low": 1010, "high": 1030}
    assert good["setup"]["title"] == f"SchedulingBasic/{BASIC}"
    assert [one["run"]["round"] for one in good["runs"]] == [1, 2, 3, 1, 2, 3]
    assert good["runs"][0]["about"]["commit"] == "abc"
    assert bad["valid"] is False
    assert list(bad["invalid_rounds"]) == ["1", "2", "3"]


# -- progress -------------------------------------------------------------------------------------


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_one_line() -> None:
    now = 0.0
    stream = Terminal()
    progress = BenchProgress(stream, lambda: now)
    progress.begin("round 1")
    for step in range(10):
        now = step / 8
        progress.update(f"{step} pods")
    progress.say("done")
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\r\x1b[2K[1s] done\n")
    assert text.count("pods") == 5, "not more often than a person can read"


def test_progress_in_a_log_is_plain_and_sparse() -> None:
    now = 0.0
    stream = StringIO()
    progress = BenchProgress(stream, lambda: now)
    progress.begin("round 1")
    for step in range(40):
        now = float(step)
        progress.update(f"{step} pods")
    assert stream.getvalue().splitlines() == [
        "[0s] round 1: 0 pods",
        "[15s] round 1: 15 pods",
        "[30s] round 1: 30 pods",
    ]


# -- the page -------------------------------------------------------------------------------------


class Elements(HTMLParser):
    """Checks that what is opened is closed, and collects what could load something."""

    VOID = ("meta", "line", "br", "wbr")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.references += [
            f"{name}={value}"
            for name, value in attrs
            if name in ("src", "href", "xlink:href", "data", "action", "srcset", "poster")
        ]

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_opens_nothing_external() -> None:
    text = page([measured(stowplan=900, kube=300, raw=1000, events=600), measured(stowplan=1)])
    elements = Elements()
    elements.feed(text)
    assert elements.open == []
    assert elements.references
    assert {reference.partition("#")[0] for reference in elements.references} == {"href="}
    assert not {"link", "iframe", "img", "object", "embed"} & set(elements.names)
    assert not re.search(r"url\(|@import", text)
    assert elements.names.count("figure") == 6  # two overviews, and two for each workload
    assert text.count('<figure class="chart">') == 2
    assert "prefers-color-scheme: dark" in text


def test_the_page_escapes_what_it_is_told() -> None:
    evil = setup(name="<script>alert(1)</script>", without_raw="a < b")
    text = page([Measured(evil, [result(run(STOWPLAN, 100), evil)])])
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    assert "a &lt; b" in text


def test_the_page_of_an_invalid_workload_shows_no_figures() -> None:
    text = page([measured(stowplan=1200, raw=1000)])
    assert text.count("INVALID") == 3
    assert "<figure" not in text


def test_the_page_tells_workloads_of_one_test_apart() -> None:
    def one(test: str, name: str) -> Measured:
        of = setup(test=test, name=name)
        return Measured(of, [result(run(STOWPLAN, 300), of), result(run(KUBE, 100), of)])

    text = page([one("Many", "5Nodes"), one("Many", "9Nodes"), one("Single", "5Nodes")])
    labels = re.findall(r'<a href="#(.+?)">(.+?)</a>', text)
    assert [(to, label.replace("<wbr>", "")) for to, label in labels] == [
        ("Many/5Nodes", "Many/5Nodes"),
        ("Many/9Nodes", "Many/9Nodes"),
        ("Single/5Nodes", "Single"),
    ]


def test_the_page_says_which_runs_were_disturbed() -> None:
    one = setup()
    runs = [run(STOWPLAN, 300, others_cores=0.9), run(KUBE, 100)]
    text = page([Measured(one, [result(each, one) for each in runs])])
    assert "DISTURBED: 1 of 2 runs had to share the machine" in text
