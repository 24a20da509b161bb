"""The package and the image that `make` builds: started, and used without the checkout.

Needs the package index, as setting up the checkout does, and for the image Debian's packages.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from stowplan import __version__
from tests.image_fixtures import PLUGINS, PYTHON, REPOSITORY, Images
from tests.integration.extender_kit import ExtenderProcess
from tests.waiting import wait_for
from tools import krew
from tools.pex_preamble import machine_words

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def package_environment(tmp_path: Path) -> dict[str, str]:
    """Nothing of this environment's Python packages; a cache of its own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return kept | {"PEX_ROOT": str(tmp_path / "pex-root"), "HOME": str(tmp_path)}


def run(
    package: Path, tmp_path: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, package, *arguments],
        cwd=tmp_path,
        env=package_environment(tmp_path) | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_one_file_that_runs_everything(package: Path, tmp_path: Path) -> None:
    version = run(package, tmp_path, "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith("stowplan, version ")
    where = "import stowplan; print(stowplan.__file__)"
    origin = run(package, tmp_path, "-c", where, PEX_INTERPRETER="1")
    assert Path(origin.stdout).is_relative_to(tmp_path), "not this checkout"
    # What a package of the other name starts with.
    help_text = run(package, tmp_path, "--help", PEX_MODULE="stowplan.cli.extender:main").stdout
    assert help_text.startswith("Usage: stowplan.pex [OPTIONS]")
    assert "--socket PATH" in help_text

    config = tmp_path / "config.yaml"
    config.write_text("algorithm: !NOPAlgorithm\n")
    command: list[str | Path] = [sys.executable, package, "extender", "--config", config]
    answers_and_ends(command, package_environment(tmp_path), tmp_path / "log")


def test_algorithms_of_your_own_in_the_package_and_beside_it(package: Path, tmp_path: Path) -> None:
    environment = package_environment(tmp_path)
    start: list[str | Path] = [sys.executable, package, "extender", "--config"]
    # Packed: `make package PLUGINS=examples/extender`.
    packed = [*start, PLUGINS / "config.yaml"]
    answers_and_ends(packed, environment, tmp_path / "packed.log", kept=["x"], rack="x")
    # Beside it, by the flag and, as the WCA scheduler's package, by its variable.
    config = write_mine(tmp_path / "beside")
    flag = [*start, config, "--plugins", config.parent]
    answers_and_ends(flag, environment, tmp_path / "flag.log", kept=["y"])
    environment |= {
        "STOWPLAN_PLUGINS": str(config.parent),
        "PEX_MODULE": "stowplan.cli.extender:main",
    }
    variable: list[str | Path] = [sys.executable, package, "--config", config]
    answers_and_ends(variable, environment, tmp_path / "variable.log", kept=["y"])


def test_the_package_as_a_plugin_of_kubectl(
    package: Path, tmp_path: Path, kubectl_binary: Path
) -> None:
    """As krew installs it: the archive is checked by the manifest's sum and unpacked."""
    machine = platform.machine()
    archive = krew.write_archive(
        tmp_path, package, version=__version__, machine=machine, epoch=1_700_000_000
    )
    text = krew.manifest({machine: archive}, version=__version__, repository="https://a.example/b")
    manifest = yaml.safe_load(text)
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert (manifest["kind"], manifest["metadata"]) == ("Plugin", {"name": "stowplan"})
    assert manifest["spec"]["version"] == f"v{__version__}"
    assert manifest["spec"]["homepage"] == "https://a.example/b"
    assert len(manifest["spec"]["shortDescription"]) <= 50
    (system,) = manifest["spec"]["platforms"]
    assert system["selector"]["matchLabels"] == {
        "os": "linux",
        "arch": krew.ARCHITECTURES[machine],
    }
    assert system["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert system["uri"] == f"https://a.example/b/releases/download/v{__version__}/{archive.name}"

    store = tmp_path / "store"
    with tarfile.open(archive) as members:
        members.extractall(store, filter="data")
    assert (store / "LICENSE").is_file()
    folder = tmp_path / "bin"  # krew links the program there; the user copies the other
    folder.mkdir()
    (folder / "kubectl-stowplan").symlink_to(store / system["bin"])
    shutil.copy(store / "kubectl_complete-stowplan", folder)
    path = f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin"

    def kubectl(*arguments: str) -> str:
        done = subprocess.run(
            [kubectl_binary, *arguments],
            env=package_environment(tmp_path) | {"PATH": path},
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert kubectl("stowplan", "--version") == f"stowplan, version {__version__}\n"
    assert kubectl("stowplan", "pin", "--help").startswith("Usage: kubectl stowplan pin ")
    assert "migrate\t" in kubectl("__complete", "stowplan", "config", "mi")


def test_a_package_for_another_machine(package: Path, tmp_path: Path) -> None:
    """`make package MACHINE=arm64`: the same distributions, all of them for that machine."""
    here = machine_words(os.uname().machine)
    other = "aarch64" if here == "x86_64" else "x86_64"
    built = tmp_path / "stowplan.pex"
    done = subprocess.run(
        [sys.executable, "-m", "tools.package", built, "--pythons", PYTHON, "--machine", other],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wheels, ours = packed_wheels(built), packed_wheels(package)
    assert {tuple(name.split("-")[:2]) for name in wheels} == {
        tuple(name.split("-")[:2]) for name in ours
    }
    for name in wheels:
        assert name.endswith((f"_{other}.whl", "-any.whl")), name
    for name in ("numpy", "msgspec", "uvloop", "aiohttp", "cryptography"):
        assert any(each.startswith(f"{name}-") and other in each for each in wheels), name
    bill = json.loads(next(tmp_path.glob("*.cdx.json")).read_text())
    assert {"name": "stowplan:machine", "value": other} in bill["metadata"]["properties"]
    refused = run(built, tmp_path, "--version")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert f"on Linux for {other} with glibc 2.28 or newer; this is " in refused.stderr


def packed_wheels(package: Path) -> set[str]:
    with zipfile.ZipFile(package) as archive:
        return set(json.loads(archive.read("PEX-INFO"))["distributions"])


def write_mine(folder: Path) -> Path:
    """An algorithm that keeps the last node, and its configuration, whose path is returned."""
    folder.mkdir()
    (folder / "mine.py").write_text(MINE)
    config = folder / "config.yaml"
    config.write_text("algorithms: [mine:Mine]\nalgorithm: !Mine\n")
    return config


MINE = """\
from stowplan.extender import Algorithm, ExtenderFilterResult


class Mine(Algorithm):
    def filter(self, extender_args):
        return ExtenderFilterResult(NodeNames=extender_args.NodeNames[-1:])

    def prioritize(self, extender_args):
        return []
"""


def answers_and_ends(
    command: Sequence[str | Path],
    environment: dict[str, str],
    log: Path,
    *,
    kept: Sequence[str] = ("x", "y"),
    rack: str = "",
) -> None:
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, "--port=0", "--bind-address=127.0.0.1"],
            cwd=log.parent,
            env=environment,
            stdout=stream,
            stderr=stream,
        )
    try:
        extender = ExtenderProcess(process, log)
        wait_for(
            "it to serve",
            lambda: '"Serving"' in extender.log or process.poll() is not None,
            timeout_s=60,
        )
        started = re.search(r"^[IW]\d{4} \S+ +(\d+) ", extender.log, re.MULTILINE)
        assert started is not None, extender.log
        pod = {"metadata": {"name": "a", "labels": {"rack": rack}}}
        answer = extender.ask("/filter", {"Pod": pod, "NodeNames": ["x", "y"]})
        assert answer["NodeNames"] == list(kept)
        # Not to buildah, which would kill what it runs.
        os.kill(int(started[1]), signal.SIGTERM)
        assert process.wait(timeout=30) == 0, extender.log
    finally:
        process.terminate()
        process.wait()


def test_an_image_for_any_user(images: Images, tmp_path: Path) -> None:
    do, environment = images.do, images.environment
    container = images.container("stowplan:test")
    inside: list[str | Path] = ["buildah", "run"]
    told = [images.configured(container, field) for field in ("User", "Entrypoint")]
    assert told == ["65532:0", "[stowplan]"]
    # As OpenShift would: a user that nobody knows.
    unknown = ["--user", "1000680000:0", container, "--"]
    assert do(*inside, *unknown, "stowplan", "--version").startswith("stowplan, version ")
    assert do(*inside, *unknown, "sh", "-c", "test -w /opt/stowplan/lib || echo kept") == "kept"

    config = tmp_path / "config.yaml"
    config.write_text("algorithm: !NOPAlgorithm\n")
    do("buildah", "copy", "--quiet", container, config, "/etc/wca-scheduler/config.yaml")
    command = [*inside, container, "--", "stowplan", "extender"]
    command.append("--config=/etc/wca-scheduler/config.yaml")
    answers_and_ends(command, environment, tmp_path / "log")

    # An algorithm of your own: beside the configuration, as deploy/extender mounts it...
    mine = write_mine(tmp_path / "mine")
    do("buildah", "copy", "--quiet", container, mine.parent, "/etc/wca-scheduler")
    command.append("--plugins=/etc/wca-scheduler")
    answers_and_ends(command, environment, tmp_path / "mine.log", kept=["y"])
    # ...packed, by make wca_scheduler_docker_image PLUGINS=DIR...
    do("buildah", "copy", "--quiet", container, PLUGINS / "config.yaml", "/etc/packed.yaml")
    packed = [*inside, container, "--", "stowplan", "extender", "--config=/etc/packed.yaml"]
    answers_and_ends(packed, environment, tmp_path / "packed.log", kept=["x"], rack="x")
    # ...and in an image on top of ours.
    (tmp_path / "context").mkdir()
    for name in ("Containerfile", "racks.py", "config.yaml"):
        text = (PLUGINS / name).read_text().replace("racks", "rows").replace("Racks", "Rows")
        (tmp_path / "context" / name.replace("racks", "rows")).write_text(text)
    do("buildah", "bud", "--quiet", "--build-arg=STOWPLAN=localhost/stowplan:test",
       "--tag=rows-scheduler:1", tmp_path / "context")  # fmt: skip
    on_top = images.container("rows-scheduler:1")
    cmd = images.configured(on_top, "Cmd")
    command = [*inside, on_top, "--", "stowplan", *cmd.strip("[]").split()]
    answers_and_ends(command, environment, tmp_path / "on-top.log", kept=["x"], rack="x")
