"""The wheel and the sdist: metadata, the same bytes twice, installed and used on each Python.

Installing needs the package index, as setting up the checkout does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from stowplan import __version__
from tools.archives import sha256
from tools.distributions import (
    REPOSITORY,
    Distributions,
    build,
    find_python,
    install,
    unpack,
    use,
)
from tools.package import PYTHONS

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
VERSIONS = [f"{major}.{minor}" for major, minor in PYTHONS]
EPOCH = 1_700_000_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return build(REPOSITORY, tmp_path_factory.mktemp("built"), epoch=EPOCH)


@pytest.fixture(scope="module")
def metadata(built: Distributions) -> Message:
    with zipfile.ZipFile(built.wheel) as wheel:
        return message_from_bytes(wheel.read(f"stowplan-{__version__}.dist-info/METADATA"))


def test_the_sdist_gives_the_same_wheel_and_the_same_sdist(
    built: Distributions, tmp_path: Path
) -> None:
    again = build(unpack(built.sdist, tmp_path / "source"), tmp_path / "again", epoch=EPOCH)
    assert [sha256(path) for path in again] == [sha256(path) for path in built]


def test_the_wheel_has_every_file_of_the_console(built: Distributions) -> None:
    package = REPOSITORY / "src" / "stowplan"
    there = {
        f"stowplan/{path.relative_to(package)}"
        for path in (package / "console" / "static").rglob("*")
        if path.is_file()
    }
    assert "stowplan/console/static/vendor/preact.LICENSE" in there
    with zipfile.ZipFile(built.wheel) as wheel:
        assert there - {*wheel.namelist()} == set()


def test_metadata_say_what_an_index_shows(metadata: Message) -> None:
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == f">={VERSIONS[0]}"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "# Stowplan" in metadata.get_payload()
    assert "kube-scheduler" in metadata["Keywords"].split(",")
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Repository", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith(urls["Repository"]) for url in urls.values())
    classifiers = metadata.get_all("Classifier", [])
    for version in VERSIONS:
        assert f"Programming Language :: Python :: {version}" in classifiers


def test_every_extra_is_documented_where_people_install(metadata: Message) -> None:
    page = (REPOSITORY / "docs" / "installation.md").read_text()
    extras = metadata.get_all("Provides-Extra", [])
    assert set(extras) == set(PROJECT["optional-dependencies"])
    assert [extra for extra in extras if f"| `stowplan[{extra}]` |" not in page] == []
    assert [name for name in PROJECT["scripts"] if f"`{name}`" not in page] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_wheel_works_on_each_python(built: Distributions, version: str, tmp_path: Path) -> None:
    python = find_python(version)
    if python is None:
        message = f"the wheel was not tried on Python {version}: there is no such interpreter here"
        if os.environ.get("CI") == "true" and version == VERSIONS[0]:
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    programs = install(built.wheel, python, tmp_path / "venv")
    use(programs, __version__, tmp_path)
    if version == VERSIONS[0]:
        remove(programs)
        install(built.sdist, python, tmp_path / "venv")
        assert (programs / "kube-scheduler").is_file()


def remove(programs: Path) -> None:
    """Uninstall, which must leave nothing of ours behind."""
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", programs / "python", "uninstall", "--quiet",
         "--yes", "stowplan"],
        check=True,
    )  # fmt: skip
    assert [path for path in programs.parent.rglob("*stowplan*") if path.is_file()] == []
