"""What `stowplan config migrate` makes of a Policy is a file that the real kube-scheduler takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.config.migrate import FILTERS, SCORES, migrate_policy
from tests.controlplane_fixtures import require_binaries
from tests.parity.test_written_configuration import theirs

WCA = """{"AlwaysCheckAllPredicates":true,"ExtenderConfigs":[{
"URLPrefix":"https://wca-scheduler.wca-scheduler.svc.cluster.local:30180","FilterVerb":"filter",
"PrioritizeVerb":"prioritize","Weight":1,"EnableHTTPS":true,"Ignorable":true,
"NodeCacheCapable":true,"HTTPTimeout":30000000000}]}"""
EVERYTHING = f"""
kind: Policy
apiVersion: v1
hardPodAffinitySymmetricWeight: 7
alwaysCheckAllPredicates: true
predicates: [{", ".join(f"{{name: {name}}}" for name in FILTERS)},
  {{name: Racks, argument: {{labelsPresence: {{labels: [rack], presence: true}}}}}}]
priorities: [{", ".join(f"{{name: {name}, weight: 3}}" for name in SCORES)}]
extenders:
- urlPrefix: https://a.example
  filterVerb: f
  preemptVerb: x
  prioritizeVerb: p
  bindVerb: b
  weight: 5
  enableHttps: true
  tlsConfig: {{insecure: true}}
  httpTimeout: 1500000000
  nodeCacheCapable: true
  managedResources: [{{name: example.com/a, ignoredByScheduler: true}}]
  ignorable: true
- {{urlPrefix: 'http://b', filterVerb: filter}}
"""
FILES = {
    "the WCA scheduler's": WCA,
    "everything": EVERYTHING,
    "few": "predicates: [{name: PodFitsResources}]\npriorities: [{name: EqualPriority, weight: 1}]",
    "nothing at all": "predicates: []\npriorities: []",
    "a shape": "priorities: [{name: X, weight: 2, argument: {requestedToCapacityRatioArguments: "
    "{shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}]",
    "constraints only": "priorities: [{name: EvenPodsSpreadPriority, weight: 2}]",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_kube_scheduler_takes_it(text: str, tmp_path: Path) -> None:
    binary = require_binaries("kube-scheduler")["kube-scheduler"]
    migrated, _ = migrate_policy(text, where="policy")
    file = tmp_path / "migrated.yaml"
    file.write_text(yaml.safe_dump(migrated))
    written = theirs(binary, file, tmp_path / "written.yaml")
    given: list[dict[str, Any]] = migrated.get("extenders", [])
    taken: list[dict[str, Any]] = written.get("extenders") or []
    assert len(taken) == len(given)
    for ours, upstream in zip(given, taken, strict=True):
        # It spells out its defaults, too.
        assert {key: upstream[key] for key in ours} == ours
    (profile,) = written["profiles"]
    for point, plugins in migrated.get("profiles", [{}])[0].get("plugins", {}).items():
        there = profile["plugins"][point]
        switched_off = {ref["name"] for ref in plugins.get("disabled", ())}
        assert {ref["name"] for ref in there.get("disabled", ())} == switched_off
        if point == "multiPoint":
            # Here it writes the default plugins that are left.
            assert not {ref["name"] for ref in there["enabled"]} & switched_off
        else:
            assert there.get("enabled", []) == plugins.get("enabled", [])
