"""The `stowplan` command: finds the subcommand, and turns errors into one line and an exit code.

`stowplan --help` must be quick, so a subcommand's module is imported only when it is called; the
table below has all that the help needs. Commands raise `StowplanError`s and let them through.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from stowplan import __version__
from stowplan.errors import StowplanError

ENV_PREFIX: Final = "STOWPLAN"
#: With that of the static scheduler's own variables.
_OUR_PREFIXES: Final = (f"{ENV_PREFIX}_", "SCHED_")
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT
EXIT_PIPE_CLOSED: Final = 141  # 128 + SIGPIPE


class LazyCommand(NamedTuple):
    """Where a command is ("module:attribute"), and its line in the list of commands."""

    target: str
    short_help: str


COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "run": LazyCommand("stowplan.cli.run:run", "Schedule the pods of a cluster."),
    "demo": LazyCommand(
        "stowplan.cli.demo:demo", "Watch the scheduler place pods on a pretend cluster."
    ),
    "learn": LazyCommand("stowplan.cli.learn:learn", "Learn scheduling in sixteen short lessons."),
    "apiserver": LazyCommand(
        "stowplan.cli.apiserver:apiserver", "Serve an in-memory Kubernetes API."
    ),
    "decide": LazyCommand(
        "stowplan.cli.decide:decide", "Say which nodes would take a pod, and why the others not."
    ),
    "simulate": LazyCommand(
        "stowplan.cli.simulate:simulate",
        "Play a scenario, and say whether all went as it should.",
    ),
    "static": LazyCommand(
        "stowplan.cli.static:static", "Place pods on the nodes that are labelled for them."
    ),
    "pin": LazyCommand("stowplan.cli.pins:pin", "Pin a pod to a node."),
    "unpin": LazyCommand(
        "stowplan.cli.pins:unpin", "Remove a pod's pins from a node, or from all nodes."
    ),
    "pins": LazyCommand(
        "stowplan.cli.pins:pins", "Show pins, where the pods are, and what has drifted."
    ),
    "move": LazyCommand("stowplan.cli.move:move", "Move a pod to another node."),
    "extender": LazyCommand(
        "stowplan.cli.extender:extender",
        "Answer kube-scheduler's questions by your algorithm.",
    ),
    "new": LazyCommand("stowplan.cli.new:new", "Start a plugin of your own."),
    "bench": LazyCommand(
        "stowplan.cli.bench:bench", "Measure pods per second beside kube-scheduler."
    ),
    "config": LazyCommand(
        "stowplan.cli.config:config", "Check scheduler configurations, print or migrate them."
    ),
}


class PipeClosed(Exception):
    """The reader of our output went away; click would take the OSError for its own."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        module, _, attribute = self._lazy[cmd_name].target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        _read_flags_from_environment(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.short_help) for name, lazy in self._lazy.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise PipeClosed from error


def _read_flags_from_environment(command: click.Command) -> None:
    """STOWPLAN_<FLAG> for every command, and not click's STOWPLAN_<COMMAND>_<FLAG>: whoever sets
    a kubeconfig in the environment means it for all of them.
    """
    command.context_settings.setdefault("auto_envvar_prefix", ENV_PREFIX)
    if isinstance(command, click.Group):
        for child in command.commands.values():
            _read_flags_from_environment(child)


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"Every flag of a command can be set in the environment too: --some-flag is "
    f"{ENV_PREFIX}_SOME_FLAG.",
)
# An image may well carry STOWPLAN_VERSION; that is no wish to see the version.
@click.version_option(__version__, prog_name="stowplan", allow_from_autoenv=False)
def cli() -> None:
    """A Kubernetes scheduler and scheduling framework: which container goes where, and why."""


def main(
    argv: Sequence[str] | None = None,
    *,
    command: click.Command | None = None,
    prog_name: str = "stowplan",
) -> None:
    """The console entry point; always ends in SystemExit. `command`: of a program of its own."""
    code = _run(command or cli, prog_name, list(sys.argv[1:] if argv is None else argv))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = EXIT_PIPE_CLOSED
    if code == EXIT_PIPE_CLOSED:
        # Python flushes once more on its way out and would complain about the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run(command: click.Command, prog_name: str, argv: list[str]) -> int:
    _forget_service_links()
    # Before numpy is imported, which would start threads for products of matrices. We have none,
    # and the threads took a sixth of the CPU time of a start. Whoever has set it keeps it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = command.main(argv, prog_name=prog_name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except StowplanError as error:
        for line in str(error).splitlines() or [type(error).__name__]:
            click.echo(f"Error: {line}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except PipeClosed:
        return EXIT_PIPE_CLOSED
    return code if isinstance(code, int) else 0


def _forget_service_links() -> None:
    """In a cluster with a Service called "stowplan", every pod near it is given
    STOWPLAN_PORT=tcp://10.0.0.1:80, which is no port and nobody's wish.
    """
    for name, value in list(os.environ.items()):
        if name.startswith(_OUR_PREFIXES) and name.endswith("PORT") and "://" in value:
            del os.environ[name]
