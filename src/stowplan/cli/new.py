"""`stowplan new plugin NAME`: a package with a plugin, its test, a configuration and a scenario.

The files are templates in `stowplan/cli/plugin_template` with the plugin's names filled in. An
existing file is never overwritten.
"""

from __future__ import annotations

import keyword
import re
import shlex
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

from stowplan import __version__
from stowplan.cli.groups import CommandGroup
from stowplan.errors import ConfigError
from stowplan.loader.json_text import load_json

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_ ][A-Za-z0-9]+)*")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+|[0-9]+")
_MOST = 40
_TEMPLATE = "plugin_template"
_SUFFIX = ".txt"


@dataclass(frozen=True)
class NameSpellings:
    """One name in the spellings of class, module and project."""

    words: tuple[str, ...]

    @property
    def plugin(self) -> str:
        """`SsdOnly`: the class, and the plugin's name in configurations."""
        return "".join(word[:1].upper() + word[1:] for word in self.words)

    @property
    def module(self) -> str:
        """`ssd_only`."""
        return "_".join(self.words).lower()

    @property
    def project(self) -> str:
        """`ssd-only`."""
        return self.module.replace("_", "-")

    @property
    def label(self) -> str:
        """The node label that the generated plugin reads."""
        return f"example.com/{self.project}"


def names_of(given: str) -> NameSpellings:
    """Split a plugin name into words; ConfigError if the name is invalid or taken."""
    where = f"name {given!r}"
    if not _NAME.fullmatch(given):
        raise ConfigError(
            "must begin with a letter and have only letters and digits, with single hyphens or"
            " underscores between words: SsdOnly, ssd-only",
            where=where,
        )
    if len(given) > _MOST:
        raise ConfigError(f"must not be longer than {_MOST} characters", where=where)
    words = tuple(word for part in re.split("[-_ ]", given) for word in _WORDS.findall(part))
    names = NameSpellings(words)
    if keyword.iskeyword(names.module) or names.module in sys.stdlib_module_names:
        raise ConfigError(
            f"would create a package {names.module}, which Python already has; choose another",
            where=where,
        )
    if names.module in ("stowplan", "tests", "test"):
        raise ConfigError(f"{names.module} is taken; choose another", where=where)
    _check_is_free(names, where)
    return names


def _check_is_free(names: NameSpellings, where: str) -> None:
    from stowplan.plugins.registry import IN_TREE

    if any(plugin.name == names.plugin for plugin in IN_TREE):
        raise ConfigError(
            f"Stowplan already has a plugin {names.plugin}; choose another", where=where
        )


@click.group(cls=CommandGroup)
def new() -> None:
    """Create a package for your own plugin."""


@new.command()
@click.argument("name")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where to create the package's folder. Default: the current folder.",
)
def plugin(name: str, folder: Path) -> None:
    """Create a package with a scheduler plugin.

    The package has a plugin of ten lines, its test, a configuration that enables it, and a scenario
    to try it on. NAME is the plugin's name: SsdOnly or ssd-only.
    """
    names = names_of(name)
    target = folder / names.project
    made = make_package(names, target)
    click.echo(f"Made {target}:")
    for path in made:
        click.echo(f"  {path.relative_to(target)}")
    click.echo(
        f"""
Next:
  cd {shlex.quote(str(target))}
  python3 -m venv .venv && . .venv/bin/activate
  pip install {_own_source()}--editable '.[test]'
  pytest --stowplan-plugin {names.module}:{names.plugin}
  stowplan simulate scenario.yaml"""
    )


def _own_source() -> str:
    """How pip gets the Stowplan that is running: a checkout, a wheel, or "" for the index."""
    try:
        origin = load_json(distribution("stowplan").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    url = urlsplit(origin.get("url", ""))
    path = Path(unquote(url.path)) if url.scheme == "file" else Path(__file__).parents[3]
    if url.scheme == "file" and path.is_file():
        return f"{shlex.quote(str(path))} "
    return f"--editable {shlex.quote(str(path))} " if (path / "pyproject.toml").is_file() else ""


def make_package(names: NameSpellings, target: Path) -> list[Path]:
    """Write the files; ConfigError if the target folder is not empty."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(
            "already exists and is not overwritten; choose another name or --dir",
            where=str(target),
        )
    made: list[Path] = []
    try:
        for parts, template in _templates(files("stowplan.cli") / _TEMPLATE):
            path = target.joinpath(*(_filled(part, names) for part in parts))
            path = path.with_name(path.name.removesuffix(_SUFFIX))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_filled(template.read_text(encoding="utf-8"), names), encoding="utf-8")
            made.append(path)
    except OSError as problem:
        raise ConfigError(f"cannot be written: {problem.strerror}", where=str(target)) from None
    return sorted(made)


def _templates(folder: Traversable) -> list[tuple[tuple[str, ...], Traversable]]:
    found: list[tuple[tuple[str, ...], Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += [((entry.name, *parts), file) for parts, file in _templates(entry)]
        elif entry.name.endswith(_SUFFIX):
            found.append(((entry.name,), entry))
    return found


def _filled(text: str, names: NameSpellings) -> str:
    for key, value in (
        ("{{plugin}}", names.plugin),
        ("{{module}}", names.module),
        ("{{project}}", names.project),
        ("{{label}}", names.label),
        ("{{version}}", __version__),
        ("__module__", names.module),
    ):
        text = text.replace(key, value)
    return text
