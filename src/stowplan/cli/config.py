"""`stowplan config`: look at a configuration without starting a scheduler."""

from __future__ import annotations

import sys

import click
from msgspec.structs import replace

from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.config.load import default_config, load_config, parse_config, to_object
from stowplan.config.merge import merge_defaults
from stowplan.config.types import KubeSchedulerConfiguration


@click.group()
def config() -> None:
    """Check a scheduler configuration, or print the default one."""


@config.command()
@click.argument("file")
@output_option()
def check(file: str, output: OutputFormat | None) -> None:
    """Read FILE (- for standard input) as `run --config` would.

    Every mistake is one line on standard error, and the exit code 2. With -o the configuration is
    printed with all its defaults filled in.
    """
    if file == "-":
        loaded = parse_config(sys.stdin.read(), where="<stdin>")
    else:
        loaded = load_config(file)
    if output is not None:
        print_object(_completed(loaded), output)
        return
    names = ", ".join(profile.scheduler_name for profile in loaded.profiles)
    click.echo(f"{file}: ok, serves {names}")


@config.command()
@output_option(default="yaml")
def defaults(output: OutputFormat) -> None:
    """Print what applies when no configuration file is given."""
    print_object(_completed(default_config()), output)


def _completed(loaded: KubeSchedulerConfiguration) -> dict[str, object]:
    """With the default plugins written out, as kube-scheduler prints its configuration."""
    profiles = tuple(
        replace(profile, plugins=merge_defaults(profile.plugins)) for profile in loaded.profiles
    )
    return to_object(replace(loaded, profiles=profiles))
