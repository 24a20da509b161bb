"""Tags of the extender's configuration: those that build something, and that no other does."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stowplan.extender import configuration
from stowplan.extender.configuration import SHIPPED
from stowplan.extender.tags import Tags

from .configuration_kit import HERE, OWN, Load, everything, problem_of
from .shapes_of_arguments import Everything


def test_every_tag_that_is_shipped_is_there() -> None:
    tags = Tags(SHIPPED)
    for name in SHIPPED:
        assert isinstance(tags.get(name), type), name
    assert tags.get("os.system") is None


AVAILABLE = ". Available tags are: !BAR, !ClusterDataProvider, "


@pytest.mark.parametrize(
    ("text", "tag", "place"),
    [
        ("algorithm: !Foo {}\n", "!Foo", "line 1, column 12"),
        ("a: 1\nalgorithm: !Fit\n  data_provider: !os.system ls\n", "!os.system",
         "line 3, column 18"),
        (
            "algorithm: !!python/object/apply:os.system ['touch owned']\n",
            "tag:yaml.org,2002:python/object/apply:os.system",
            "line 1, column 12",
        ),
        (
            "algorithm: !!python/object/new:os.system ['touch owned']\n",
            "tag:yaml.org,2002:python/object/new:os.system",
            "line 1, column 12",
        ),
        (
            "x: !!python/name:os.system\nalgorithm: !NOPAlgorithm\n",
            "tag:yaml.org,2002:python/name:os.system",
            "line 1, column 4",
        ),
        (
            "x: [1, {y: !!python/module:antigravity ''}]\nalgorithm: !NOPAlgorithm\n",
            "tag:yaml.org,2002:python/module:antigravity",
            "line 1, column 12",
        ),
        (
            "? !!python/object/apply:os.system ['touch owned']\n: 1\n",
            "tag:yaml.org,2002:python/object/apply:os.system",
            "line 1, column 3",
        ),
        ("algorithms: [!Foo x]\nalgorithm: !NOPAlgorithm\n", "!Foo", "line 1, column 14"),
        # Classes that are imported here, but not registered.
        ("algorithm: !Path /\n", "!Path", "line 1, column 12"),
        ("algorithm: !Algorithm {}\n", "!Algorithm", "line 1, column 12"),
        ("algorithm: !stowplan.extender.algorithms.fit:Fit {}\n",
         "!stowplan.extender.algorithms.fit:Fit", "line 1, column 12"),
    ],
)  # fmt: skip
def test_other_tags_are_refused(
    load_text: Load, tmp_path: Path, text: str, tag: str, place: str
) -> None:
    problem = problem_of(load_text, text)
    expected = f'could not determine a constructor for the tag {tag!r} in "config.yaml", {place}'
    assert problem.startswith(expected + AVAILABLE)
    assert not (tmp_path / "owned").exists()


def test_env(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TEXT", "hello")
    monkeypatch.setenv("SOME_NUMBER", "31800")
    monkeypatch.setenv("SOME_FLAG", "true")
    monkeypatch.delenv("SURELY_UNSET", raising=False)
    built = everything(
        load_text,
        "{text: !Env SOME_TEXT, whole: !Env SOME_NUMBER, flag: !Env SOME_FLAG, "
        "whatever: [!Env SURELY_UNSET, !Env SOME_NUMBER]}",
    )
    # Text stays text where text is wanted; elsewhere it is what it would be in the file.
    assert (built.text, built.whole, built.flag) == ("hello", 31800, True)
    assert built.whatever == ["", "31800"]


def test_what_an_environment_variable_holds_is_not_shown(
    load_text: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    problem = problem_of(load_text, OWN + "algorithm: !Everything {whole: !Env SECRET}\n")
    assert problem == (
        "Invalid value !Env SECRET in \"config.yaml\", line 2, column 32 for field 'whole' in "
        "class 'Everything': improper type (got=text expected=a whole number)!"
    )
    problem = problem_of(load_text, OWN + "algorithm: !Fails {how: value, wrong: !Env SECRET}\n")
    assert "hunter2" not in problem
    assert "with arguments={'how': 'value', 'wrong': !Env SECRET}" in problem
    problem = problem_of(load_text, OWN + "algorithm: !Everything {text: !Env [SECRET]}\n")
    assert problem == '!Env takes a name in "config.yaml", line 2, column 31'


# Algorithms of the user's own


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("mine", "algorithms: 'mine' is not of the form module:Class"),
        (":Class", "algorithms: ':Class' is not of the form module:Class"),
        ("no_such_module:Class", "algorithms: 'no_such_module:Class' cannot be imported"),
        (f"{HERE}:Nobody", f"algorithms: '{HERE}:Nobody' cannot be imported"),
        (f"{HERE}:not_a_class", f"algorithms: '{HERE}:not_a_class'"),
    ],
)
def test_paths_that_lead_nowhere(load_text: Load, path: str, problem: str) -> None:
    told = problem_of(load_text, f"algorithms: ['{path}']\nalgorithm: !NOPAlgorithm\n")
    assert told.startswith(f'{problem} in "config.yaml", line 1, column 13')


def test_paths_are_a_list(load_text: Load) -> None:
    assert problem_of(load_text, "algorithms: a:B\nalgorithm: !NOPAlgorithm\n") == (
        "Invalid value 'a:B' in \"config.yaml\", line 1, column 13 for field 'algorithms': "
        "improper type (got=text expected=a list)!"
    )


def test_a_class_that_is_no_algorithm(load_text: Load) -> None:
    text = f"algorithms: ['{HERE}:NotAnAlgorithm']\nalgorithm: !NotAnAlgorithm\n"
    assert problem_of(load_text, text) == (
        'algorithm: <NotAnAlgorithm> is none in "config.yaml", line 2, column 12. Fix: let class '
        "NotAnAlgorithm inherit from stowplan.extender.Algorithm, or from one of "
        "stowplan.extender.algorithms such as Fit"
    )


def test_a_part_of_ours_that_is_no_algorithm(load_text: Load) -> None:
    assert problem_of(load_text, "algorithm: !Queries\n") == (
        'algorithm: <Queries> is none in "config.yaml", line 1, column 12; write for example '
        "algorithm: !NOPAlgorithm"
    )


def test_installed_algorithms(load_text: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(group: str) -> Iterator[EntryPoint]:
        yield EntryPoint("everything", points_to, group)

    monkeypatch.setattr(configuration, "entry_points", installed)
    points_to = f"{HERE}:Everything"
    assert isinstance(load_text("algorithm: !Everything\n").algorithm, Everything)
    points_to = "no_such_module:Class"
    assert problem_of(load_text, "algorithm: !NOPAlgorithm\n") == (
        "entry point no_such_module:Class: ModuleNotFoundError: No module named 'no_such_module'"
    )
