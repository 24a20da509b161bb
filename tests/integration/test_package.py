"""The package of `make package`: built for this Python, started and used, without the checkout.

Needs the package index, as setting up the checkout does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.extender_kit import ExtenderProcess
from tests.integration.target import wait_for

REPOSITORY = Path(__file__).parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def package_environment(tmp_path: Path) -> dict[str, str]:
    """Nothing of this environment's Python packages; a cache of its own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return kept | {"PEX_ROOT": str(tmp_path / "pex-root"), "HOME": str(tmp_path)}


def run(package: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, package, *arguments],
        cwd=package.parent,
        env=package_environment(package.parent) | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_one_file_that_runs_everything(tmp_path: Path) -> None:
    package = tmp_path / "stowplan.pex"
    built = subprocess.run(
        [sys.executable, "-m", "tools.package", package, "--pythons", PYTHON],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert f"serves CPython {PYTHON} on Linux for " in built.stdout

    version = run(package, "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith("stowplan, version ")
    origin = run(package, "-c", "import stowplan; print(stowplan.__file__)", PEX_INTERPRETER="1")
    assert Path(origin.stdout).is_relative_to(tmp_path), "not this checkout"
    # What a package of the other name starts with.
    help_text = run(package, "--help", PEX_MODULE="stowplan.cli.extender:main").stdout
    assert help_text.startswith("Usage: stowplan.pex [OPTIONS]")
    assert "--socket PATH" in help_text

    config, log = tmp_path / "config.yaml", tmp_path / "log"
    config.write_text("algorithm: !NOPAlgorithm\n")
    flags = ["--config", str(config), "--port", "0", "--bind-address", "127.0.0.1"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, package, "extender", *flags],
            cwd=tmp_path,
            env=package_environment(tmp_path),
            stdout=stream,
            stderr=stream,
        )
    try:
        extender = ExtenderProcess(process, log)
        wait_for("it to serve", lambda: '"Serving"' in extender.log, timeout_s=60)
        question = {"Pod": {"metadata": {"name": "a"}}, "NodeNames": ["x", "y"]}
        assert extender.ask("/filter", question)["NodeNames"] == ["x", "y"]
        process.terminate()
        assert process.wait(timeout=30) == 0, extender.log
    finally:
        process.kill()
        process.wait()
