"""requirements/*.txt: what is pinned is what pyproject.toml allows, so that what we test with is
among what others may get.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD = PROJECT["build-system"]["requires"]
RUNTIME = [
    *PROJECT["project"]["dependencies"],
    *PROJECT["project"]["optional-dependencies"]["fast"],
]
EXTRAS = [
    line
    for extra in ("gym", "data", "dask")
    for line in PROJECT["project"]["optional-dependencies"][extra]
]


def pinned(file: str) -> dict[str, set[str]]:
    """Versions by name; there are several where Pythons differ in what they get."""
    found: dict[str, set[str]] = {}
    text = (ROOT / "requirements" / file).read_text()
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("runtime.txt", RUNTIME),
        # `make setup` and `make package` build with what is installed.
        ("dev.txt", [*RUNTIME, *BUILD, *EXTRAS]),
    ],
)
def test_what_is_pinned_is_allowed(file: str, wanted: list[str]) -> None:
    versions = pinned(file)
    for line in wanted:
        requirement = Requirement(line)
        chosen = versions[canonicalize_name(requirement.name)]
        assert [each for each in chosen if each not in requirement.specifier] == [], line


@pytest.mark.parametrize(
    "file",
    ["Makefile", "tools/package.py", "src/stowplan/lab/bench/extender_contestants.py",
     "src/stowplan/lab/controlplane/toolchain.py"],
)  # fmt: skip
def test_pinned_sets_are_installed_as_they_are(file: str) -> None:
    """Without --no-deps, pip looks for `coverage[toml]`, which a set pins as `coverage`, among all
    versions, and refuses the set on the day that a newer one is released.
    """
    lines = [line for line in (ROOT / file).read_text().splitlines() if "--require-hashes" in line]
    assert lines
    assert [line for line in lines if "--no-deps" not in line] == []
