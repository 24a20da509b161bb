"""`kube-scheduler`: Stowplan with exactly kube-scheduler's command line, to run in its place.

`stowplan run` has the same flags with defaults for a second scheduler. This command has upstream's
defaults: HTTPS on all interfaces, the Lease kube-scheduler, no plain HTTP.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

import click

from stowplan import __version__
from stowplan.cli.flag_options import FlagSections, all_options
from stowplan.cli.flags_table import FLAGS
from stowplan.cli.pflag import parse_arguments
from stowplan.config.kubernetes_version import KUBERNETES_VERSION
from stowplan.server.serving_options import SECURE_PORT


class KubeSchedulerCommand(FlagSections):
    """A command whose arguments pflag's rules apply to, not click's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell completes an unfinished command line
            return []
        if any(word in ("-h", "--help") for word in args):
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        ctx.params["flags"] = parse_arguments(args, FLAGS.values())
        return []

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        return None  # the table has it

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[flags]"]


def schedule(flags: dict[str, Any]) -> None:
    """Take kube-scheduler's place, with its command line.

    Has every flag of kube-scheduler 1.36 with its default, in Go's syntax: --flag=value or --flag
    value, boolean flags only with "=". A flag that has no effect here causes a warning that says
    why.
    """
    from stowplan.cli.flag_values import configure_logging, feature_gates

    gates = feature_gates(flags)
    version = flags.get("version", "false")
    if version == "true":
        click.echo(f"Kubernetes {KUBERNETES_VERSION} (Stowplan {__version__})")
        return
    if version == "raw":
        click.echo(_raw_version())
        return
    from stowplan.cli.run import start

    configure_logging(
        flags,
        gates,
        verbosity=flags.get("v", 0),
        log_format=flags.get("logging-format", "text"),
    )
    start(flags, gates, bind_address="0.0.0.0", secure_port=SECURE_PORT)  # noqa: S104 - upstream's


kube_scheduler = KubeSchedulerCommand(
    "kube-scheduler", callback=schedule, help=schedule.__doc__, params=list(all_options())
)


def main() -> None:
    """Run the entry point `kube-scheduler`."""
    from stowplan.cli.main import main

    main(command=kube_scheduler, prog_name="kube-scheduler")


def _raw_version() -> str:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    info = {
        "Major": major,
        "Minor": minor,
        "GitVersion": KUBERNETES_VERSION,
        "Compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "Platform": f"{sys.platform}/{platform.machine()}",
        "Stowplan": __version__,
    }
    return "version.Info{" + ", ".join(f'{key}:"{value}"' for key, value in info.items()) + "}"
