"""Writes data/share: a man page for each command, and the completion scripts, for the wheel.

`make docs` runs it. Everything comes from the commands themselves, as `--help` does. A test fails
when a file in the repository is not what this would write.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from stowplan import __version__
from stowplan.cli.completion import VARIABLE
from stowplan.cli.flag_options import FlagOption
from stowplan.cli.main import COMMANDS, cli

FOLDER: Final = Path(__file__).parents[1] / "data" / "share"
#: Commands that are also programs of their own.
PROGRAMS: Final = {"kube-scheduler": "kube-scheduler", "static": "static-scheduler"}
_SCRIPTS: Final = {
    "bash": "bash-completion/completions/stowplan",
    "zsh": "zsh/site-functions/_stowplan",
    "fish": "fish/vendor_completions.d/stowplan.fish",
}
_EXIT_STATUS: Final = {
    "0": "Success.",
    "1": "Failure; the last line says why. Some commands also answer “no” with it.",
    "2": "An invalid flag, argument or file.",
    "130, 143": "Ended by Ctrl-C or SIGTERM. Schedulers and services shut down and exit with 0.",
}
_CODE: Final = re.compile(r"`([^`]+)`")


def files() -> dict[Path, str]:
    """All files below `FOLDER` with their contents."""
    written: dict[Path, str] = {}
    for shell, path in _SCRIPTS.items():
        known = get_completion_class(shell)
        assert known is not None
        written[FOLDER / path] = known(cli, {}, "stowplan", VARIABLE).source()
    root = click.Context(cli, info_name="stowplan", **cli.context_settings)
    pages = {"stowplan": page("stowplan", root)}
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        program = PROGRAMS.get(name)
        own = f"stowplan-{name}"
        if program is not None:
            alone = click.Context(command, info_name=program, **cli.context_settings)
            pages[program] = page(program, alone)
            pages[own] = f".so man1/{program}.1\n"
        else:
            pages[own] = page(own, _inside(root, command, name))
    return written | {FOLDER / "man" / "man1" / f"{name}.1": text for name, text in pages.items()}


def page(title: str, ctx: click.Context) -> str:
    command = ctx.command
    lines = [
        f'.TH {title.upper()} 1 "" "Stowplan {__version__}" "Stowplan Manual"',
        ".SH NAME",
        f"{_text(title)} \\- {_text(_summary(command))}",
        ".SH SYNOPSIS",
        *_synopsis(ctx),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
        *_sections(ctx, ".SH"),
    ]
    if title == "stowplan":
        lines += [".SH COMMANDS"]
        for name, lazy in COMMANDS.items():
            lines += [".TP", f"\\fBstowplan\\-{_text(name)}\\fR(1)", _text(lazy.short_help)]
    elif isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            inside = _inside(ctx, child, name)
            lines += [f'.SH "{_text(inside.command_path)}"', *_synopsis(inside), ".PP"]
            lines += [*_paragraphs(child.help or ""), *_sections(inside, ".SS")]
    if command.epilog:
        lines += [".SH NOTES", *_paragraphs(command.epilog)]
    lines += [".SH EXIT STATUS"]
    for code, meaning in _EXIT_STATUS.items():
        lines += [".TP", f"\\fB{code}\\fR", _text(meaning)]
    lines += [".SH ENVIRONMENT", *_environment(title)]
    lines += [".SH SEE ALSO", *_see_also(title)]
    return "\n".join(lines) + "\n"


def _inside(parent: click.Context, command: click.Command, name: str) -> click.Context:
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _summary(command: click.Command) -> str:
    first = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    return " ".join(first.split()).rstrip(".").replace("`", "")


def _synopsis(ctx: click.Context) -> list[str]:
    pieces = " ".join(ctx.command.collect_usage_pieces(ctx))
    return [f"\\fB{_text(ctx.command_path)}\\fR {_text(pieces)}"]


def _sections(ctx: click.Context, heading: str) -> Iterator[str]:
    """Yield the options: those of kube-scheduler by its sections, ours before them."""
    sections: dict[str, list[tuple[str, str]]] = {}
    # click keeps the help option of the first context that a command was called with.
    ctx.command._help_option = None
    for param in ctx.command.get_params(ctx):
        title = f"{param.section} flags" if isinstance(param, FlagOption) else "Options"
        record = param.get_help_record(ctx)
        if record is not None and record[1]:  # an argument without help is in the synopsis
            sections.setdefault(title, []).append(record)
    for title, records in sections.items():
        yield f'{heading} "{_text(title.upper() if heading == ".SH" else title)}"'
        for names, text in records:
            yield from (".TP", f"\\fB{_text(names)}\\fR", _text(" ".join(text.split())))


def _environment(title: str) -> list[str]:
    if title == "kube-scheduler":
        return ["As kube-scheduler, it reads no variables for its flags."]
    return [
        ".TP",
        "\\fBSTOWPLAN_SOME_FLAG\\fR",
        _text("Sets --some-flag of any command. A flag on the command line wins."),
        ".TP",
        "\\fBKUBECONFIG\\fR",
        "Kubeconfig file, for commands that talk to a cluster.",
    ]


def _see_also(title: str) -> list[str]:
    names = ["stowplan", "kube-scheduler", "kubectl"]
    return [", ".join(f"\\fB{_text(name)}\\fR(1)" for name in names if name != title)]


def _paragraphs(text: str) -> Iterator[str]:
    """Yield click's text: paragraphs, and blocks marked by \\b whose lines stay as they are."""
    first = True
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if not first:
            yield ".PP"
        first = False
        head, _, rest = paragraph.partition("\n")
        if head.strip() == "\b":
            yield from (".nf", *map(_text, rest.split("\n")), ".fi")
        else:
            yield _text(" ".join(paragraph.split()))


def _text(text: str) -> str:
    """Escape a text for roff; `code` becomes bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("“", "\\(lq").replace("”", "\\(rq")
    text = _CODE.sub(r"\\fB\1\\fR", text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def write(pages: Mapping[Path, str]) -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    write(files())
