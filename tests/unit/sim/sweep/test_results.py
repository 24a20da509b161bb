"""What a sweep keeps and shows: the journal, the table, the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stowplan.errors import ConfigError
from stowplan.sim.results.comparing import FIGURES
from stowplan.sim.sweep.folder import JOURNAL, _Line, opened, read_results
from stowplan.sim.sweep.page import dots, page_of
from stowplan.sim.sweep.playing import Played
from stowplan.sim.sweep.table import (
    Group,
    Table,
    csv_of,
    groups_of,
    mean_rows,
    text_table,
    warnings_of,
)
from stowplan.sim.sweep.tasks import Inputs, Task, Workload


def task(key: str) -> Task:
    workload = Workload("w", "trace", "/w.yaml", Inputs(()))
    return Task(key, workload, "", {}, 0, None, {}, {})


def row(key: str, **changes: Any) -> dict[str, Any]:
    figures = {name: 1.0 for name in FIGURES if name != "moved"}
    return {
        "task": key, "workload": "w", "configuration": "", "weight": 1, "seed": 0,
        **figures, "decisions": "", "problem": "", **changes,
    }  # fmt: skip


def test_a_line_that_was_cut_off_does_not_count(tmp_path: Path) -> None:
    with opened(tmp_path / "new" / "results") as folder:
        folder.add(Played("a", row("a")))
        folder.add(Played("b", row("b")))
    journal = tmp_path / "new" / "results" / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-20])
    with opened(tmp_path / "new" / "results") as folder:
        assert folder.row(task("a")) is not None
        assert folder.row(task("b")) is None
        folder.add(Played("b", row("b")))
    with opened(tmp_path / "new" / "results") as folder:
        assert folder.row(task("b")) == row("b")
    assert len(journal.read_bytes().splitlines()) == 3


def test_a_line_with_a_flipped_bit_does_not_count(tmp_path: Path) -> None:
    with opened(tmp_path, keeps=["runs"]) as folder:
        folder.add(Played("a", row("a"), run=b"packed"))
    journal = tmp_path / JOURNAL
    line = journal.read_bytes()
    for place in range(len(line) - 1):
        for bit in (1, 4):
            changed = bytearray(line)
            changed[place] ^= bit
            journal.write_bytes(changed)
            with opened(tmp_path) as folder:
                assert folder.row(task("a")) in (None, row("a")), changed
    journal.write_bytes(line.replace(b'"workload"', b'"workloae"'))
    with opened(tmp_path) as folder:
        assert folder.row(task("a")) is None
        folder.add(Played("a", row("a")))
        assert folder.row(task("a")) == row("a")


def test_a_task_counts_once(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.add(Played("a", row("a")))
        folder.add(Played("a", row("a", cpu=2.0)))
        assert folder.row(task("a")) == row("a")
    assert len((tmp_path / JOURNAL).read_bytes().splitlines()) == 1


def test_a_task_without_the_files_that_are_wanted_is_not_finished(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.add(Played("a", row("a")))
    with opened(tmp_path, keeps=["runs"]) as folder:
        assert folder.row(task("a")) is None
        folder.add(Played("a", row("a"), run=b"packed"))
        assert folder.row(task("a")) == row("a")
    file = tmp_path / "runs" / "a.json.gz"
    assert file.read_bytes() == b"packed"
    file.write_bytes(b"pack")
    with opened(tmp_path, keeps=["runs"]) as folder:
        assert folder.row(task("a")) is None
        folder.add(Played("a", row("a"), run=b"packed"))
        assert folder.row(task("a")) == row("a")
    with opened(tmp_path, keeps=["runs"]) as folder:
        assert folder.row(task("a")) == row("a")


def test_a_folder_belongs_to_one_sweep_at_a_time(tmp_path: Path) -> None:
    taken = pytest.raises(ConfigError, match="another sweep writes into it")
    with opened(tmp_path), taken, opened(tmp_path):
        pass


def test_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file: cannot be written"), opened(tmp_path / "file"):
        pass
    with pytest.raises(ConfigError, match=r"has no results\.jsonl"):
        read_results(tmp_path)


def table() -> Table:
    rows = [
        row("a", weight=2, nodes_in_use=4.0),
        row("b", weight=2, seed=1, nodes_in_use=6.0),
        row("c", weight=[1], nodes_in_use=3.0, problem="it <failed>"),
    ]
    return Table("t", ("weight",), rows)


def test_means_are_over_seeds() -> None:
    groups = groups_of(table(), sort="nodes_in_use")
    assert [(group.label, group.mean("nodes_in_use")) for group in groups] == [
        ("weight=[1]", 3.0),
        ("weight=2", 5.0),
    ]
    assert next(group.label for group in groups_of(table(), sort="-nodes_in_use")) == "weight=2"
    assert text_table(table(), figures=["nodes_in_use"]) == (
        "WORKLOAD   WEIGHT   RUNS   NODES_IN_USE\n"
        "w          2        2      5.0\n"
        "w          [1]      1      3.0\n"
    )


def test_csv_has_every_row() -> None:
    lines = csv_of(table()).splitlines()
    assert lines[0].startswith("task,workload,configuration,weight,seed,pods,")
    assert len(lines) == 4
    assert lines[3].startswith("c,w,,[1],0,")
    hostile = Table("t", ("\x9b",), [row("a", workload="\x1b[2J", **{"\x9b": 1})])
    assert csv_of(hostile).isprintable() is False
    assert set(filter(lambda char: not char.isprintable(), csv_of(hostile))) == {"\n"}


def test_the_page_shows_failures_as_text() -> None:
    page = page_of(table())
    assert "1 runs failed" in page
    assert "it &lt;failed&gt;" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert page_of(Table("empty", (), [])).count("0 runs") == 1


def test_a_parameter_with_many_values_is_drawn_as_dots() -> None:
    rows = [row(str(n), weight=n, seed=0, nodes_in_use=float(n % 7)) for n in range(50)]
    page = page_of(Table("t", ("weight",), rows))
    assert page.count("<circle") >= 50
    assert "nan" not in dots("t", "cpu", [(1.0, 2.0)])


def many_rows(count: int, *, parameters: int = 1, workloads: int = 1) -> Table:
    names = [f"p{number}" for number in range(parameters)]
    rows = [
        row(
            str(number),
            workload=f"w{number % workloads}",
            **dict.fromkeys(names, number),
            **{each: float(number * place % 97) for place, each in enumerate(FIGURES)},
        )
        for number in range(count)
    ]
    return Table("t", tuple(names), rows)


def test_the_page_of_many_combinations_has_some_of_them() -> None:
    page = page_of(many_rows(2000))
    assert "by p0 (500 of 2,000 combinations)" in page
    plots = page.count('<svg class="dots"')
    assert page.count("<circle") == 500 * plots
    cells = len(mean_rows(many_rows(1))[0])
    listed = page.count("<tr><td>")
    assert 1000 < listed <= 20_000 / cells
    assert f"and {2000 - listed:,} more combinations in results.csv" in page
    assert len(page_of(many_rows(4000))) < 1.1 * len(page)


@pytest.mark.parametrize(("parameters", "workloads"), [(3, 600), (40, 1)])
def test_the_page_of_many_workloads_and_parameters_has_some_of_them(
    parameters: int, workloads: int
) -> None:
    page = page_of(many_rows(600, parameters=parameters, workloads=workloads))
    sections = sum(page.count(each) for each in ("<h2>", "<h3>", "<svg class", '<figure class="b'))
    assert sections <= 1000
    assert "More plots would make this page too large" in page
    assert "More plots" not in page_of(many_rows(50, parameters=3, workloads=2))


def test_long_values_are_shortened_in_the_page() -> None:
    rows = [row(str(n), weight="<" * 5000 + str(n), nodes_in_use=float(n)) for n in range(2)]
    page = page_of(Table("t", ("weight",), rows))
    assert "&lt;" * 198 + "\N{HORIZONTAL ELLIPSIS}" in page
    assert "&lt;" * 201 not in page


def test_the_page_groups_its_rows_once_for_all_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    sorts: list[str] = []

    def counted(table: Table, *, sort: str = "") -> list[Group]:
        sorts.append(sort)
        return groups_of(table, sort=sort)

    monkeypatch.setattr("stowplan.sim.sweep.page.groups_of", counted)
    page_of(many_rows(100, workloads=50), sort="cpu")
    assert sorts == ["", "cpu"]


def test_the_page_plots_every_figure_that_differs() -> None:
    rows = [
        row("a", weight=1, pods=3.0, memory=0.1, fragmentation=0.0021, nodes_in_use=6.0),
        row("b", weight=1, seed=1, pods=3.0, memory=0.1, fragmentation=0.0021, nodes_in_use=9.0),
        row("c", weight=2, pods=3.0, memory=0.2, fragmentation=0.0022, nodes_in_use=3.0),
    ]
    page = page_of(Table("t", ("weight",), rows))
    # Means that read the same are not plotted.
    assert re.findall("<small>(.*?)</small></h2>", page) == ["memory", "nodes_in_use"]
    assert "Equal in all combinations, as rounded here: pods 3, placed 1," in page
    assert "fragmentation 0.2%" in page
    assert "Bars: mean over seeds; lines: lowest and highest." in page
    assert '<span class="text">7.5</span>' in page
    alone = page_of(Table("t", ("weight",), rows[:2]))
    assert "Equal in" not in alone
    assert "<small>nodes_in_use</small></h2>" in alone


def test_a_workload_whose_combinations_are_equal_has_no_plot() -> None:
    rows = [
        row(f"{workload}{weight}", workload=workload, weight=weight, cpu=cpu)
        for workload, cpu in (("one", 0.5), ("two", 0.7))
        for weight in (1, 2)
    ]
    page = page_of(Table("t", ("weight",), rows))
    assert "<h3>two</h3><p>70.0% in all combinations</p>" in page.replace("\n", "")
    assert 'class="label"' not in page


def test_the_page_is_sorted() -> None:
    for sort, labels in (
        ("", ["weight=2", "weight=[1]"]),
        ("nodes_in_use", ["weight=[1]", "weight=2"]),
        ("-nodes_in_use", ["weight=2", "weight=[1]"]),
    ):
        page = page_of(table(), sort=sort)
        assert re.findall('<span class="label">(.*?)</span>', page) == labels
        first = page.index(f"<td>{labels[0].removeprefix('weight=')}</td>")
        assert first < page.index(f"<td>{labels[1].removeprefix('weight=')}</td>")


def test_workloads_on_nodes_without_a_price() -> None:
    rows = [row("a", unpriced=""), row("b", seed=1, unpriced="m5.4xlarge (12 nodes)")]
    assert warnings_of(Table("t", (), rows)) == ["w: no price for m5.4xlarge (12 nodes)"]
    assert warnings_of(table()) == []


def test_a_warning_of_several_runs_is_shown_once() -> None:
    left_out = "3 pods of schedulerName second cannot be placed"
    rows = [row("a", warnings=left_out), row("b", seed=1, warnings=left_out), row("c", warnings="")]
    assert warnings_of(Table("t", (), rows)) == [f"w: {left_out}"]


def test_rows_are_read_again(tmp_path: Path) -> None:
    with opened(tmp_path) as folder:
        folder.write_results(table().rows)
    assert read_results(tmp_path) == msgspec.json.decode(msgspec.json.encode(table().rows))


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('"task":"b"', '"tasl":"b"', "line 2 is damaged: `task` is not the key of a task"),
        ('"task":"b"', '"task":"../b"', "line 2 is damaged: `task` is not the key of a task"),
        (
            '"weight":2,"seed":1',
            '"weighu":2,"seed":1',
            "line 2 is damaged: its columns differ from",
        ),
        ('{"task":"b"', '["task":"b"', "line 2 is damaged: "),
    ],
)
def test_a_damaged_row_is_an_error(tmp_path: Path, before: str, after: str, why: str) -> None:
    with opened(tmp_path) as folder:
        path = folder.write_results(table().rows)
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(ConfigError) as refused:
        read_results(tmp_path)
    assert str(refused.value).startswith(f"{path}: {why}")
    assert str(refused.value).endswith("Fix: run the sweep again; finished tasks are kept")


@pytest.mark.parametrize("forged", [{}, {"task": ["a"]}, {"task": "../a"}])
def test_a_line_without_the_key_of_a_task_does_not_count(
    tmp_path: Path, forged: dict[str, Any]
) -> None:
    """Its digest is right."""
    with opened(tmp_path) as folder:
        folder.add(Played("a", row("a")))
    line = msgspec.json.encode(_Line.of(forged, {}))
    journal = tmp_path / JOURNAL
    journal.write_bytes(journal.read_bytes() + line + b"\n")
    with opened(tmp_path) as folder:
        assert folder.row(task("a")) == row("a")
