"""How a package is put together, and what it says where it cannot run."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
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
SOURCE = tomllib.loads((REQUIREMENTS.parent / "pyproject.toml").read_text())["project"]["urls"][
    "Repository"
]
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
        ["make", "-n", "package", "wca_scheduler_package", "PYTHONS=3.11", "DIST=out",
         "PLUGINS=examples/extender", "MACHINE=arm64"],
        cwd=REQUIREMENTS.parent, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert re.findall(r"tools\.package (.*)", done.stdout) == [
        'out/stowplan.pex --pythons "3.11" --plugins "examples/extender" --machine "arm64"',
        'out/wca-scheduler.pex --pythons "3.11" --plugins "examples/extender" --machine "arm64"',
    ]


def test_make_looks_for_an_engine_and_builds_both_images_each_from_its_package() -> None:
    done = subprocess.run(
        ["make", "-n", "image", "wca_scheduler_docker_image", "DIST=out", "BASE=mine:1"],
        cwd=REQUIREMENTS.parent, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    steps = re.findall(r"tools[./](?:package|image\.sh) (\S+.*?) *$", done.stdout, re.MULTILINE)
    assert steps == [
        "check",
        "out/stowplan.pex",
        f"out/stowplan.pex stowplan:{__version__} mine:1",
        "out/wca-scheduler.pex",
        "out/wca-scheduler.pex wca-scheduler:latest mine:1",
    ]


class Make:
    """`make` with the checkout's Makefile and programs that only write down how they are called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        shutil.copy(REQUIREMENTS.parent / "Makefile", folder)
        shutil.copy(REQUIREMENTS.parent / "pyproject.toml", folder)
        for name in ("src", "requirements", "tools", "bin", ".venv/bin", "mine"):
            (folder / name).mkdir(parents=True)
        shutil.copy(REQUIREMENTS.parent / "tools" / "image.sh", folder / "tools")
        (folder / "requirements" / "dev.txt").touch()
        for name in ("tools/package.py", "tools/pex_preamble.py", "mine/algorithm.py"):
            (folder / name).touch()
        # Writes the package, which is the argument after `-m tools.package`.
        self.program(".venv/bin/python", 'shift 2; echo "pack $*" >> calls; touch "$1"')
        (folder / ".venv" / ".ready").touch()

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.folder / name).chmod(0o755)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # With as little in the path as make needs: no engine but what a test puts there.
        for tool in ("sh", "find", "sed", "mkdir", "cmp", "echo", "touch", "dirname", "basename",
                     "date"):  # fmt: skip
            link = self.folder / "bin" / tool
            if not link.is_symlink():
                link.symlink_to(shutil.which(tool) or "/bin/true")
        make = shutil.which("make")
        assert make is not None
        return subprocess.run(
            [make, f"SHELL={self.folder}/bin/sh", *arguments],
            cwd=self.folder, env={"PATH": f"{self.folder}/bin"}, capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip

    def told(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


def test_nothing_is_packed_where_no_image_can_be_built(tmp_path: Path) -> None:
    make = Make(tmp_path)
    for target in ("image", "wca_scheduler_docker_image"):
        done = make(target)
        assert done.returncode != 0
        assert "Error: an image is built by docker" in done.stderr
    assert make.told() == []


def test_a_package_is_packed_once(tmp_path: Path) -> None:
    make = Make(tmp_path)
    make.program("bin/buildah", 'echo "buildah $*" >> calls')
    for target in ("wca_scheduler_package", "wca_scheduler_docker_image", "wca_scheduler_package"):
        done = make(target)
        assert done.returncode == 0, done.stderr
    packed, built = make.told()
    assert packed == "pack dist/wca-scheduler.pex"
    assert built == (
        "buildah bud --timestamp 0 --file tools/../Containerfile --target stowplan "
        "--tag wca-scheduler:latest --build-arg PACKAGE=wca-scheduler.pex "
        f"--build-arg VERSION={__version__} --build-arg SOURCE={SOURCE} --build-arg REVISION= "
        "--build-arg CREATED=1970-01-01T00:00:00Z dist"
    )
    # What is packed has changed, or what was asked for: with an algorithm of one's own, a new one.
    make("wca_scheduler_package", "PLUGINS=mine")
    make("wca_scheduler_package", "PLUGINS=mine")
    assert make.told()[2:] == ["pack dist/wca-scheduler.pex --plugins mine"]
    later = time.time() + 10
    os.utime(tmp_path / "mine" / "algorithm.py", (later, later))
    make("wca_scheduler_package", "PLUGINS=mine")
    assert make.told()[3:] == ["pack dist/wca-scheduler.pex --plugins mine"]


def test_a_variant_is_a_stage_with_a_tag_of_its_own(tmp_path: Path) -> None:
    make = Make(tmp_path)
    make.program("bin/buildah", 'echo "buildah $*" >> calls')
    done = make("image", "VARIANT=static-pod", "MACHINE=arm64")
    assert done.returncode == 0, done.stderr
    packed, built = make.told()
    assert packed == "pack dist/stowplan.pex --machine arm64"
    assert f"--target static-pod --tag stowplan:{__version__}-static-pod " in built
    assert "--platform linux/arm64 dist" in built
    done = make("image", "VARIANT=nonsense")
    assert done.returncode != 0
    assert "Error: there is no variant 'nonsense' of the image. Fix: VARIANT=static-pod" in (
        done.stderr
    )
    assert len(make.told()) == 2, "nothing was packed"


def test_a_base_that_cannot_be_pulled_can_be_replaced(tmp_path: Path) -> None:
    make = Make(tmp_path)
    make.program("bin/buildah", "echo 'no such host' >&2; exit 125")
    done = make("image")
    assert done.returncode != 0
    assert "no such host\nError: no image was built." in done.stderr
    assert "make image BASE=IMAGE" in done.stderr


def test_no_engine_is_one_line(tmp_path: Path) -> None:
    script = REQUIREMENTS.parent / "tools" / "image.sh"
    done = subprocess.run(
        ["/bin/sh", script, tmp_path / "stowplan.pex", "stowplan:test"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: an image is built by docker")
    assert done.stderr.count("\n") == 1
