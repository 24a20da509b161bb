"""A package of `stowplan new` in a fresh virtualenv, by exactly the commands that are printed.

Nothing is downloaded: the package index is off, and what Stowplan depends on is linked from the
environment of these tests. Stowplan itself is not: pip installs it from the checkout or from a
wheel, whichever the running `stowplan` came from.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = shlex.quote(sys.executable)
SITE = Path(sysconfig.get_path("purelib"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run(command: str, cwd: Path, packages: Path) -> str:
    """A line of a user's shell, with the packages that a package index would give."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        ["sh", "-ec", command],
        cwd=cwd,
        env=kept
        | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(packages),
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "false",  # pip's way to say: no isolation
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTEST_ADDOPTS": "-p no:cacheprovider -p no:asyncio",
        },
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Stowplan and its users depend on, and nothing of Stowplan or pip."""
    folder = tmp_path_factory.mktemp("packages")
    for each in SITE.iterdir():
        name = each.name.lower()
        if not name.startswith(("stowplan", "pip", "_", "pytest_cov")) and each.suffix != ".pth":
            (folder / each.name).symlink_to(each)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = f"from flit_core.buildapi import build_wheel; print(build_wheel({str(folder)!r}))"
    return folder / run(f"{PYTHON} -c {shlex.quote(build)}", ROOT, packages).strip()


@pytest.mark.parametrize("source", ["checkout", "wheel"])
def test_a_new_package_installs_by_the_commands_that_are_printed(
    tmp_path: Path, packages: Path, wheel: Path, source: str
) -> None:
    running = packages  # the tests' own environment has Stowplan from the checkout
    if source == "wheel":
        running = tmp_path / "running"
        run(f"{PYTHON} -m pip install -q --no-deps --target {running} {wheel}", tmp_path, packages)
    told = run(f"{PYTHON} -m stowplan new plugin SsdOnly", tmp_path, running)
    steps = [line.strip() for line in told.partition("\nNext:\n")[2].splitlines()]
    assert len(steps) == 5
    script = "\n".join([*steps, "stowplan run --config config.yaml --write-config-to all.yaml"])
    shown = run(script, tmp_path, packages)
    assert "stowplan: ssd_only:SsdOnly: 8 checks passed" in shown
    project = tmp_path / "ssd-only"
    assert "name: SsdOnly" in (project / "all.yaml").read_text(), "known by its entry point"
    where = "import ssd_only, stowplan; print(ssd_only.__file__, stowplan.__file__)"
    plugin, ours = run(f".venv/bin/python -c '{where}'", project, packages).split()
    assert Path(plugin).is_relative_to(project / "src")
    assert Path(ours).is_relative_to(ROOT if source == "checkout" else project / ".venv")
