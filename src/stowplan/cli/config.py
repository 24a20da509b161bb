"""`stowplan config`: look at a configuration without starting a scheduler."""

from __future__ import annotations

import sys

import click
from msgspec.structs import replace

from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.config.load import default_config, load_config, parse_config, to_object
from stowplan.config.merge import defaults_left_out, merge_defaults
from stowplan.config.types import KubeSchedulerConfiguration, PluginSet, Profile
from stowplan.framework.registry import Registry
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine


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
        where, loaded = "<stdin>", parse_config(sys.stdin.read(), where="<stdin>")
    else:
        where, loaded = file, load_config(file)
    registry = _registry()
    # Only plugins know their arguments, so they are made for real, and thrown away.
    build_engine(loaded, registry=registry, where=where)
    if output is not None:
        print_object(_completed(loaded, registry), output)
        return
    names = ", ".join(profile.scheduler_name for profile in loaded.profiles)
    click.echo(f"{where}: ok, serves {names}")
    left_out = defaults_left_out(registry.names)
    if left_out:
        click.echo(f"Default plugins that do not exist yet: {', '.join(left_out)}")


@config.command()
@output_option(default="yaml")
def defaults(output: OutputFormat) -> None:
    """Print what applies when no configuration file is given."""
    print_object(_completed(default_config(), _registry()), output)


def _registry() -> Registry:
    registry = in_tree_registry()
    registry.load_entry_points()
    return registry


def _completed(loaded: KubeSchedulerConfiguration, registry: Registry) -> dict[str, object]:
    """With the default plugins written out, as kube-scheduler prints its configuration."""
    return to_object(
        replace(loaded, profiles=tuple(_spelled_out(p, registry) for p in loaded.profiles))
    )


def _spelled_out(profile: Profile, registry: Registry) -> Profile:
    merged = merge_defaults(profile.plugins)
    # A default plugin that does not exist yet would be refused when the output is read again.
    enabled = tuple(ref for ref in merged.multi_point.enabled if ref.name in registry.names)
    multi_point = PluginSet(enabled=enabled, disabled=merged.multi_point.disabled)
    return replace(profile, plugins=replace(merged, multi_point=multi_point))
