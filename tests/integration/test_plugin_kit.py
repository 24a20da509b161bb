"""The testing kit as plugin authors meet it: pytest in a project of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*argv: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path) if path else ""}
    for name in ("PYTEST_ADDOPTS", "COV_CORE_SOURCE", "COV_CORE_CONFIG", "COV_CORE_DATAFILE"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-m", *argv],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
    )


def run_pytest(*argv: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run(
        "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", *argv, cwd=cwd, path=path
    )


def test_a_new_package_passes_its_tests_and_all_checks(tmp_path: Path) -> None:
    made = run("stowplan", "new", "plugin", "SsdOnly", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    package = tmp_path / "ssd-only"
    tested = run_pytest("-W", "error", "--stowplan-plugin", "ssd_only:SsdOnly", cwd=package)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "stowplan: ssd_only:SsdOnly: 8 checks passed, 6 do not apply" in tested.stdout
    assert "11 passed, 6 skipped" in tested.stdout
    played = run("stowplan", "simulate", "scenario.yaml", cwd=package, path=package / "src")
    assert played.returncode == 0, played.stdout + played.stderr
    again = run("stowplan", "new", "plugin", "SsdOnly", cwd=tmp_path)
    assert again.returncode == 2
    assert again.stderr == (
        "Error: ssd-only: already exists and is not overwritten; choose another name or --dir\n"
    )


def test_the_example_is_as_its_page_says(tmp_path: Path) -> None:
    example = ROOT / "examples" / "fullest_first"
    page = (ROOT / "docs" / "plugin-example.md").read_text()
    both = [f"{name}:FullestFirst" for name in ("fullest_first", "fullest_first_columns")]
    options = [f"--stowplan-plugin={spec}" for spec in both]
    tested = run_pytest("-c", os.devnull, f"--rootdir={example}", *options, ".", cwd=example)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    for line in tested.stdout.splitlines():
        assert not line.startswith("stowplan:") or line in page
    scenario = (example / "scenario.yaml").read_text().partition("\n")[2]
    assert scenario in page
    played = run("stowplan", "simulate", "scenario.yaml", "--timeline=none", cwd=example)
    assert played.returncode == 0, played.stdout + played.stderr
    drawn = run("picture", str(tmp_path / "picture.svg"), cwd=example)
    assert drawn.returncode == 0, drawn.stderr
    kept = ROOT / "docs" / "images" / "fullest-first.svg"
    assert (tmp_path / "picture.svg").read_text() == kept.read_text()


def test_mistakes_are_told_without_a_traceback(tmp_path: Path) -> None:
    """Two plugins at once, of which one reads the clock."""
    (tmp_path / "late.py").write_text(
        "import time\n"
        "import stowplan\n\n\n"
        "@stowplan.filter\n"
        "def late(pod, node):\n"
        "    return time.time() > 0\n\n\n"
        "@stowplan.score\n"
        "def even(pod, node):\n"
        "    return 50\n"
    )
    tested = run_pytest(
        "--stowplan-plugin=late:late", "--stowplan-plugin=late:even", cwd=tmp_path, path=tmp_path
    )
    assert tested.returncode == 1, tested.stdout + tested.stderr
    assert "late read the clock while it judged pod" in tested.stdout
    assert f"time.time ({tmp_path}/late.py:7)." in tested.stdout
    assert "Fix: use self.handle.clock" in tested.stdout
    assert "stowplan: late:late: 1 of 8 checks failed: no-effects, 6 do not apply" in tested.stdout
    assert "stowplan: late:even: 9 checks passed, 5 do not apply" in tested.stdout
    assert "Traceback" not in tested.stdout + tested.stderr


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["--stowplan-plugin", "nowhere:Plugin"], 2, "there is no module nowhere"),
        (["--stowplan-plugin", "nowhere"], 2, "write module:Class"),
        (["--stowplan-plugin-args", "x.yaml"], 4, "of no use without --stowplan-plugin"),
        (
            ["--stowplan-plugin", "a:B", "--stowplan-plugin-args", "x.yaml"],
            4,
            "x.yaml: cannot be read: No such file",
        ),
    ],
)
def test_wrong_options_are_told(tmp_path: Path, argv: list[str], code: int, words: str) -> None:
    tested = run_pytest(*argv, cwd=tmp_path)
    said = tested.stdout + tested.stderr
    assert tested.returncode == code, said
    assert words in said
    assert "Traceback" not in said


def test_arguments_come_from_a_scheduler_configuration(tmp_path: Path) -> None:
    (tmp_path / "labelled.py").write_text(
        "import msgspec\n"
        "import stowplan\n\n\n"
        "class Args(msgspec.Struct, frozen=True):\n"
        "    label: str\n\n\n"
        "class Labelled(stowplan.Plugin):\n"
        "    name = 'Labelled'\n"
        "    Args = Args\n\n"
        "    def filter(self, pod, node):\n"
        "        return self.args.label in node.labels or 'node(s) had no label'\n"
    )
    (tmp_path / "test_it.py").write_text(
        "def test_it(cluster, decide, virtual_clock, faults):\n"
        "    cluster.add_node('n1', labels={'fast': ''})\n"
        "    cluster.add_node('n2')\n"
        "    assert decide('web').feasible == ['n1']\n"
    )
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "- pluginConfig:\n"
        "  - name: Labelled\n"
        "    args: {label: fast}\n"
    )
    options = ["--stowplan-plugin", "labelled:Labelled"]
    checks = ["-k", "test_it or arguments or answers"]
    bare = run_pytest(*options, *checks, cwd=tmp_path, path=tmp_path)
    assert "cannot be made with no arguments" in bare.stdout
    full = run_pytest(
        *options, "--stowplan-plugin-args", str(config), *checks, cwd=tmp_path, path=tmp_path
    )
    assert full.returncode == 0, full.stdout + full.stderr


def test_whoever_only_has_it_installed_notices_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(
        "import sys\n"
        "import pytest\n\n\n"
        "@pytest.fixture\n"
        "def cluster():\n"
        "    return 'my own'\n\n\n"
        "def test_own(cluster):\n"
        "    assert cluster == 'my own'\n"
        "    loaded = sorted(name for name in sys.modules if name.startswith('stowplan'))\n"
        "    assert loaded == ['stowplan', 'stowplan.testing', 'stowplan.testing.pytest_plugin']\n"
        "    assert 'numpy' not in sys.modules and 'msgspec' not in sys.modules\n"
    )
    tested = run_pytest("-W", "error", "--strict-markers", cwd=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "stowplan:" not in tested.stdout
