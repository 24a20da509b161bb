"""`stowplan config`: check, print or migrate a configuration without starting a scheduler."""

from __future__ import annotations

import click

from stowplan.cli.groups import CommandGroup
from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.config.advice import advice
from stowplan.config.fields import FieldError
from stowplan.config.load import as_text, default_config, parse_config
from stowplan.config.merge import defaults_left_out
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.config.written import written_config
from stowplan.framework.registry import Registry
from stowplan.loader.files import STDIN, read_input
from stowplan.plugins.registry import in_tree_registry
from stowplan.redaction import redact
from stowplan.scheduler.assembly import plugin_errors


@click.group(cls=CommandGroup)
def config() -> None:
    """Check, print or migrate a scheduler configuration."""


@config.command()
@click.argument("file")
@output_option()
def check(file: str, output: OutputFormat | None) -> None:
    """Check the configuration in FILE (- for standard input).

    Reads FILE as `run --config` does. Prints one line per error to standard error and exits with
    code 2 if there is one. Settings that are accepted but have no effect cause a warning.

    With -o it prints the configuration with all defaults filled in, including default plugins and
    their arguments, but without secrets. `run --write-config-to` writes secrets too.
    """
    registry = _registry()
    where, text = _read(file)

    def further(loaded: KubeSchedulerConfiguration) -> list[FieldError]:
        # Here, because a configuration with errors gets its warnings too.
        for warning in advice(loaded, implements=registry.points, known=registry.names):
            click.echo(f"Warning: {where}: {warning}", err=True)
        # Only a plugin can check its arguments, so this constructs every plugin and discards it.
        return plugin_errors(loaded, registry)

    loaded = parse_config(text, where=where, check=further)
    if output is not None:
        written = written_config(loaded, registry.names)
        shown = redact(written)
        if shown != written:
            click.echo(f"Warning: {where}: secrets are left out of the output", err=True)
        print_object(shown, output)
        return
    names = ", ".join(profile.scheduler_name for profile in loaded.profiles)
    click.echo(f"{where}: ok, serves {names}")
    left_out = defaults_left_out(registry.names)
    if left_out:
        click.echo(f"Default plugins that do not exist yet: {', '.join(left_out)}")


@config.command()
@output_option(default="yaml")
def defaults(output: OutputFormat) -> None:
    """Print the default configuration."""
    print_object(written_config(default_config(), _registry().names), output)


@config.command()
@click.argument("file")
@output_option(default="yaml")
def migrate(file: str, output: OutputFormat) -> None:
    """Convert a Policy file to a KubeSchedulerConfiguration.

    FILE (- for standard input) is a Policy in JSON or YAML, which configured kube-scheduler up to
    1.22. Extenders are kept; predicates and priorities become plugins. Settings without a
    counterpart, or with a different meaning today, cause a warning on standard error.
    """
    from stowplan.config.migrate import migrate_policy

    where, text = _read(file)
    migrated, notes = migrate_policy(text, where=where)
    for note in notes:
        click.echo(f"Warning: {where}: {note}", err=True)
    print_object(migrated, output)


def _read(file: str) -> tuple[str, str]:
    """The name of a file, or of standard input, and its text."""
    where = STDIN if file == "-" else file
    return where, as_text(read_input(file), where)


def _registry() -> Registry:
    registry = in_tree_registry()
    registry.load_entry_points()
    return registry
