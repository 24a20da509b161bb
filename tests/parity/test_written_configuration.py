"""`--write-config-to`: the same tree as the real kube-scheduler writes for the same file."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from stowplan.cli.main import main
from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.config.load import load_config
from stowplan.plugins.registry import IN_TREE
from tests.controlplane_fixtures import require_binaries
from tests.parity.configuration_files import GOOD, HEADER

Json: TypeAlias = dict[str, Any]

#: Default plugins of kube-scheduler that we do not have: they are left out of what we write.
ABSENT = {ref.name for ref in DEFAULT_MULTI_POINT} - {plugin.name for plugin in IN_TREE}
#: Refused at our start, needs a file, or has a weight of 0, which only they write.
UNFIT = ("extender", "rate", "without weight")
FILES = {name: text for name, text in GOOD.items() if not any(unfit in name for unfit in UNFIT)} | {
    "a file with much in it": """
parallelism: 3
delayCacheUntilActive: true
enableProfiling: false
leaderElection: {leaderElect: false, leaseDuration: 1m30s}
profiles:
- schedulerName: default-scheduler
  percentageOfNodesToScore: 30
  plugins:
    score: {enabled: [{name: NodeAffinity, weight: 5}], disabled: [{name: ImageLocality}]}
    multiPoint: {disabled: [{name: NodePorts}]}
  pluginConfig:
  - {name: NodeName, args: {x: 1}}
  - {name: Foo, args: {x: 1}}
  - name: NodeResourcesFit
    args:
      ignoredResources: [a.b/c]
      ignoredResourceGroups: []
      scoringStrategy:
        type: RequestedToCapacityRatio
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 3}]}
        resources: [{name: cpu}]
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 3, preference: {matchExpressions: [{key: a, operator: In, values: [x]}]}}
- schedulerName: few
  plugins:
    multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}
"""
}


def theirs(binary: Path, file: Path, out: Path) -> Json:
    subprocess.run(
        # It needs an address for its client, and calls nobody before it has written.
        [binary, "--config", file, "--write-config-to", out, "--master=http://127.0.0.1:1",
         "--secure-port=0"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    tree: Json = yaml.safe_load(out.read_text())
    return tree


def ours(file: Path, out: Path) -> Json:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--config", str(file), "--write-config-to", str(out)])
    assert ended.value.code == 0
    tree: Json = yaml.safe_load(out.read_text())
    return tree


def expected(upstream: Json, text: str) -> Json:
    """Their tree with what differs on purpose."""
    if "percentageOfNodesToScore" not in (yaml.safe_load(HEADER + text) or {}):
        assert upstream["percentageOfNodesToScore"] == 0
        upstream["percentageOfNodesToScore"] = 100
    first = upstream["profiles"][0]["schedulerName"]
    if first != "default-scheduler":
        # A second scheduler does not ask for the lease of the first.
        upstream["leaderElection"]["resourceName"] = first
    for profile in upstream["profiles"]:
        points = profile["plugins"]
        points["multiPoint"]["enabled"] = [
            ref for ref in points["multiPoint"]["enabled"] if ref["name"] not in ABSENT
        ]
        if "pluginConfig" in profile:
            profile["pluginConfig"] = [
                entry for entry in profile["pluginConfig"] if entry["name"] not in ABSENT
            ]
    return upstream


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_the_same_tree(text: str, tmp_path: Path) -> None:
    binary = require_binaries("kube-scheduler")["kube-scheduler"]
    file = tmp_path / "file.yaml"
    file.write_text(HEADER + text)
    written = ours(file, tmp_path / "ours.yaml")
    assert written == expected(theirs(binary, file, tmp_path / "theirs.yaml"), text)


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    for name, text in FILES.items():
        file, out = tmp_path / "file.yaml", tmp_path / f"{name}.yaml"
        file.write_text(HEADER + text)
        first = ours(file, out)
        load_config(out)
        assert ours(out, tmp_path / "again.yaml") == first
