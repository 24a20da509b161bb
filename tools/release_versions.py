"""What `make release` checks before it builds: a clean tree, one version, one repository.

The version is the one in pyproject.toml. Each check raises ReleaseError with one line that says how
to fix it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tools.distributions import ReleaseError, run

_CHANGELOG: Final = re.compile(r"^## \[(?P<version>[^]]+)\](?: - (?P<date>.+))?$", re.MULTILINE)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


class Project(NamedTuple):
    """What pyproject.toml says."""

    version: str
    repository: str
    classifiers: list[str]


def read_project(root: Path) -> Project:
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return Project(project["version"], project["urls"]["Repository"], project["classifiers"])


def require_clean_tree(root: Path) -> None:
    changed = run(["git", "status", "--porcelain"], cwd=root).splitlines()
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise ReleaseError(
            f"the working tree has changes: {changed[0][3:]}{more}. Fix: commit or stash them"
        )


def require_one_version(root: Path, version: str) -> None:
    for place, found in versions(root):
        if found != version:
            raise ReleaseError(
                f"{place} says {found}, pyproject.toml says {version}. Fix: make them agree"
            )


def versions(root: Path) -> Iterator[tuple[str, str]]:
    """Yield every other place that states the version, with what it states."""
    package = (root / "src" / "stowplan" / "__init__.py").read_text()
    yield "src/stowplan/__init__.py", _first(r'^__version__ = "(.*)"$', package)
    yield "CHANGELOG.md", changelog_entry(root).version
    for page in sorted((root / "data" / "share" / "man" / "man1").glob("*.1")):
        if not (text := page.read_text()).startswith(".so "):
            yield str(page.relative_to(root)), _first(r'"Stowplan ([^"]+)"', text)
    for file in sorted(root.glob("deploy/helm/*/Chart.yaml")):
        chart = yaml.safe_load(file.read_text())
        for field in ("version", "appVersion"):
            yield f"{file.relative_to(root)}: {field}", str(chart.get(field))
    for file in sorted(root.glob("deploy/*/**/*.yaml")):
        if "helm" not in file.parts:
            for image in re.findall(r"^\s*(?:- )?image: stowplan:(\S+)$", file.read_text(), re.M):
                yield f"{file.relative_to(root)}: image", image.removesuffix("-static-pod")


class ChangelogEntry(NamedTuple):
    version: str
    is_dated: bool


def changelog_entry(root: Path) -> ChangelogEntry:
    """The newest version of CHANGELOG.md; an empty Unreleased section may stand above it."""
    for found in _CHANGELOG.finditer((root / "CHANGELOG.md").read_text()):
        if found["version"].lower() != "unreleased":
            return ChangelogEntry(found["version"], bool(_DATE.fullmatch(found["date"] or "")))
    raise ReleaseError("CHANGELOG.md has no heading such as ## [0.1.0] - 2026-01-31. Fix: add it")


def require_known_repository(root: Path, repository: str) -> str:
    """Compare pyproject.toml's repository with the remote `origin`; return a note if there is none.

    A fork, or a typing error, must not publish a manifest that downloads from somewhere else.
    """
    remotes = run(["git", "remote"], cwd=root).split()
    if "origin" not in remotes:
        return f"no remote `origin` confirms that the repository is {repository}"
    origin = run(["git", "remote", "get-url", "origin"], cwd=root).strip()
    address = re.sub(r"^(?:ssh://)?git@([^:/]+)[:/]", r"https://\1/", origin).removesuffix(".git")
    if address.rstrip("/") != repository:
        raise ReleaseError(
            f"the remote `origin` is {address}, pyproject.toml names {repository}. Fix: change "
            "project.urls in pyproject.toml, or the remote"
        )
    return ""


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found is not None else "nothing"
