"""What is shown: tables, the page, and the report of the targets."""

from __future__ import annotations

import cProfile
import json
import re
from html.parser import HTMLParser
from io import StringIO
from itertools import chain
from pathlib import Path

import pytest

from stowplan.bench.decision_report import decision_lines, read_decisions
from stowplan.bench.document import document
from stowplan.bench.figures import KUBE, RAW, RAW_EVENTS, STOWPLAN, Outcome, Spread
from stowplan.bench.page import page
from stowplan.bench.plots import nice_steps
from stowplan.bench.profiles import digest
from stowplan.bench.progress import Progress
from stowplan.bench.report import judge, report
from stowplan.bench.results import Measured
from stowplan.bench.targets import SETS, Row, targets
from stowplan.bench.terminal import aligned, describe, figure_lines, ratio_text, summary
from stowplan.errors import ConfigError
from tests.unit.bench.runs import result, run, setup

BASIC = "5000Nodes_10000Pods_QueueingHintsEnabled"


def measured(**rates: float) -> Measured:
    """SchedulingBasic as in the headline set, in three rounds."""
    names = {"stowplan": STOWPLAN, "kube": KUBE, "raw": RAW, "events": RAW_EVENTS}
    one = setup(name=BASIC, nodes=5000, pods=6000, measured=5000, scale=0.5)
    return Measured(
        one,
        [
            result(run(names[name], rate * (1 + number / 100), number), one)
            for name, rate in rates.items()
            for number in (1, 2, 3)
        ],
    )


# -- tables ---------------------------------------------------------------------------------------


def test_ratio_texts() -> None:
    assert ratio_text(Spread(3.14, 3.14, 3.14), is_limit=False) == "3.1x"
    assert ratio_text(Spread(0.798, 0.7, 0.85), is_limit=True) == "0.80 (0.70..0.85)"
    assert ratio_text(None, is_limit=True) == "-"


def test_table_has_medians_and_no_empty_rows() -> None:
    outcome = Outcome(
        [
            run(KUBE, 100, 1, latency_p50_s=None),
            run(STOWPLAN, 200, 1, latency_p50_s=None),
            run(STOWPLAN, 240, 2, latency_p50_s=None),
            run(STOWPLAN, 210, 3, latency_p50_s=None),
        ]
    )
    header, rates, spread, *others = aligned(figure_lines(outcome)).splitlines()
    assert header.split() == ["stowplan", "kube-scheduler"]
    assert rates.split() == ["pods/s", "210", "100"]
    assert spread.split()[-2:] == ["200..240", "100..100"]
    assert not any("p50" in line for line in others)
    assert any(line.startswith("creation to bind, p99 ms") for line in others)
    assert len({len(line) for line in (header, rates, spread, *others)}) == 1


def test_a_dash_where_only_some_have_a_figure() -> None:
    outcome = Outcome([run(STOWPLAN, 200), run(RAW, 300, last_event_s=None)])
    lines = {line[0]: line[1:] for line in figure_lines(outcome)}
    assert lines["last event after last bind, s"] == ["2.50", "-"]
    assert lines["bind to event, p99 s"] == ["3.00", "3.00"]


def test_description_says_scale_and_ratios() -> None:
    text = describe(measured(stowplan=900, kube=300, raw=1000, events=600))
    assert "5,000 of them measured (0.5 of what upstream has), stream, rounds: 3" in text
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
    progress = Progress(stream, lambda: now)
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
    progress = Progress(stream, lambda: now)
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
    assert not {"script", "link", "iframe", "img", "object", "embed"} & set(elements.names)
    assert not re.search(r"https?:|url\(|@import", text)
    assert elements.names.count("figure") == 6  # two overviews, and two for each workload
    assert elements.names.count("svg") == 2
    assert "prefers-color-scheme: dark" in text


def test_the_page_escapes_what_it_is_told() -> None:
    evil = setup(name="<script>alert(1)</script>", without_raw="a < b")
    text = page([Measured(evil, [result(run(STOWPLAN, 100), evil)])])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
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


@pytest.mark.parametrize("highest", [0.003, 0.7, 1, 3, 8.4, 99, 1644, 120_000])
def test_axes_have_round_numbers_that_cover_everything(highest: float) -> None:
    steps = nice_steps(highest)
    assert steps[0] == 0
    assert steps[-1] >= highest * 0.999999
    assert steps[-2] < highest
    assert 3 <= len(steps) <= 7
    assert all(f"{step:g}".strip("0.").replace(".", "") for step in steps[1:])


# -- targets --------------------------------------------------------------------------------------


def row(title: str) -> Row:
    return next(one for one in targets().rows if one.title == title)


@pytest.mark.parametrize(
    ("rates", "missed"),
    [
        ({"stowplan": 950, "kube": 300, "raw": 1000}, []),
        # Three quarters of what the machine can do are enough, where three times is more.
        ({"stowplan": 800, "kube": 300, "raw": 1000}, []),
        ({"stowplan": 600, "kube": 300, "raw": 1000}, ["against kube-scheduler", "against raw"]),
        ({"stowplan": 950, "kube": 300, "raw": 2000}, ["against raw"]),
    ],
)
def test_targets_against_both(rates: dict[str, float], missed: list[str]) -> None:
    verdicts = judge(row("Plain pods"), measured(**rates), 1.0)
    found = [one.what for one in verdicts if not one.is_met]
    # All test runs use the same CPU time.
    assert found == [*missed, "CPU per pod"]


def test_a_lower_limit_is_no_excuse_where_the_target_does_not_say_so() -> None:
    affinity = row("Affinity between pods")
    verdicts = judge(affinity, measured(stowplan=950, kube=300, raw=1000), 1.0)
    assert not verdicts[0].is_met
    assert verdicts[0].wanted == "at least 8x"
    assert verdicts[0].found == "3.2x, and no more than 3.3x can be: that is raw"
    verdicts = judge(affinity, measured(stowplan=950, kube=300, raw=3000), 1.0)
    assert verdicts[0].found == "3.2x"


def test_events_that_are_lost_or_late_are_told() -> None:
    one = measured(stowplan=900)
    one = Measured(
        one.setup,
        [
            result(run(STOWPLAN, 900, 1, events=2990)),
            result(run(STOWPLAN, 900, 2, event_lag_p99_s=19.0)),
        ],
    )
    told = [str(each) for each in judge(row("Plain pods"), one, 1.0) if not each.is_met]
    assert told == [
        "events: wanted one for every pod, found 10 missing",
        "events: wanted p99 at most 10 s after the bind, found p99 11.0 s",
    ]


def test_the_report_states_plainly_what_was_missed_and_not_measured() -> None:
    text = report([measured(stowplan=600, kube=300, raw=1000, events=700)], targets())
    missed = "- SchedulingBasic, against raw: wanted at least 0.75, found 0.60"
    assert missed in text.splitlines()
    assert "| missed: against kube-scheduler, against raw, CPU per pod |" in text
    assert f"- SchedulingNodeAffinity/{BASIC}: no result" in text.splitlines()
    assert "5,000, 5,000 (scale 0.5)" in text
    assert "612 (606..618)" in text
    assert "2 cores, some processor" in text
    assert "`stowplan bench misc`" in text


def test_the_report_shows_a_profile_of_what_missed() -> None:
    one = measured(stowplan=600, kube=300, raw=1000)
    one.profile = "scheduler/engine.py:1 attempt  50%"
    assert f"```text\n{one.profile}\n```" in report([one], targets())


def test_a_profile_names_modules_without_saying_where_they_are(tmp_path: Path) -> None:
    profile = tmp_path / "x.prof"
    profiler = cProfile.Profile()
    profiler.runcall(nice_steps, 5.0)
    profiler.dump_stats(profile)
    lines = digest(profile).splitlines()
    assert lines[0].split() == ["function", "share", "seconds", "calls"]
    assert any(re.match(r"bench/plots\.py:\d+ nice_steps +\S+% ", line) for line in lines)
    assert not any("/src/" in line for line in lines)


def test_the_report_of_an_invalid_workload_has_no_figures() -> None:
    text = report([measured(stowplan=1200, kube=300, raw=1000)], targets())
    assert f"- SchedulingBasic/{BASIC}: INVALID, round 1 does not count" in text
    assert "| SchedulingBasic | | | | | | | | | | not measured |" in text


def test_the_report_says_how_much_others_did_who_gave_way() -> None:
    one = measured(stowplan=900, kube=300)
    assert "Nice processes" not in report([one], targets())
    runs = [run(STOWPLAN, 900, nice_cores=0.2), run(KUBE, 300, nice_cores=1.76)]
    noisy = Measured(one.setup, [result(each, one.setup) for each in runs])
    assert "- Nice processes kept 0.2 to 1.8 cores busy meanwhile." in report([noisy], targets())


def test_the_report_says_which_runs_were_disturbed() -> None:
    one = measured(stowplan=950, kube=300, raw=1000)
    noisy = [result(run(KUBE, 300, 4, others_cores=0.9), one.setup)]
    text = report([Measured(one.setup, [*one.results, *noisy])], targets())
    assert "; 1 of 10 runs disturbed |" in text


def test_the_report_says_how_the_machine_itself_changed() -> None:
    one = measured(stowplan=900, kube=300)
    assert "fixed piece of work" not in report([one], targets())
    paces = (0.0012, 0.0013, 0.0021)
    runs = [run(STOWPLAN, 900, at, fixed_work_s=pace) for at, pace in enumerate(paces)]
    text = report([Measured(one.setup, [result(each, one.setup) for each in runs])], targets())
    assert "- A fixed piece of work took 1.20 to 2.10 ms of CPU time meanwhile, 1.30 in" in text


def test_the_report_says_how_many_rounds_do_not_count() -> None:
    one = measured(stowplan=950, kube=300, raw=1000)
    too_fast = [result(run(name, rate, 4), one.setup) for name, rate in ((STOWPLAN, 2), (RAW, 1))]
    text = report([Measured(one.setup, [*one.results, *too_fast])], targets())
    assert "; 1 of 4 rounds do not count |" in text


def test_sets_name_every_workload_of_the_targets() -> None:
    tests = [entry.workload.partition("/")[0] for entry in SETS["headline"]]
    assert tests[:3] == ["SchedulingBasic", "SchedulingNodeAffinity", "SchedulingSecrets"]
    assert len(tests) == 22
    rows = list(chain.from_iterable(one.entries for one in targets().rows))
    assert list(SETS["headline"][:-1]) == rows
    assert all("QueueingHintsEnabled" in entry.workload for entry in SETS["headline"])
    assert len(SETS["quick"]) == 3


def a_decision(
    group: str, kind: str, cost_us: float, *, nodes: int = 5000, existing: int = 10_000
) -> dict[str, object]:
    scenario = {"group": group, "kind": kind, "nodes": nodes, "existing": existing, "pods": 100}
    figures = {"decision_us": cost_us, "afterwards_us": 5.0, "first_us": 900.0}
    return {"scenario": scenario, "pods_per_s": 1e6 / cost_us, **figures}


def test_decisions_alone_are_held_against_their_targets(tmp_path: Path) -> None:
    file = tmp_path / "decisions.json"
    results = [
        a_decision("shapes", "one shape", 100),
        a_decision("shapes", "all distinct", 500),
        a_decision("existing pods", "one shape", 100, existing=10_000),
        a_decision("existing pods", "one shape", 119, existing=300_000),
        a_decision("nodes", "one shape", 10, nodes=1_000, existing=2_000),
        a_decision("nodes", "one shape", 201, nodes=20_000, existing=40_000),
    ]
    file.write_text(json.dumps({"results": results, "plugins_us": {}}))
    lines = list(decision_lines(read_decisions(file), targets().decisions))
    assert "| one shape, 5,000 nodes | at least 8,000 pods/s | 10,000 | met |" in lines
    assert "| all distinct, 5,000 nodes | at least 2,500 pods/s | 2,000 | MISSED |" in lines
    growth = (
        "| one shape, 10,000 to 300,000 existing pods | a decision costs at most 1.2x | 1.19x |"
    )
    assert f"{growth} met |" in lines
    by_nodes = "| one shape, 1,000 to 20,000 nodes | a decision costs at most 20x | 20.10x |"
    assert f"{by_nodes} MISSED |" in lines


def test_without_decisions_the_report_says_so(tmp_path: Path) -> None:
    assert read_decisions(tmp_path / "none.json") is None
    text = report([measured(stowplan=900)], targets())
    assert "Not measured; `python -m stowplan.bench.decisions" in text
    broken = tmp_path / "broken.json"
    broken.write_text("[]")
    with pytest.raises(ConfigError, match=r"broken\.json"):
        read_decisions(broken)
