"""Options that several commands share, as decorators.

@click.command()
@kubeconfig_options          # kubeconfig: str | None, context: str | None
@logging_options             # sets up logging before the command runs; adds no arguments
def run(kubeconfig: str | None, context: str | None) -> None: ...
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import click

from stowplan.config.durations import Duration, parse_duration
from stowplan.config.feature_gates import FeatureGates, parse_gates
from stowplan.loader.numbers import whole_number
from stowplan.logs import LogFormat, configure

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class _Port(click.IntRange):
    """A TCP port; click would call the text "x" "not a valid integer range"."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"{str(value)!r} is not a number from 0 to 65535", param, ctx)


PORT: Final = _Port(0, 65535)
#: That of `console.serving`, which is slow to import.
_CONSOLE_PORT: Final = 10270
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def verbosity_level(value: object) -> int:
    """Parse a log level from 0 to 10.

    Go programs take `-v=4`, which click reads as the value "=4".
    """
    text = str(value).removeprefix("=")
    level = whole_number(text)
    if level is None or level > 10:
        raise click.BadParameter(f"{text!r} is not a number from 0 to 10")
    return level


@dataclass(frozen=True, slots=True)
class HostPort:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def host_port(value: object) -> HostPort:
    """Parse [ADDRESS:]PORT, by default on loopback; as in Go, :PORT means all addresses."""
    if isinstance(value, HostPort):
        return value
    host, colon, port = str(value).rpartition(":")
    try:
        number = PORT.convert(port, None, None)
    except click.BadParameter:
        raise click.BadParameter(
            f"{str(value)!r} is not [ADDRESS:]PORT, such as 10270 or 0.0.0.0:10270"
        ) from None
    if not colon:
        return HostPort("127.0.0.1", number)
    everywhere = "0.0.0.0"  # noqa: S104 - the user's choice
    return HostPort(host.removeprefix("[").removesuffix("]") or everywhere, number)


def duration(value: object) -> Duration:
    """Parse a Go duration such as 15s or 1m30s into seconds; for click's `type=`.

    A number without a unit is seconds, as in kubectl's --request-timeout.
    """
    if isinstance(value, Duration):
        return value
    text = str(value)
    try:
        return parse_duration(f"{text}s" if _NUMBER.fullmatch(text) else text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def byte_size(value: object) -> int:
    """Parse an amount of memory such as 16Mi; for click's `type=`."""
    from stowplan.api.quantity import value as amount

    try:
        size = amount(str(value))
    except ValueError:
        raise click.BadParameter(f"{str(value)!r} is not a size such as 16Mi") from None
    if size < 0:
        raise click.BadParameter(f"{str(value)!r} is less than nothing")
    return size


def file_option(name: str, help_text: str, **more: Any) -> Callable[[F], F]:
    """Add an option whose value is the path of a file; `more` is for `click.option`.

    With `dir_okay=False`, the path of a folder is refused.
    """
    kind = NamedPath(path_type=Path, dir_okay=more.pop("dir_okay", True))
    return click.option(name, type=kind, metavar="FILE", help=help_text, **more)


class NamedPath(click.Path):
    """A path that must not be empty: an unset variable does not mean the working directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty. Fix: name a file or a folder", param, ctx)
        return super().convert(value, param, ctx)


def length_option(example: str) -> Callable[[F], F]:
    """Add `--for`, passed to the command as `length`."""

    def length(value: object) -> Duration:
        seconds = duration(value)
        if seconds < 0:
            raise click.BadParameter("must not be negative")
        return seconds

    return click.option(
        "--for",
        "length",
        type=length,
        default="0s",
        metavar="DURATION",
        help=f"Stop after this time, such as {example}; 0 is no limit. Default: at Ctrl-C or "
        "SIGTERM.",
    )


def console_port_option(help_text: str) -> Callable[[F], F]:
    """Add `--console` for a console on loopback, passed to the command as `console_port`."""
    return click.option(
        "--console",
        "console_port",
        type=PORT,
        metavar="[PORT]",
        is_flag=False,
        flag_value=_CONSOLE_PORT,
        default=None,
        help=help_text,
    )


def ledger_options(command: F) -> F:
    """Add `--ledger`, `--ledger-size` and `--ledger-memory`."""
    for name, default, help_text in (
        ("--ledger-memory", "16Mi", "Memory for the latest attempts; 0 keeps none."),
        ("--ledger-size", "256Mi", "Size of the --ledger file, at least 4Mi."),
    ):
        command = click.option(
            name,
            type=byte_size,
            default=default,
            metavar="SIZE",
            show_default=True,
            help=help_text,
        )(command)
    return click.option(
        "--ledger",
        default="",
        metavar="FILE",
        help="Also write every attempt to this SQLite file; the oldest are deleted in time. See "
        "docs/explain.md.",
    )(command)


def console_options(beyond_loopback: str, token_file: str) -> Callable[[F], F]:
    """`--console` and `--console-token-file`, with what the command's help says about them."""

    def add(command: F) -> F:
        command = file_option("--console-token-file", token_file)(command)
        return click.option(
            "--console",
            type=host_port,
            metavar="[[ADDRESS:]PORT]",
            is_flag=False,
            flag_value=f"127.0.0.1:{_CONSOLE_PORT}",
            default=None,
            help="Serve the web console, by default on 127.0.0.1:10270; port 0 picks a free one. "
            + beyond_loopback,
        )(command)

    return add


def record_options(command: F) -> F:
    """Add `--record` and what goes with it."""
    for name, kind, default, metavar, help_text in (
        ("--record-keep", click.IntRange(0), 0, "N", "Keep the newest N recordings; 0 keeps all."),
        (
            "--record-after",
            duration,
            "24h",
            "DURATION",
            "Begin a new recording after this time; 0 is no limit.",
        ),
        ("--record-size", byte_size, "256Mi", "SIZE", "Begin a new recording at this size."),
    ):
        command = click.option(
            name, type=kind, default=default, metavar=metavar, show_default=True, help=help_text
        )(command)
    command = click.option(
        "--record-hash-names",
        is_flag=True,
        help="Replace names, images, label values and taint values in recordings by hashes.",
    )(command)
    command = file_option(
        "--record-hash-key",
        "Hash names, with the secret of at least 16 bytes in this file, so that recordings of "
        "several starts can be read together. It must not be in DIR.",
    )(command)
    return click.option(
        "--record",
        type=NamedPath(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Record the cluster and all attempts into this folder, by a process beside the "
        "scheduler. Needs to read the whole cluster. See docs/record.md.",
    )(command)


def kubeconfig_options(command: F) -> F:
    """Add kubectl's `--kubeconfig` and `--context`."""
    command = click.option("--context", metavar="NAME", help="Context of the kubeconfig to use.")(
        command
    )
    return click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig file. Default: the first of $KUBECONFIG, the pod's service account and "
        "~/.kube/config.",
    )(command)


def html_option(content: str) -> Callable[[F], F]:
    """Add `--html`."""
    return file_option(
        "--html", f"Write a self-contained HTML page with {content}.", dir_okay=False
    )


def plugin_option(command: F) -> F:
    """Add `--plugin`; `framework.loading` explains the names."""
    return click.option(
        "--plugin",
        "plugins",
        metavar="FILE:CLASS",
        multiple=True,
        help="Add a plugin of your own: file.py:Class, or module:Class. Can be repeated. Without a "
        "configuration it joins the default profile; otherwise the configuration must enable it.",
    )(command)


def feature_gates_option(command: F) -> F:
    """Add `--feature-gates` to a command that makes decisions beside a scheduler."""
    return click.option(
        "--feature-gates",
        "gates",
        metavar="NAME=BOOL",
        multiple=True,
        callback=_read_gates,
        help="Feature gates of the scheduler, separated by commas. DRADeviceTaintRules=true obeys "
        "DeviceTaintRules.",
    )(command)


def _read_gates(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> FeatureGates:
    gates = parse_gates(setting for text in given for setting in text.split(",") if setting)
    for sentence in gates.without_effect():
        click.echo(f"Warning: --feature-gates: {sentence}", err=True)
    return gates


def verify_option(default: int) -> Callable[[F], F]:
    """`--verify-decisions`, the self-check."""
    return click.option(
        "--verify-decisions",
        type=click.IntRange(0),
        metavar="N",
        default=default,
        show_default=True,
        help="Make every N-th decision a second time on a cluster that is rebuilt from the stored "
        "objects, and compare. A difference is logged as an error and counted, and all caches are "
        "dropped. In a large cluster fewer are verified: one in (nodes + pods) / 2. 0 turns it "
        "off.",
    )


def logging_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add `-v` and `--log-format`, and set up logging before the command's own code runs."""

    @functools.wraps(command)
    def with_logging(*args: P.args, **kwargs: P.kwargs) -> R:
        verbosity = kwargs.pop("verbosity")
        log_format = kwargs.pop("log_format")
        assert isinstance(verbosity, int)
        _configure(verbosity, log_format)
        return command(*args, **kwargs)

    decorated = click.option(
        "--log-format",
        "--logging-format",
        "log_format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Format of log lines.",
    )(with_logging)
    return click.option(
        "-v",
        "--v",
        "verbosity",
        type=verbosity_level,
        metavar="LEVEL",
        default=0,
        show_default=True,
        help="Log verbosity, 0 to 10. Use 2 in production, 4 or more for debugging.",
    )(decorated)


def _configure(verbosity: int, log_format: object) -> None:
    chosen: LogFormat = "json" if log_format == "json" else "text"
    configure(verbosity, chosen)
