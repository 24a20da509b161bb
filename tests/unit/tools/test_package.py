"""How a package is put together, and what it says where it cannot run."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan import __version__
from tools import pex_preamble
from tools.package import (
    REQUIREMENTS,
    complete_platform,
    marker_environment,
    read_pythons,
    requirements_for,
)

ELSEWHERE = (3, 6)
HERE = sys.version_info[:2]


def test_requirements_are_those_of_the_python_that_is_served() -> None:
    text = (
        "plain==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
        "old==1 ; python_full_version < '3.12' \\\n    --hash=sha256:cc\n"
        "old==2 ; python_full_version >= '3.12' \\\n    --hash=sha256:dd\n"
        "windows==1 ; sys_platform == 'win32' \\\n    --hash=sha256:ee\n"
    )
    assert requirements_for(marker_environment((3, 12), "x86_64"), text) == (
        "plain==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
        "old==2 \\\n    --hash=sha256:dd"
    )


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_every_dependency_is_pinned_by_hash_for_every_python(minor: int) -> None:
    text = (REQUIREMENTS / "runtime.txt").read_text()
    kept = requirements_for(marker_environment((3, minor), "x86_64"), text)
    names = re.findall(r"^([a-z0-9-]+)==", kept, re.MULTILINE)
    assert len(names) == len(set(names))
    assert {"aiohttp", "msgspec", "numpy", "click", "pyyaml", "prometheus-client"} <= set(names)
    for entry in re.split(r"\n(?=\S)", kept):
        assert "--hash=sha256:" in entry, entry


@pytest.mark.parametrize("file", sorted(REQUIREMENTS.glob("*.txt")), ids=lambda file: file.name)
def test_requirements_name_no_index(file: Path) -> None:
    text = file.read_text()
    assert not re.search(r"https?://|--index|--find-links|--trusted", text)
    assert file.with_suffix(".in").name in {each.name for each in REQUIREMENTS.glob("*.in")}


def test_a_python_that_is_not_here_is_described_in_full() -> None:
    target = complete_platform((3, 13), "aarch64")
    tags = target["compatible_tags"]
    for tag in ("cp313-cp313-manylinux_2_28_aarch64", "cp313-cp313-manylinux2014_aarch64",
                "cp38-abi3-manylinux_2_17_aarch64", "py3-none-any"):  # fmt: skip
        assert tag in tags
    assert not [tag for tag in tags if "x86_64" in tag or "2_29" in tag]
    assert target["marker_environment"]["python_version"] == "3.13"


def test_pythons_to_serve() -> None:
    assert list(read_pythons("3.12 3.11,3.14")) == [(3, 12), (3, 11), (3, 14)]
    for bad in ("3.10", "3", "2.7", "4.0", "3.x", "3.12.1"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"is no Python from 3\.11 on"):
            list(read_pythons(bad))


def start(versions: object, machine: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python that runs the beginning of a pex, and then says which it is."""
    program = f"{Path(pex_preamble.__file__).read_text()}\nrequire({versions!r}, {machine!r})\n"
    program += "print('went on')\n"
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PATH": "/nowhere", **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


MACHINE = pex_preamble.machine_words(os.uname().machine)


def test_a_package_goes_on_where_it_can() -> None:
    done = start((ELSEWHERE, HERE), MACHINE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


def test_one_line_under_another_python() -> None:
    done = start((ELSEWHERE,), MACHINE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert f"serves CPython 3.6 on Linux for {MACHINE} with glibc 2.28 or newer" in done.stderr
    assert f"this is CPython {HERE[0]}.{HERE[1]}." in done.stderr


def test_one_line_on_another_machine() -> None:
    done = start((HERE,), "pdp11")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert f"; this is linux for {MACHINE} with glibc " in done.stderr


def test_another_python_of_the_path_takes_over(tmp_path: Path) -> None:
    broken, good = tmp_path / "broken", tmp_path / "good"
    for folder, text in ((broken, "exit 127"), (good, 'echo "took over: $*"')):
        folder.mkdir()
        program = folder / "python3.6"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    done = start((ELSEWHERE,), MACHINE, PATH=f"{broken}:{good}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "took over: -c\n", "with the same arguments"


@pytest.mark.parametrize(
    ("libc", "release", "enough"),
    [("glibc", "2.28", True), ("glibc", "2.36", True), ("glibc", "3.0", True),
     ("glibc", "2.17", False), ("", "", False), ("musl", "2.28", False)],
)  # fmt: skip
def test_c_libraries(libc: str, release: str, enough: bool) -> None:
    assert pex_preamble.is_new_enough(libc, release) is enough


def test_make_builds_both_packages() -> None:
    done = subprocess.run(
        ["make", "-n", "package", "wca_scheduler_package", "PYTHONS=3.11", "DIST=out"],
        cwd=REQUIREMENTS.parent, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert re.findall(r"tools\.package (.*)", done.stdout) == [
        'out/stowplan.pex --pythons "3.11"',
        'out/wca-scheduler.pex --pythons "3.11"',
    ]


def test_make_builds_both_images_from_the_package() -> None:
    done = subprocess.run(
        ["make", "-n", "image", "wca_scheduler_docker_image", "DIST=out", "BASE=mine:1"],
        cwd=REQUIREMENTS.parent, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert re.findall(r"tools[./](?:package|image\.sh) (\S+.*)", done.stdout) == [
        "out/stowplan.pex ",
        f"out stowplan:{__version__} mine:1",
        "out wca-scheduler:latest mine:1",
    ]


def test_no_engine_is_one_line(tmp_path: Path) -> None:
    script = REQUIREMENTS.parent / "tools" / "image.sh"
    done = subprocess.run(
        ["/bin/sh", script, tmp_path, "stowplan:test"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: an image is built by docker")
    assert done.stderr.count("\n") == 1
