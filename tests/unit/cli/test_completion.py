"""What completion offers: every command, option and choice, and files where they belong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from stowplan.cli.completion import VARIABLE, Bash, Fish, Kubectl, Zsh
from stowplan.cli.main import COMMANDS, cli


def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from walk(child, (*path, name))


def command_at(path: tuple[str, ...]) -> tuple[click.Command, click.Context]:
    command: click.Command = cli
    ctx = click.Context(cli, info_name="stowplan", **cli.context_settings)
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(ctx, name)
        assert found is not None
        ctx = click.Context(found, info_name=name, parent=ctx, **found.context_settings)
        command = found
    return command, ctx


PATHS = [
    path for name in COMMANDS for path in walk(command_at((name,))[0], (name,))
]  # fmt: skip


def offered(*words: str, shell: type[Bash | Zsh | Fish | Kubectl] = Bash) -> list[tuple[str, str]]:
    completion = shell(cli, {}, "stowplan", VARIABLE)
    return [
        (item.type, item.value) for item in completion.get_completions(list(words[:-1]), words[-1])
    ]


def test_all_commands() -> None:
    assert [value for _, value in offered("")] == list(COMMANDS)


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_all_options_of_a_command_and_all_their_choices(path: tuple[str, ...]) -> None:
    command, ctx = command_at(path)
    options = [each for each in command.get_params(ctx) if isinstance(each, click.Option)]
    names = {
        name
        for option in options
        if not option.hidden
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    }
    shown = {value for _, value in offered(*path, "--")}
    # An option with several names is offered by one of them at least.
    assert shown <= names
    for option in options:
        if not option.hidden:
            assert shown & {*option.opts, *option.secondary_opts}, option.opts
        if isinstance(option.type, click.Choice):
            values = [value for _, value in offered(*path, option.opts[-1], "")]
            assert values == list(option.type.choices)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("run", "--kubeconfig", ""), "file"),
        (("run", "--plugin", ""), "file"),
        (("run", "--tls-cert-file", ""), "file"),
        (("kube-scheduler", "--config", ""), "file"),
        (("kube-scheduler", "--cert-dir", ""), "dir"),
        (("config", "check", ""), "file"),
        (("decide", ""), "file"),
        (("learn", "start", "--lessons-dir", ""), "dir"),
    ],
)
def test_files_and_folders_are_left_to_the_shell(words: tuple[str, ...], kind: str) -> None:
    assert [each for each, _ in offered(*words)] == [kind]


@pytest.mark.parametrize("shell", [Zsh, Fish, Kubectl])
def test_a_shell_that_replaces_the_whole_word_gets_the_whole_word(
    shell: type[Zsh | Fish | Kubectl], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.yaml").touch()
    (tmp_path / "only").mkdir()
    monkeypatch.chdir(tmp_path)
    assert offered("run", "--log-format=j", shell=shell) == [("plain", "--log-format=json")]
    assert offered("run", "--config=on", shell=shell) == [
        ("plain", "--config=one.yaml"),
        ("plain", "--config=only/"),
    ]
    assert offered("run", "--cert-dir=on", shell=shell) == [("plain", "--cert-dir=only/")]


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("AllA", ["AllAlpha=true"]),
        ("AllAlpha=true,AllB", ["AllAlpha=true,AllBeta=true"]),
        ("nosuch", []),
    ],
)
def test_feature_gates_one_after_the_other(typed: str, values: list[str]) -> None:
    assert [value for _, value in offered("kube-scheduler", "--feature-gates", typed)] == values


@pytest.mark.parametrize(
    "words",
    [
        ("nosuch", "--"),
        ("run", "--nosuch", "x", "--lo"),
        ("kube-scheduler", "stray", "--help", "--log"),
        ("config", "nosuch", ""),
    ],
)
def test_a_line_that_is_wrong_never_fails(words: tuple[str, ...]) -> None:
    offered(*words)
