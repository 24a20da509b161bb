"""Every planted mistake is found by the check that is there for it, and by no other."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.framework.plugin import Plugin
from stowplan.plugins.registry import IN_TREE
from stowplan.testing import plugin_benchmark
from stowplan.testing.plugin_checks import CHECKS, Finding, Subject, check_plugin, load_subject
from stowplan.testing.plugin_checks.cases import make_case
from tests.unit.testing import planted

EXAMPLES = Path(__file__).parents[3] / "examples"
#: A process of its own for each plugin takes longer than all others together.
QUICK = [name for name in CHECKS if name != "processes"]

#: What is planted, which checks find it, and words that its message must have.
PLANTED: list[tuple[type[Plugin], set[str], str]] = [
    (planted.Remembering, {"same-question"}, "answers the same question differently"),
    (planted.Shared, {"instances"}, "in one instance"),
    (planted.Dicing, {"same-question", "no-effects", "instances"}, "global random"),
    (planted.ReadsClock, {"no-effects"}, "read the clock"),
    (planted.ReadsDate, {"no-effects"}, "datetime.now"),
    (planted.Sleeping, {"no-effects"}, "slept"),
    (planted.NumpyChance, {"no-effects"}, "numpy.random"),
    (planted.StartsThread, {"no-effects"}, "started a thread"),
    (planted.ReadsFile, {"no-effects"}, "opened a file"),
    (planted.UsesClient, {"changes-nothing"}, "used handle.record"),
    (planted.Mutating, {"changes-nothing"}, "changed the pod"),
    (planted.FloatColumns, {"answers"}, "columns are whole numbers, and this is float64"),
    (planted.FloatScore, {"answers", "dtypes"}, "answered 50.5 for node worker-0"),
    (planted.FloatNormalize, {"answers"}, "an array of float64"),
    (planted.NotANumber, {"answers"}, "an array of float64"),
    (planted.PodHint, {"events"}, "pods change?"),
    (planted.HalfWritten, {"dtypes"}, "rows unwritten"),
    (planted.UnknownVerdict, {"answers", "dtypes"}, "wrote 2, but `verdicts` has 1"),
    (planted.OutOfRange, {"answers"}, "invalid score 101"),
    (planted.Raising, {"answers"}, "breaks the attempt of pod"),
    (planted.Silent, {"answers"}, "without a reason"),
    (planted.Disagreeing, {"forms"}, "filter_columns says"),
    (planted.WrongSign, {"signature"}, "leaves something out"),
    (planted.StaleColumns, {"kept-columns"}, "out of date"),
    (planted.StaleAnnotations, {"kept-columns"}, "reads = Reads.POD_SPECS"),
    (planted.StaleStatus, {"kept-columns"}, "reads = Reads.POD_SPECS"),
    (planted.Deaf, {"events"}, "misses what helps"),
    (planted.BadHint, {"events"}, "raises"),
    (planted.Slow, {"cost"}, "times the work for"),
    (planted.SlowColumns, {"cost"}, "write the column with numpy"),
    (planted.LazyArguments, {"arguments"}, "takes podsPerPoint: 0 and breaks later"),
    (planted.WrongParameters, {"contract", "answers"}, "pre_score takes (self, cycle, rows)"),
    (planted.Misspelt, {"contract"}, "call it pre_filter"),
]


def failures(findings: list[Finding]) -> dict[str, str]:
    return {finding.check: finding.message for finding in findings if finding.is_failure}


@pytest.mark.parametrize(
    ("plugin", "expected", "words"), PLANTED, ids=[each[0].__name__ for each in PLANTED]
)
def test_a_planted_mistake_is_found(plugin: type[Plugin], expected: set[str], words: str) -> None:
    checks = [*QUICK] if "cost" in expected else [name for name in QUICK if name != "cost"]
    found = failures(check_plugin(plugin, only=checks))
    assert set(found) == expected, found
    first = next(iter(found.values()))
    assert words in first
    assert all("Fix: " in message for message in found.values())


def test_columns_that_read_annotations_and_declare_it_are_accepted() -> None:
    [found] = check_plugin(planted.FreshDetails, only=["kept-columns"])
    assert found.outcome == "passed", found.message


def test_the_order_of_a_set_shows_in_another_process() -> None:
    [found] = check_plugin(planted.SetOrder, only=["processes"])
    assert found.is_failure
    assert "answers differently in another process" in found.message


def test_a_plugin_may_log() -> None:
    assert failures(check_plugin(planted.Logging, only=["answers", "no-effects"])) == {}


@pytest.mark.parametrize("plugin", [planted.on_ssd, planted.GoodColumns])
def test_plugins_without_a_mistake_pass(plugin: type[Plugin]) -> None:
    spec = f"{planted.__name__}:{plugin.__name__}"
    assert failures(check_plugin(spec)) == {}


def test_what_the_collector_sets_off_is_not_the_plugins_doing() -> None:
    def look_at_the_clock(phase: str, info: object) -> None:
        time.perf_counter()

    before = gc.get_threshold()
    gc.callbacks.append(look_at_the_clock)
    gc.set_threshold(5, 2, 2)
    try:
        assert failures(check_plugin(planted.GoodColumns, only=["no-effects"])) == {}
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(look_at_the_clock)


@pytest.mark.parametrize("plugin", IN_TREE, ids=lambda plugin: plugin.name)
def test_in_tree_plugins_pass(plugin: type[Plugin]) -> None:
    assert failures(check_plugin(plugin, only=QUICK, cases=12)) == {}


@pytest.mark.parametrize(
    "spec",
    [
        "ten_lines/ssd_scheduler.py:on_ssd",
        "fullest_first/fullest_first.py:FullestFirst",
        "fullest_first/fullest_first_columns.py:FullestFirst",
    ],
)
def test_the_examples_pass(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend((EXAMPLES / spec).parent)
    # The first one starts a scheduler when it is run as a program; not here.
    assert failures(check_plugin(str(EXAMPLES / spec))) == {}


def test_a_function_is_seen_through_its_decorator() -> None:
    """Random clusters speak of disks and SSDs, or the filter would say the same of all nodes."""
    subject = Subject(planted.on_ssd)
    assert "ssd" in subject.words.after["disk"]
    labels = [node.metadata.labels or {} for case in subject.cases for node in case.nodes]
    assert any(each.get("disk") == "ssd" for each in labels)
    assert any("disk" in each and each["disk"] != "ssd" for each in labels)


def test_cases_are_the_same_every_time() -> None:
    words = Subject(planted.on_ssd).words
    assert make_case(5, words) == make_case(5, words)
    assert make_case(5, words) != make_case(6, words)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nothing", "write module:Class"),
        ("no.such.module:Plugin", "there is no module no.such.module"),
        (f"{planted.__name__}:Nobody", "there is no Nobody in .*; it has"),
        (f"{planted.__name__}:Path", "not a plugin class"),
        ("no-such-file.py:Plugin", "there is no such file"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_words(spec: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_subject(spec)


def test_a_syntax_error_is_told_with_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import stowplan\n\nclass Half(stowplan.Plugin\n")
    with pytest.raises(ConfigError, match=r"broken\.py:3: is not Python: "):
        load_subject(f"{broken}:Half")


def test_arguments_that_are_needed_are_asked_for() -> None:
    [found] = check_plugin(planted.GoodColumns, {"labl": "x"}, only=["arguments"])
    assert found.is_failure
    assert "labl" in found.message


def test_what_a_plugin_costs_is_compared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES / "fullest_first")
    asked = ["fullest_first_columns:FullestFirst", "--nodes=20", "--pods=5", "--rounds=1"]
    assert plugin_benchmark.main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "20 nodes, CPU time of one core"
    assert [line.rpartition("  ")[2] for line in lines[3:]] == [
        "default",
        "default and fullest_first_columns:FullestFirst",
    ] * 2
    assert plugin_benchmark.main(["nowhere:Plugin"]) == 2
    assert "Error: 'nowhere:Plugin': there is no module nowhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "answer", "fix"),
    [
        ("filter", 3, "answer True, False, a reason or a Status"),
        ("score", 0.5, "answer an integer"),
        ("score", 150, "return max(0, min(100, ...)), or let normalize(cycle, scores) scale"),
    ],
)
def test_the_advice_is_about_the_answer(method: str, answer: object, fix: str) -> None:
    members = {"name": "Odd", method: lambda self, pod, node: answer}
    [found] = check_plugin(type("Odd", (Plugin,), members), only=["answers"])
    assert f"Fix: {fix}" in found.message
    assert "docs/plugins.md" not in found.message
