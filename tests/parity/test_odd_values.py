"""Configuration files with values that are empty or of the wrong shape.

Every field gets every odd value in turn, and kube-scheduler's reader and ours must both accept the
file or both refuse it. A smaller table goes to the real programs, which must also write the same
complete configuration where they accept a file.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stowplan.cli.main import main
from tests.controlplane_fixtures import require_binaries
from tests.parity.configuration_files import HEADER
from tests.parity.oracle import Oracle
from tests.parity.test_configurations import ours, theirs
from tests.parity.test_written_configuration import expected
from tests.parity.test_written_configuration import ours as our_tree
from tests.parity.test_written_configuration import theirs as their_tree

#: For any field.
VALUES: list[Any] = [
    None, "", "x", "*", 0, 3, -1, 1.5, True, {}, {"x": 1}, {"": 1},
    [], [None], [""], ["x"], [3], [[]], [{}],
]  # fmt: skip
#: For lists of plugins.
REFERENCES: list[Any] = [
    [{"name": ""}],
    [{"name": None}],
    [{"name": 3}],
    [{"name": "*"}],
    [{"name": " NodeName"}],
    [{"name": "nodename"}],
    [{"Name": "NodeName"}],
    [{"name": "NodeName"}, {"name": "NodeName"}],
    [{"name": "NodeName", "weight": None}],
    [{"weight": 3}],
    *([{"name": "ImageLocality", "weight": weight}] for weight in ("2", 1.5, 2**31, -1, 0)),
]
_POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "permit",
    "score",
    "bind",
    "multiPoint",
)
_LISTS = [
    f"profiles[].plugins.{point}.{name}" for point in _POINTS for name in ("enabled", "disabled")
]
FIELDS = [
    "parallelism", "leaderElection", "leaderElection.leaderElect", "leaderElection.resourceName",
    "leaderElection.leaseDuration", "leaderElection.resourceLock", "clientConnection",
    "clientConnection.qps", "clientConnection.burst", "clientConnection.kubeconfig",
    "enableProfiling", "enableContentionProfiling", "percentageOfNodesToScore",
    "podInitialBackoffSeconds", "podMaxBackoffSeconds", "delayCacheUntilActive",
    "profiles", "profiles[].schedulerName", "profiles[].percentageOfNodesToScore",
    "profiles[].plugins", *(f"profiles[].plugins.{point}" for point in _POINTS), *_LISTS,
    "profiles[].pluginConfig", "profiles[].pluginConfig[].name",
    "extenders", "extenders[].urlPrefix", "extenders[].filterVerb", "extenders[].prioritizeVerb",
    "extenders[].weight", "extenders[].bindVerb", "extenders[].enableHTTPS",
    "extenders[].httpTimeout", "extenders[].nodeCacheCapable", "extenders[].ignorable",
    "extenders[].tlsConfig", "extenders[].tlsConfig.insecure", "extenders[].tlsConfig.caData",
    "extenders[].managedResources", "extenders[].managedResources[].name",
    "extenders[].managedResources[].ignoredByScheduler",
]  # fmt: skip
ARGUMENTS = {
    "DefaultPreemption": ["minCandidateNodesPercentage"],
    "DynamicResources": ["filterTimeout"],
    "InterPodAffinity": ["hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"],
    "NodeAffinity": ["addedAffinity"],
    "NodeResourcesBalancedAllocation": ["resources"],
    "NodeResourcesFit": [
        "ignoredResources", "scoringStrategy", "scoringStrategy.type", "scoringStrategy.resources"
    ],
    "PodTopologySpread": ["defaultingType", "defaultConstraints"],
    "VolumeBinding": ["bindTimeoutSeconds", "shape"],
}  # fmt: skip
#: Judged otherwise on purpose; the code says why.
DIVERGES = {
    ("leaderElection.leaseDuration", "null"),
    ("leaderElection.resourceName", '"*"'),
    ("extenders[].httpTimeout", "null"),
    *(("extenders[].tlsConfig.caData", value) for value in ("[]", "[null]", "[3]")),
}
#: Part of a file -> whether kube-scheduler starts with it.
FILES: dict[str, bool] = {
    "profiles: {}": False,
    "profiles: ''": False,
    "profiles: 0": False,
    "profiles: null": True,
    "profiles: []": True,
    "profiles: [null]": True,
    "profiles: [null, {schedulerName: a}]": False,
    "profiles: [{name: null}]": False,
    "profiles: [{plugins: null, pluginConfig: null}]": True,
    "profiles: [{plugins: {filter: null, score: {}}}]": True,
    "profiles: [{plugins: {filter: {enabled: null, disabled: []}}}]": True,
    "profiles: [{plugins: {filter: {disabled: [{}]}}}]": True,
    "profiles: [{plugins: {filter: {disabled: [null]}}}]": True,
    "profiles: [{plugins: {multiPoint: {disabled: [{weight: 3}]}}}]": True,
    "profiles: [{plugins: {filter: {disabled: [NodeName]}}}]": False,
    "profiles: [{plugins: {filter: {disabled: NodeName}}}]": False,
    "profiles: [{plugins: {filter: {disabled: {name: NodeName}}}}]": False,
    "profiles: [{plugins: {filter: {disabled: [{name: NodeName}, {name: NodeName}]}}}]": True,
    "profiles: [{plugins: {filter: {enabled: [{}]}}}]": False,
    "profiles: [{plugins: {filter: {enabled: [null]}}}]": False,
    "profiles: [{plugins: {filter: {enabled: [{name: ''}]}}}]": False,
    "profiles: [{plugins: {filter: {enabled: [{name: '*'}]}}}]": False,
    "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: null}]}}}]": True,
    "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: '2'}]}}}]": False,
    "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: 2147483648}]}}}]": False,
    "profiles: [{pluginConfig: [{}]}]": True,
    "profiles: [{pluginConfig: [null]}]": True,
    "profiles: [{pluginConfig: [{}, {}]}]": False,
    "profiles: [{pluginConfig: {}}]": False,
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: null}}]}]": True,
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {strategy: null}}]}]": False,
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, "
    "args: {ignoredResources: [null]}}]}]": False,
    "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, "
    "args: {resources: [null]}}]}]": True,
    "leaderElection: []": False,
    "leaderElection: ''": False,
    "paralelism: null": False,
    "parallelism: ''": False,
}


def tree_of(path: str, value: Any) -> dict[str, Any]:
    """A file in which only the field at `path` is set."""
    head, _, rest = path.partition(".")
    inner = tree_of(rest, value) if rest else value
    name = head.removesuffix("[]")
    return {name: [inner] if name != head else inner}


def differing(oracle: Oracle, tree: dict[str, Any]) -> str:
    text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in tree.items())
    complaint, lines = theirs(oracle, text), ours(text)
    return "" if bool(complaint) == bool(lines) else f"{text}theirs: {complaint}\nours: {lines}"


@pytest.mark.parametrize("field", FIELDS)
def test_odd_values_of_a_field(oracle: Oracle, field: str) -> None:
    for value in VALUES + (REFERENCES if field in _LISTS else []):
        said = differing(oracle, tree_of(field, value))
        assert bool(said) == ((field, json.dumps(value)) in DIVERGES), (field, value, said)


@pytest.mark.parametrize("plugin", ARGUMENTS)
def test_odd_values_of_an_argument(oracle: Oracle, plugin: str) -> None:
    for field in ARGUMENTS[plugin]:
        for value in VALUES:
            entry = {"name": plugin, "args": tree_of(field, value)}
            assert not differing(oracle, {"profiles": [{"pluginConfig": [entry]}]})


@pytest.mark.parametrize(("text", "is_good"), FILES.items())
def test_the_real_programs(
    text: str, is_good: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary = require_binaries("kube-scheduler")["kube-scheduler"]
    file, out = tmp_path / "file.yaml", tmp_path / "ours.yaml"
    file.write_text(HEADER + text)
    if is_good:
        written = expected(their_tree(binary, file, tmp_path / "theirs.yaml"), text)
        assert our_tree(file, out) == written
        return
    with pytest.raises(subprocess.CalledProcessError):
        their_tree(binary, file, tmp_path / "theirs.yaml")
    with pytest.raises(SystemExit) as ended:
        main(["run", "--config", str(file), "--write-config-to", str(out)])
    assert ended.value.code == 2
    assert str(file) in capsys.readouterr().err
    assert not out.exists()
