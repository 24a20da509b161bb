"""One file that runs Stowplan: `make package` writes dist/stowplan.pex.

`--plugins DIR` packs the Python modules of a folder into it, such as an extender's algorithm.

Wheels come from the package index, each checked against the hashes of requirements/runtime.txt, for
every Python that the file is to serve; after that pex, which is checked as well, is given those
wheels and no index. Needs no compiler, and builds for Linux whatever it runs on. Beside the package
it writes a bill of materials for each Python, such as dist/stowplan.cp313.cdx.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from packaging.markers import Marker
from packaging.tags import compatible_tags, cpython_tags

from tools import sbom
from tools.pex_preamble import GLIBC, machine_words

Version: TypeAlias = tuple[int, int]

REPOSITORY: Final = Path(__file__).parents[1]
REQUIREMENTS: Final = REPOSITORY / "requirements"
PYTHONS: Final[tuple[Version, ...]] = ((3, 11), (3, 12), (3, 13), (3, 14))
#: What a package of this name runs.
ENTRY_POINTS: Final = {
    "stowplan": "stowplan.__main__:main",
    "wca-scheduler": "stowplan.cli.extender:main",
}
_OLDEST_GLIBC: Final = 5


class PackagingError(Exception):
    """A program that we need has failed, and has said why."""


def build(output: Path, pythons: Sequence[Version], machine: str, plugins: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="stowplan-package-") as scratch:
        folder = Path(scratch)
        wheels, pex = folder / "wheels", folder / "pex"
        pip(["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, REPOSITORY])
        for version in pythons:
            say(f"Fetching the wheels for Python {version[0]}.{version[1]}...")
            download(version, machine, wheels, folder)
        pinned = REQUIREMENTS / "package.txt"
        pip(["install", "--no-deps", "--require-hashes", "--target", pex, "-r", pinned])
        say("Packing...")
        pack(output, pythons, machine, folder, plugins)
        for version in pythons:
            bill = sbom.document(
                wheels.iterdir(),
                complete_platform(version, machine)["compatible_tags"],
                marker_environment(version, machine),
                frozenset({"fast"}),
            )
            sbom_file(output, version).write_text(json.dumps(bill, indent=1) + "\n")


def sbom_file(output: Path, version: Version) -> Path:
    """Beside the package: the bill of materials of one Python that it serves."""
    return output.with_name(f"{output.stem}.cp{version[0]}{version[1]}.cdx.json")


def download(version: Version, machine: str, wheels: Path, folder: Path) -> None:
    environment = marker_environment(version, machine)
    pinned = folder / f"requirements-{version[0]}.{version[1]}.txt"
    pinned.write_text(requirements_for(environment, (REQUIREMENTS / "runtime.txt").read_text()))
    platforms = [f"--platform={name}" for name in platform_tags(machine)]
    pip(
        ["download", "--require-hashes", "--no-deps", "--only-binary=:all:", *platforms,
         "--implementation=cp", f"--python-version={environment['python_version']}",
         "-r", pinned, "--dest", wheels]
    )  # fmt: skip


def pack(
    output: Path, pythons: Sequence[Version], machine: str, folder: Path, plugins: Path | None
) -> None:
    preamble = folder / "preamble.py"
    call = f"require({tuple(pythons)!r}, {machine!r})"
    preamble.write_text(f"{(Path(__file__).parent / 'pex_preamble.py').read_text()}\n\n{call}\n")
    targets: list[str | Path] = []
    for version in pythons:
        target = folder / f"target-{version[0]}.{version[1]}.json"
        target.write_text(json.dumps(complete_platform(version, machine)))
        targets += ["--complete-platform", target]
    if plugins is not None:
        targets += ["--sources-directory", plugins]
    output.parent.mkdir(parents=True, exist_ok=True)
    run(
        [sys.executable, "-m", "pex", "stowplan", "uvloop",
         "--pre-resolved-dists", folder / "wheels", *targets,
         "--entry-point", ENTRY_POINTS[output.stem], "--preamble-file", preamble,
         "--python-shebang", "/usr/bin/env python3", "--pex-root", folder / "root",
         "--include-tools", "--output-file", output],
        PYTHONPATH=str(folder / "pex"),
    )  # fmt: skip


def requirements_for(environment: dict[str, str], text: str) -> str:
    """The lines of a requirements file that count in an environment, without their conditions.

    pip itself would ask the Python it runs with, and not the one that it fetches for.
    """
    kept = []
    for entry in re.split(r"\n(?=\S)", text):
        line, _, hashes = entry.partition(" \\\n")
        requirement, _, condition = line.partition(" ; ")
        if not condition or Marker(condition).evaluate(dict(environment)):
            kept.append(f"{requirement} \\\n{hashes}")
    return "\n".join(kept)


def complete_platform(version: Version, machine: str) -> dict[str, Any]:
    """A Python that is not here, as pex wants it described."""
    platforms = [*platform_tags(machine), f"linux_{machine}"]
    interpreter = f"cp{version[0]}{version[1]}"
    tags = [
        *cpython_tags(version, [interpreter], platforms),
        *compatible_tags(version, interpreter, platforms),
    ]
    return {
        "marker_environment": marker_environment(version, machine),
        "compatible_tags": list(dict.fromkeys(map(str, tags))),
    }


def platform_tags(machine: str) -> list[str]:
    """The platforms of wheels that run with our oldest glibc, the best first."""
    major, newest = GLIBC
    tags = [
        f"manylinux_{major}_{minor}_{machine}" for minor in range(newest, _OLDEST_GLIBC - 1, -1)
    ]
    return [*tags, f"manylinux2014_{machine}", f"manylinux1_{machine}"]


def marker_environment(version: Version, machine: str) -> dict[str, str]:
    number = f"{version[0]}.{version[1]}"
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{number}.0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{number}.0",
        "python_version": number,
        "sys_platform": "linux",
    }


def pip(arguments: Sequence[str | Path]) -> None:
    run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments])


def run(command: Sequence[str | Path], **variables: str) -> None:
    # Shown only if it fails: pip and pex have much to say.
    done = subprocess.run(
        command, cwd=REPOSITORY, env=os.environ | variables, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise PackagingError(f"{done.stdout}{done.stderr}".strip())


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def read_pythons(text: str) -> Iterator[Version]:
    for word in text.replace(",", " ").split():
        major, _, minor = word.partition(".")
        if (
            not (minor.isascii() and minor.isdigit())
            or (3, int(minor)) < PYTHONS[0]
            or major != "3"
        ):
            raise argparse.ArgumentTypeError(f"{word} is no Python from 3.11 on, such as 3.12")
        yield 3, int(minor)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.package", description=__doc__)
    parser.add_argument(
        "output", type=Path, help="stowplan.pex or wca-scheduler.pex, in any folder"
    )
    parser.add_argument(
        "--pythons",
        type=lambda text: tuple(sorted(set(read_pythons(text)))),
        default=PYTHONS,
        help="versions to serve; 3.11 to 3.14 unless told",
    )
    parser.add_argument(
        "--plugins", type=Path, metavar="DIR", help="pack the Python modules of this folder, too"
    )
    parser.add_argument(
        "--machine",
        type=machine_words,
        default=platform.machine(),
        help="x86_64 or aarch64 (amd64 and arm64 mean the same); this machine's unless told",
    )
    arguments = parser.parse_args()
    output: Path = arguments.output.resolve()
    if output.suffix != ".pex" or output.stem not in ENTRY_POINTS:
        parser.error(f"the output is called {' or '.join(f'{name}.pex' for name in ENTRY_POINTS)}")
    plugins: Path | None = arguments.plugins and arguments.plugins.resolve()
    if plugins is not None and not plugins.is_dir():
        parser.error(f"--plugins: {arguments.plugins} is not a folder")
    machine: str = arguments.machine
    try:
        build(output, arguments.pythons or PYTHONS, machine, plugins)
    except PackagingError as error:
        sys.exit(f"{error}\nError: {arguments.output} was not built; the lines above say why.")
    versions = ", ".join(f"{major}.{minor}" for major, minor in arguments.pythons or PYTHONS)
    size = output.stat().st_size / 2**20
    libc = ".".join(map(str, GLIBC))
    print(
        f"{arguments.output}: {size:.0f} MiB, serves CPython {versions} on Linux for {machine} "
        f"with glibc {libc} or newer."
    )


if __name__ == "__main__":
    main()
