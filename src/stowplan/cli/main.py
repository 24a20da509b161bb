"""The `stowplan` command: find the subcommand, and turn errors into one line and an exit code.

`stowplan --help` must be fast, so a subcommand's module is imported only when it is called. The
table below holds all the text that `--help` prints. Commands let `StowplanError`s propagate.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from stowplan import __version__
from stowplan.cli.groups import CommandGroup
from stowplan.errors import ConfigError, StowplanError
from stowplan.present.pipes import (
    EXIT_PIPE_CLOSED,
    drop_output,
    is_stdout_closed,
    stdout_problem,
    watch_stdout,
)
from stowplan.present.sigterm import EXIT_TERMINATED, sigterm_as_ctrl_c

ENV_PREFIX: Final = "STOWPLAN"
#: Ours, and the prefix of the static scheduler's own variables.
_OUR_PREFIXES: Final = (f"{ENV_PREFIX}_", "SCHED_")
EXIT_INTERRUPTED: Final = 130  # 128 + SIGINT


class LazyCommand(NamedTuple):
    """The import path of a command ("module:attribute"), and its line in the list of commands."""

    target: str
    short_help: str


COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "run": LazyCommand("stowplan.cli.run:run", "Schedule the pods of a cluster."),
    "kube-scheduler": LazyCommand(
        "stowplan.cli.kube_scheduler:kube_scheduler",
        "Take kube-scheduler's place, with its command line.",
    ),
    "demo": LazyCommand(
        "stowplan.cli.demo:demo", "Watch the scheduler place pods on a simulated cluster."
    ),
    "learn": LazyCommand("stowplan.cli.learn:learn", "Learn scheduling in sixteen short lessons."),
    "apiserver": LazyCommand(
        "stowplan.cli.apiserver:apiserver", "Serve an in-memory Kubernetes API."
    ),
    "decide": LazyCommand(
        "stowplan.cli.decide:decide", "Show which nodes fit a pod, and why the others do not."
    ),
    "explain": LazyCommand(
        "stowplan.cli.explain:explain", "Say why a pod is pending, and what would help."
    ),
    "audit": LazyCommand(
        "stowplan.cli.audit:audit",
        "Check what schedulers did to a cluster: double binds, overcommit, broken rules.",
    ),
    "console": LazyCommand(
        "stowplan.cli.console:console", "Look at a cluster and its decisions in a browser."
    ),
    "simulate": LazyCommand(
        "stowplan.cli.simulate:simulate",
        "Run a scenario and check its expectations.",
    ),
    "record": LazyCommand("stowplan.cli.record:record", "Record a cluster, for replays."),
    "replay": LazyCommand(
        "stowplan.cli.replay:replay",
        "Replay a recording under another configuration.",
    ),
    "compare": LazyCommand(
        "stowplan.cli.compare:compare",
        "Compare runs: which pods moved, which fit now, and what the nodes cost.",
    ),
    "sweep": LazyCommand(
        "stowplan.cli.sweep:sweep",
        "Simulate many configurations on many workloads, on all cores.",
    ),
    "shadow": LazyCommand(
        "stowplan.cli.shadow:shadow",
        "Compare a configuration with the scheduler that serves a cluster.",
    ),
    "static": LazyCommand(
        "stowplan.cli.static:static", "Place each pod on the node that is labelled for it."
    ),
    "pin": LazyCommand("stowplan.cli.pins:pin", "Pin a pod to a node."),
    "unpin": LazyCommand(
        "stowplan.cli.pins:unpin", "Remove a pod's pins from a node, or from all nodes."
    ),
    "pins": LazyCommand(
        "stowplan.cli.pins:pins", "List pins, where their pods run, and any drift."
    ),
    "move": LazyCommand("stowplan.cli.move:move", "Move a pod to another node."),
    "extender": LazyCommand(
        "stowplan.cli.extender:extender",
        "Serve your algorithm to kube-scheduler as a scheduler extender.",
    ),
    "new": LazyCommand("stowplan.cli.new:new", "Create a package for your own plugin."),
    "bench": LazyCommand(
        "stowplan.cli.bench:bench", "Benchmark pods per second against kube-scheduler."
    ),
    "config": LazyCommand(
        "stowplan.cli.config:config", "Check, print or migrate a scheduler configuration."
    ),
    "completion": LazyCommand(
        "stowplan.cli.completion:completion",
        "Print the script that completes `stowplan` in bash, zsh or fish.",
    ),
}


class PipeClosed(Exception):
    """The reader of our output closed the pipe.

    Click handles OSErrors and interrupts itself, so this exception is neither.
    """


class LazyGroup(CommandGroup):
    """A group that imports a command's module when the command is called."""

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
        if ctx.resilient_parsing:
            from stowplan.cli.completion import offer_files

            offer_files(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the name of a command from the table: click would import all of them."""
        names = [
            CompletionItem(name, help=lazy.short_help)
            for name, lazy in self._lazy.items()
            if name.startswith(incomplete)
        ]
        return [*names, *super(click.Group, self).shell_complete(ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.short_help) for name, lazy in self._lazy.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise PipeClosed from error
        except KeyboardInterrupt as error:
            if is_stdout_closed():
                raise PipeClosed from error
            raise


def _read_flags_from_environment(command: click.Command) -> None:
    """Let STOWPLAN_<FLAG> set the flag of every command.

    Click's default is STOWPLAN_<COMMAND>_<PARAMETER>, but a variable such as STOWPLAN_KUBECONFIG is
    meant for all commands, and a parameter's name in our code is not always its flag's.
    """
    command.context_settings.setdefault("auto_envvar_prefix", ENV_PREFIX)
    for option in command.params:
        flags = [flag for flag in option.opts if flag.startswith("--")]
        has_variable = isinstance(option, click.Option) and option.allow_from_autoenv
        if flags and has_variable and option.envvar is None:
            option.envvar = f"{ENV_PREFIX}_{flags[0][2:].replace('-', '_').upper()}"
    if isinstance(command, click.Group):
        for child in command.commands.values():
            _read_flags_from_environment(child)


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"An environment variable can set any flag of a command: {ENV_PREFIX}_SOME_FLAG sets "
    "--some-flag.",
)
# A container image may set STOWPLAN_VERSION; that must not print the version.
@click.version_option(__version__, prog_name="stowplan", allow_from_autoenv=False)
def cli() -> None:
    """A Kubernetes scheduler and scheduling framework: which container goes where, and why."""


def main(
    argv: Sequence[str] | None = None,
    *,
    command: click.Command | None = None,
    prog_name: str | None = None,
) -> None:
    """Run the console entry point, which always raises SystemExit.

    `command` replaces the whole command group, for programs that are one command.
    """
    if prog_name is None:
        is_kubectl_plugin = sys.argv[0].endswith("kubectl-stowplan")
        prog_name = "kubectl stowplan" if is_kubectl_plugin else "stowplan"
    watch_stdout()
    if command is not None:
        _read_flags_from_environment(command)
    with sigterm_as_ctrl_c() as termination:
        code = _run(command or cli, prog_name, list(sys.argv[1:] if argv is None else argv))
    if code == EXIT_INTERRUPTED and termination.has_come:
        code = EXIT_TERMINATED
    try:
        if sys.stdout is not None:  # as it is with `>&-`
            sys.stdout.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        code = EXIT_PIPE_CLOSED
    except OSError as problem:
        code = code or _lost_output(problem)
    if code == EXIT_PIPE_CLOSED or stdout_problem() is not None:
        drop_output()
    sys.exit(EXIT_PIPE_CLOSED if is_stdout_closed() else code)


def _run(command: click.Command, prog_name: str, argv: list[str]) -> int:
    _forget_service_links()
    # Set before numpy is imported: its threads for matrix products take a sixth of the CPU time
    # at start, and we multiply no matrices. A value that the user has set stays.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if f"_{ENV_PREFIX}_COMPLETE" in os.environ:
        import stowplan.cli.completion  # noqa: F401 - registers what answers to shells
    try:
        code = command.main(
            argv,
            prog_name=prog_name,
            complete_var=f"_{ENV_PREFIX}_COMPLETE",
            standalone_mode=False,
        )
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except StowplanError as error:
        _say(*(str(error).splitlines() or [type(error).__name__]))
        return error.exit_code
    except OSError as error:
        if error is stdout_problem():
            return _lost_output(error)
        # Even asking whether a file exists can fail: no permission, or a name that is too long.
        file = str(error.filename)
        if not any(given == file or given.endswith(f"={file}") for given in argv):
            raise
        _say(f"{file}: cannot be read: {error.strerror}")
        return ConfigError.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except PipeClosed:
        return EXIT_PIPE_CLOSED
    return code if isinstance(code, int) else 0


def _lost_output(problem: OSError) -> int:
    _say(f"standard output cannot be written: {problem.strerror}")
    return ConfigError.exit_code


def _say(*errors: str) -> None:
    from stowplan.logs import printable

    for line in errors:
        click.echo(f"Error: {printable(line)}", err=True)


def _forget_service_links() -> None:
    """Drop the service link variables of a Service called "stowplan".

    The kubelet sets STOWPLAN_PORT=tcp://10.0.0.1:80 in every pod of the Service's namespace. It
    would be read as the flag --port.
    """
    for name, value in list(os.environ.items()):
        if name.startswith(_OUR_PREFIXES) and name.endswith("PORT") and "://" in value:
            del os.environ[name]
