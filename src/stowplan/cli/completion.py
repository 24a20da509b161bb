"""`stowplan completion`, and the answers to a shell or to kubectl that completes a command line.

Click's scripts ask the program itself: each Tab starts `stowplan` with `_STOWPLAN_COMPLETE` set,
and `cli.main` then imports this module, which registers the classes below. `kubectl stowplan` is
completed by a program `kubectl_complete-stowplan`, which sets the variable, too.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from pathlib import Path
from typing import ClassVar, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
)

#: The variable that a completion script sets.
VARIABLE: Final = "_STOWPLAN_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
_FILES: Final = re.compile(r"\b(file|path)\b", re.IGNORECASE)
_FOLDERS: Final = re.compile(r"\bdir\b", re.IGNORECASE)
#: Directives of cobra, the last line of an answer to kubectl.
_NO_FILES: Final = ":4"
_DEFAULT: Final = ":0"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes `stowplan` in bash, zsh or fish.

    \b
    bash (4.4 or newer):
      stowplan completion bash > ~/.local/share/bash-completion/completions/stowplan
    zsh, with ~/.zfunc in fpath before compinit:
      stowplan completion zsh > ~/.zfunc/_stowplan
    fish:
      stowplan completion fish > ~/.config/fish/completions/stowplan.fish

    For the current shell alone: source <(stowplan completion bash). `kubectl stowplan` is completed
    by kubectl's own script, if kubectl_complete-stowplan is on the PATH.
    """
    from stowplan.cli.main import cli

    known = get_completion_class(shell)
    assert known is not None
    click.echo(known(cli, {}, "stowplan", VARIABLE).source(), nl=False)


def offer_files(command: click.Command) -> None:
    """Let every parameter that is called FILE, PATH or DIR complete as one."""
    for param in command.params:
        if isinstance(param.type, click.types.StringParamType):
            name = param.metavar or (param.name if isinstance(param, click.Argument) else "") or ""
            if _FOLDERS.search(name):
                param.type = click.Path(file_okay=False)
            elif _FILES.search(name):
                param.type = click.Path()
    if isinstance(command, click.Group):
        for child in command.commands.values():
            offer_files(child)


def complete_kubectl() -> None:
    """Run the entry point `kubectl_complete-stowplan`."""
    os.environ[VARIABLE] = "kubectl_complete"
    from stowplan.cli.main import main

    main(prog_name="kubectl stowplan")


@add_completion_class
class Bash(BashComplete):
    """Bash passes `--flag=value` as three words."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        return [word for word in args if word != "="], incomplete


class _WholeWords(ShellComplete):
    """For shells that replace the whole word: `--flag=value`, not only the value."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        items = super().get_completions(args, incomplete)
        name, equals, value = incomplete.partition("=")
        if not equals or not name.startswith("--"):
            return items
        found: list[CompletionItem[str]] = []
        for item in items:
            values = [item.value] if item.type == "plain" else _paths(value, item.type == "dir")
            found += [CompletionItem(f"{name}={each}", help=item.help) for each in values]
        return found


@add_completion_class
class Zsh(_WholeWords, ZshComplete):
    pass


@add_completion_class
class Fish(_WholeWords, FishComplete):
    pass


@add_completion_class
class Kubectl(_WholeWords):
    """The protocol of kubectl's plugins: the words as arguments, a line per answer, a directive."""

    name: ClassVar[str] = "kubectl"
    source_template: ClassVar[str] = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        words = sys.argv[1:] or [""]
        return words[:-1], words[-1]

    def complete(self) -> str:
        items = self.get_completions(*self.get_completion_args())
        plain = [self.format_completion(item) for item in items if item.type == "plain"]
        return "\n".join([*plain, _NO_FILES if len(plain) == len(items) else _DEFAULT])

    def format_completion(self, item: CompletionItem[str]) -> str:
        return f"{item.value}\t{' '.join(item.help.split())}" if item.help else item.value


def _paths(start: str, folders_only: bool) -> list[str]:
    """Return the paths that begin with a text; folders end with a slash."""
    found = sorted(glob.glob(f"{glob.escape(os.path.expanduser(start))}*"))  # noqa: PTH111, PTH207 - pathlib has no ~user and no prefix
    are_folders = {path: Path(path).is_dir() for path in found}
    return [
        f"{path}/" if is_folder else path
        for path, is_folder in are_folders.items()
        if is_folder or not folders_only
    ]
