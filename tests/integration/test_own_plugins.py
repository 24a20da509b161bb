"""A user's own plugin in a file: `stowplan run --plugin`, and `stowplan.run` in a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.target import Target
from tests.integration.warm_python import WarmProcess

PLUGIN = """\
import stowplan

@stowplan.filter
def on_ssd(pod, node):
    return node.labels.get("disk") == "ssd" or "node(s) had no SSD"
"""
HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
CONFIG = """\
profiles:
- schedulerName: ssd-scheduler
  plugins: {multiPoint: {enabled: [{name: %s}]}}
"""


CONFIG_IN_SCENARIO = "profiles: [{schedulerName: default-scheduler}]"


@pytest.mark.parametrize("by_config", [False, True])
def test_a_plugin_of_a_file_takes_part(target: Target, tmp_path: Path, by_config: bool) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    target.create_nodes("plain", "fast")
    target.api.patch("/api/v1/nodes/fast", {"metadata": {"labels": {"disk": "ssd"}}})
    options = ["--plugin", f"{file}:on_ssd"]
    if by_config:
        options += ["--config", str(target.config_file(CONFIG % "on_ssd"))]
    else:
        options += ["--scheduler-name", "ssd-scheduler"]
    target.start(*options)
    target.create_pods("web", schedulerName="ssd-scheduler")
    assert target.wait_bound("web") == {"web": "fast"}


RAISING = """
def tell(about):
    raise ValueError("a mistake of mine")

stowplan.run(on_ssd, scheduler_name="mine", on_node=tell, on_failure=tell)
"""


def test_functions_that_raise_do_not_stop_the_scheduler(target: Target, tmp_path: Path) -> None:
    file, output = tmp_path / "mine.py", tmp_path / "output"
    file.write_text(PLUGIN + RAISING)
    target.create_nodes("fast")
    target.create_pods("web", schedulerName="mine")
    process = WarmProcess([file], output, {"KUBECONFIG": str(target.kubeconfig())})
    try:
        target.wait_condition("web", "False")
        target.api.patch("/api/v1/nodes/fast", {"metadata": {"labels": {"disk": "ssd"}}})
        assert target.wait_bound("web") == {"web": "fast"}
    finally:
        process.kill()
        process.wait()
    told = output.read_text()
    assert told.count("A function given to stowplan.run raised") >= 2
    assert "a mistake of mine" in told


def python(*argv: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of a user who has no cluster."""
    unset = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.run(
        [sys.executable, *argv],
        cwd=cwd,
        env={**inherited, "HOME": str(cwd), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("x = (\n", "mine.py:X", "mine.py:1: is not Python: '(' was never closed: `x = (`"),
        ("", "mine.py:X", "--plugin: there is no X in mine.py; it has no plugin class"),
        ("", "gone.py:X", "gone.py: there is no such file"),
        (
            "def near(pod, node): return True\n",
            "mine.py:near",
            "--plugin: mine.py:near: the function near is not a plugin class. Fix: decorate it with"
            " @stowplan.filter or @stowplan.score",
        ),
        (
            PLUGIN,
            "mine.py:on_ssd --config config.yaml",
            "config.yaml: no profile enables on_ssd. Fix: add it to"
            " profiles[0].plugins.multiPoint.enabled, or leave out the configuration",
        ),
        (
            PLUGIN,
            "mine.py:on_ssd --plugin theirs.py:on_ssd",
            "plugins: two plugins are called 'on_ssd': on_ssd in {cwd}/mine.py:3 and on_ssd in"
            " {cwd}/theirs.py:3. Fix: change the `name` of one of them",
        ),
    ],
)
def test_mistakes_with_plugins_end_in_one_line(
    tmp_path: Path, text: str, options: str, message: str
) -> None:
    for name in ("mine.py", "theirs.py"):
        (tmp_path / name).write_text(text)
    (tmp_path / "config.yaml").write_text(HEADER + CONFIG % "NodeName")
    ended = python("-m", "stowplan", "run", "--plugin", *options.split(), cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"Error: {message.format(cwd=tmp_path)}\n"


SCENARIO = """\
cluster: {nodes: [{name: slow}, {name: fast, labels: {disk: ssd}}]}
steps:
- create: {pods: [{name: web}]}
- expect: {pod: web, on: fast}
"""


def test_simulate_takes_the_same_option(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    folder = tmp_path / "scenarios"
    folder.mkdir()
    (folder / "one.yaml").write_text(SCENARIO)
    (folder / "other.yaml").write_text(f"config: {{{CONFIG_IN_SCENARIO}}}\n{SCENARIO}")
    asked = ["-m", "stowplan", "simulate", "--plugin", "mine.py:on_ssd"]
    played = python(*asked, "scenarios/one.yaml", cwd=tmp_path)
    assert played.returncode == 0, played.stdout + played.stderr
    refused = python(*asked, "scenarios/other.yaml", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("Error: scenarios/other.yaml: no profile enables on_ssd. Fix:")


NO_CLUSTER = (
    "Error: no cluster to talk to: no --kubeconfig, KUBECONFIG is not set, not running in a pod,"
    " and {cwd}/.kube/config does not exist"
)
RUN = "\nstowplan.run({plugin}, scheduler_name='mine', verbosity=0)\n"


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ("on_ssd", NO_CLUSTER),
        (
            "lambda pod, node: 1",
            "Error: plugins: the function <lambda> is not a plugin class. Fix: decorate it with"
            " @stowplan.filter or @stowplan.score",
        ),
    ],
)
def test_a_program_without_a_cluster_ends_in_one_line(
    tmp_path: Path, plugin: str, message: str
) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN + RUN.format(plugin=plugin))
    ended = python("mine.py", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == message.format(cwd=tmp_path) + "\n"


def test_a_name_that_no_lease_can_have_ends_in_one_line(tmp_path: Path) -> None:
    call = "stowplan.run(on_ssd, scheduler_name='Bad_Name!', leader_elect=True, verbosity=0)\n"
    (tmp_path / "mine.py").write_text(PLUGIN + call)
    ended = python("mine.py", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith('Error: scheduler_name: "Bad_Name!" also names the Lease')
    assert line.endswith("Fix: another scheduler_name, or leader_elect=False")


def test_a_kubeconfig_that_is_not_there_ends_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN + RUN.format(plugin="on_ssd"))
    ended = python("mine.py", cwd=tmp_path, KUBECONFIG=str(tmp_path / "none"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"Error: KUBECONFIG: no such file: {tmp_path}/none\n"
