"""`make release`: build all artefacts of a release, check them, and write their checksums.

docs/releasing.md has the recipe. Artefacts that need a program which is not here are left out, and
the end of the output says so. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools import krew, man_pages
from tools.archives import sha256, write_tar_gz
from tools.distributions import (
    REPOSITORY,
    Distributions,
    ReleaseError,
    build,
    find_python,
    install,
    run,
    unpack,
    use,
)
from tools.pex_preamble import machine_words
from tools.release_images import build_images
from tools.release_versions import (
    Project,
    changelog_entry,
    read_project,
    require_clean_tree,
    require_known_repository,
    require_one_version,
)

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
_CLASSIFIERS: Final = "import trove_classifiers as t; print(*t.classifiers, sep='\\n')"


class Release:
    """The artefacts in `folder`, and notes about what is not there."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self.scratch = scratch
        self.notes: list[str] = []
        self.project: Project = read_project(REPOSITORY)
        self.epoch = int(run(["git", "log", "-1", "--format=%ct"]))

    @property
    def version(self) -> str:
        return self.project.version

    def check_sources(self) -> None:
        require_clean_tree(REPOSITORY)
        require_one_version(REPOSITORY, self.version)
        note = require_known_repository(REPOSITORY, self.project.repository)
        if note:
            self.notes.append(note)
        if not changelog_entry(REPOSITORY).is_dated:
            self.notes.append(f"CHANGELOG.md has no date for {self.version} yet")
        for path, text in man_pages.files().items():
            if not path.is_file() or path.read_text() != text:
                shown = path.relative_to(REPOSITORY)
                raise ReleaseError(f"{shown} is out of date. Fix: run `make docs` and commit")

    def build_distributions(self) -> Distributions:
        """Build them from the commit, and again from the sdist: the bytes must be the same."""
        tree = self.scratch / "tree"
        tree.mkdir()
        archive = self.scratch / "tree.tar"
        run(["git", "archive", "--output", archive, "HEAD"])
        run(["tar", "--extract", "--file", archive, "--directory", tree])
        first = build(tree, self.folder, epoch=self.epoch)
        again = build(
            unpack(first.sdist, self.scratch / "sdist"), self.scratch / "again", epoch=self.epoch
        )
        for one, other in zip(first, again, strict=True):
            if sha256(one) != sha256(other):
                raise ReleaseError(f"{one.name} differs when it is built again from the sdist")
        return first

    def check_metadata(self, built: Distributions) -> None:
        """Check that a package index would accept the metadata and show the description."""
        tools = self.scratch / "twine"
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        pinned = REPOSITORY / "requirements" / "release.txt"
        run([*pip, "--no-deps", "--require-hashes", "--target", str(tools), "-r", str(pinned)])
        run([sys.executable, "-m", "twine", "check", "--strict", *built], PYTHONPATH=str(tools))
        known = run([sys.executable, "-c", _CLASSIFIERS], PYTHONPATH=str(tools)).splitlines()
        unknown = set(self.project.classifiers) - set(known)
        if unknown:
            raise ReleaseError(f"pyproject.toml has unknown classifiers: {', '.join(unknown)}")

    def try_distributions(self, built: Distributions) -> None:
        """Install and use the wheel on every Python that is here, and the sdist on this one."""
        for version in PYTHONS:
            python = find_python(version)
            if python is None:
                self.notes.append(f"the wheel was not tried on Python {version}: it is not here")
                continue
            say(f"  the wheel on Python {version}")
            use(install(built.wheel, python, self.scratch / version), self.version, self.scratch)
        say("  the sdist")
        use(install(built.sdist, sys.executable, self.scratch / "s"), self.version, self.scratch)

    def build_packages(self, machines: Sequence[str]) -> dict[str, Path]:
        """Return the packages by machine. Their bills of materials are copied, too."""
        packages = {}
        for machine in machines:
            folder = self.scratch / machine
            built = folder / "stowplan.pex"
            say(f"  for {machine}")
            run([sys.executable, "-m", "tools.package", built, "--machine", machine],
                SOURCE_DATE_EPOCH=str(self.epoch))  # fmt: skip
            if machine == machine_words(platform.machine()):
                self._expect_version([built, "--version"])
            stem = f"stowplan-{self.version}-linux-{krew.ARCHITECTURES[machine]}"
            for each in sorted(folder.glob("stowplan.*")):
                shutil.copy2(each, self.folder / f"{stem}{each.name.removeprefix('stowplan')}")
            packages[machine] = built
        return packages

    def build_plugin(self, packages: dict[str, Path]) -> None:
        archives = {
            machine: krew.write_archive(
                self.folder, package, version=self.version, machine=machine, epoch=self.epoch
            )
            for machine, package in packages.items()
        }
        text = krew.manifest(archives, version=self.version, repository=self.project.repository)
        (self.folder / "krew-stowplan.yaml").write_text(text)

    def build_shared_files(self) -> None:
        """Pack man pages and completion scripts for those who package Stowplan themselves."""
        members = {
            str(path.relative_to(man_pages.FOLDER.parent)): text.encode()
            for path, text in man_pages.files().items()
        }
        archive = self.folder / f"stowplan-{self.version}-share.tar.gz"
        write_tar_gz(archive, members, epoch=self.epoch)

    def build_charts(self) -> None:
        from stowplan.lab.controlplane import BinaryMissing, find_binary

        charts = sorted(REPOSITORY.glob("deploy/helm/*/Chart.yaml"))
        helm: str | Path | None = shutil.which("helm")
        if helm is None:
            try:
                helm = find_binary("helm")
            except BinaryMissing:
                self.notes.append("no Helm chart: helm is not here")
                return
        for chart in charts:
            run([helm, "lint", "--strict", chart.parent])
            run([helm, "package", chart.parent, "--destination", self.folder])

    def build_images(self, packages: dict[str, Path], base: str) -> None:
        self.notes += build_images(
            self.folder, packages, version=self.version, base=base, epoch=self.epoch
        )

    def write_checksums(self) -> None:
        artefacts = sorted(path for path in self.folder.iterdir() if path.name != "SHA256SUMS")
        lines = [f"{sha256(path)}  {path.name}\n" for path in artefacts]
        (self.folder / "SHA256SUMS").write_text("".join(lines))

    def _expect_version(self, command: Sequence[str | Path]) -> None:
        shown = run(command, cwd=self.scratch).strip()
        if shown != f"stowplan, version {self.version}":
            raise ReleaseError(f"{command[0]} prints {shown!r}, not version {self.version}")


@contextmanager
def step(title: str) -> Iterator[None]:
    start = time.monotonic()
    say(f"{title}...")
    yield
    say(f"{title}: done in {time.monotonic() - start:.0f} s")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def release(folder: Path, machines: Sequence[str], base: str, *, has_images: bool) -> list[str]:
    """Build everything into an empty folder; the notes say what is missing."""
    with tempfile.TemporaryDirectory(prefix="stowplan-release-") as scratch:
        made = Release(folder, Path(scratch))
        with step("Checking the sources"):
            made.check_sources()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with step("Building the wheel and the sdist, twice"):
            built = made.build_distributions()
        with step("Checking their metadata"):
            made.check_metadata(built)
        with step(f"Installing and using them on Python {', '.join(PYTHONS)}"):
            made.try_distributions(built)
        with step(f"Packing stowplan.pex for {', '.join(machines)}"):
            packages = made.build_packages(machines)
        with step("Packing the kubectl plugin, man pages and completion scripts"):
            made.build_plugin(packages)
            made.build_shared_files()
        with step("Packing the Helm chart"):
            made.build_charts()
        if has_images:
            with step("Building the images"):
                made.build_images(packages, base)
        else:
            made.notes.append("no images: left out by IMAGES=0")
        made.write_checksums()
        return made.notes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "dist" / "release")
    parser.add_argument("--machines", default=platform.machine(), help="such as x86_64,aarch64")
    parser.add_argument(
        "--base", default="", help="base of the images; the Containerfile's unless told"
    )
    parser.add_argument("--no-images", action="store_true", help="build no images")
    parser.add_argument("--check", action="store_true", help="only check the sources")
    arguments = parser.parse_args()
    machines = [machine_words(word) for word in arguments.machines.replace(",", " ").split()]
    unknown = [machine for machine in machines if machine not in krew.ARCHITECTURES]
    if unknown:
        parser.error(f"--machines: {unknown[0]} is not {' or '.join(krew.ARCHITECTURES)}")
    folder: Path = arguments.output.resolve()
    try:
        if arguments.check:
            Release(folder, folder).check_sources()
            return
        notes = release(folder, machines, arguments.base, has_images=not arguments.no_images)
    except (ReleaseError, subprocess.SubprocessError) as error:
        sys.exit(f"Error: {error}")
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size / 2**20:8.2f} MiB  {path.name}")
    for note in notes:
        print(f"Note: {note}")


if __name__ == "__main__":
    main()
