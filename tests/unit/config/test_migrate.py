"""Policy files of kube-scheduler up to 1.22, and what becomes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from stowplan.config.load import default_config, parse_object
from stowplan.config.merge import resolve_profiles
from stowplan.config.migrate import FILTERS, SCORES, migrate_policy
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.errors import ConfigError
from stowplan.plugins.registry import in_tree_registry

WCA = """{"AlwaysCheckAllPredicates":true,"ExtenderConfigs":[{
\t"URLPrefix":"http://100.64.176.36:30180/api/scheduler","FilterVerb":"filter",
\t"PrioritizeVerb":"prioritize","Weight":1,"EnableHTTPS":false,"Ignorable":true,
\t"NodeCacheCapable":true}]}"""
HEADER = "kind: Policy\napiVersion: v1\n"
#: Plugins with a score that no Policy could ask for.
UNASKED = {"DynamicResources", "VolumeBinding"}
NO_PRIORITIES = "priorities: not in the file"


def migrate(text: str) -> tuple[dict[str, Any], list[str]]:
    tree, notes = migrate_policy(text, where="policy")
    return tree, [str(note) for note in notes]


def points(text: str) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Who runs where with the migrated configuration, and the weights."""
    tree, _ = migrate(text)
    return resolved(parse_object(tree))


def resolved(config: KubeSchedulerConfiguration) -> tuple[dict[str, list[str]], dict[str, int]]:
    registry = in_tree_registry()
    (plugins,) = resolve_profiles(
        config.profiles, implements=registry.points, known=registry.names
    ).values()
    names = {point: [ref.name for ref in refs] for point, refs in plugins.items()}
    return names, {ref.name: ref.weight for ref in plugins["score"]}


def test_the_policy_of_the_wca_scheduler() -> None:
    tree, notes = migrate(WCA)
    assert tree == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [
            {
                "urlPrefix": "http://100.64.176.36:30180/api/scheduler",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "nodeCacheCapable": True,
                "ignorable": True,
            }
        ],
    }
    assert [note.partition(":")[0] for note in notes] == ["priorities", "alwaysCheckAllPredicates"]


def test_the_policy_in_a_config_map() -> None:
    document = {"kind": "ConfigMap", "apiVersion": "v1", "data": {"policy.cfg": WCA}}
    assert migrate(yaml.safe_dump(document)) == migrate(WCA)
    with pytest.raises(ConfigError, match=r"policy: the ConfigMap has no text under data\.policy"):
        migrate("kind: ConfigMap\ndata: {other: x}\n")


def test_every_field_of_an_extender() -> None:
    text = (
        HEADER
        + """
extenders:
- urlPrefix: https://extender.example:443
  filterVerb: f
  preemptVerb: x
  prioritizeVerb: p
  bindVerb: b
  weight: 5
  enableHttps: true
  tlsConfig: {insecure: false, serverName: s, certFile: c, keyFile: k, caFile: a, CAData: aGk=,
    certData: aGk=, keyData: aGk=}
  httpTimeout: 1500000000
  nodeCacheCapable: true
  managedResources: [{name: example.com/a, ignoredByScheduler: true}]
  ignorable: true
- {urlPrefix: 'http://b', httpTimeout: 2s}
- {urlPrefix: 'http://c', httpTimeout: 0}
"""
    )
    tree, notes = migrate(text)
    first, second, third = tree["extenders"]
    assert first == {
        "urlPrefix": "https://extender.example:443",
        "filterVerb": "f",
        "preemptVerb": "x",
        "prioritizeVerb": "p",
        "weight": 5,
        "bindVerb": "b",
        "enableHTTPS": True,
        "tlsConfig": {
            "serverName": "s",
            "certFile": "c",
            "keyFile": "k",
            "caFile": "a",
            "certData": "aGk=",
            "keyData": "aGk=",
            "caData": "aGk=",
        },
        "httpTimeout": "1.5s",
        "nodeCacheCapable": True,
        "managedResources": [{"name": "example.com/a", "ignoredByScheduler": True}],
        "ignorable": True,
    }
    assert second == {"urlPrefix": "http://b", "httpTimeout": "2s"}
    assert third == {"urlPrefix": "http://c", "httpTimeout": "0s"}, "which means 5 s, as it did"
    assert [note for note in notes if not note.startswith(NO_PRIORITIES)] == []


def test_predicates_filter_and_priorities_score() -> None:
    running, weights = points(
        HEADER
        + """
predicates: [{name: PodFitsHostPorts}, {name: PodFitsResources}, {name: NoDiskConflict},
  {name: MatchNodeSelector}, {name: HostName}]
priorities: [{name: LeastRequestedPriority, weight: 1}, {name: BalancedResourceAllocation,
  weight: 4}, {name: NodeAffinityPriority, weight: 7}]
"""
    )
    # Taints and cordons count whatever a Policy says; it knows nothing of devices and features.
    assert set(running["filter"]) == {
        "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
        "NodeResourcesFit", "VolumeRestrictions",
        *({"DynamicResources", "NodeDeclaredFeatures"} & set(running["filter"])),
    }  # fmt: skip
    assert set(running["score"]) - UNASKED == {
        "NodeResourcesFit", "NodeResourcesBalancedAllocation", "NodeAffinity"
    }  # fmt: skip
    assert weights["NodeResourcesFit"] == 1
    assert weights["NodeResourcesBalancedAllocation"] == 4
    assert weights["NodeAffinity"] == 7
    for gone in ("VolumeBinding", "VolumeZone", "InterPodAffinity", "PodTopologySpread"):
        assert not [point for point, names in running.items() if gone in names], gone


def test_without_predicates_and_priorities_the_defaults_run() -> None:
    tree, notes = migrate(HEADER)
    assert set(tree) == {"apiVersion", "kind"}
    assert len(notes) == 1
    assert notes[0].startswith(NO_PRIORITIES)
    assert points(HEADER + "extenders: []\n") == resolved(default_config())


def test_no_predicates_and_no_priorities_at_all() -> None:
    running, _ = points(HEADER + "predicates: []\npriorities: []\n")
    assert set(running["filter"]) - {"DynamicResources", "NodeDeclaredFeatures"} == {
        "NodeUnschedulable", "TaintToleration"
    }  # fmt: skip
    assert set(running["score"]) <= UNASKED
    assert "PrioritySort" in running["queueSort"]
    assert "DefaultBinder" in running["bind"]


@pytest.mark.parametrize("name", FILTERS)
def test_a_predicate_gives_plugins_that_filter(name: str) -> None:
    running, _ = points(HEADER + f"predicates: [{{name: {name}}}]\n")
    assert set(FILTERS[name]) <= set(running["filter"])


@pytest.mark.parametrize("name", SCORES)
def test_a_priority_gives_a_plugin_that_scores(name: str) -> None:
    running, weights = points(HEADER + f"priorities: [{{name: {name}, weight: 42}}]\n")
    assert set(running["score"]) - UNASKED == {SCORES[name]}
    assert weights[SCORES[name]] == 42


def arguments(tree: dict[str, Any]) -> dict[str, Any]:
    (profile,) = tree["profiles"]
    return {entry["name"]: entry["args"] for entry in profile["pluginConfig"]}


def test_ways_to_score_by_room() -> None:
    tree, _ = migrate(HEADER + "priorities: [{name: MostRequestedPriority, weight: 1}]")
    assert arguments(tree) == {"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}}
    text = """
priorities:
- name: MyOwn
  weight: 2
  argument:
    requestedToCapacityRatioArguments:
      shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]
      resources: [{name: cpu}, {name: memory, weight: 3}]
- {name: LeastRequestedPriority, weight: 1}
"""
    tree, notes = migrate(HEADER + text)
    assert arguments(tree)["NodeResourcesFit"]["scoringStrategy"] == {
        "type": "RequestedToCapacityRatio",
        "requestedToCapacityRatio": {
            "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
        },
        "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 3}],
    }
    assert notes == [
        'priorities[1]: "LeastRequestedPriority" left out: NodeResourcesFit has one '
        "scoringStrategy, which an earlier priority has chosen"
    ]


def test_spreading_by_constraints_only_and_for_all() -> None:
    own, everybody = "EvenPodsSpreadPriority", "SelectorSpreadPriority"
    tree, notes = migrate(HEADER + f"priorities: [{{name: {own}, weight: 2}}]")
    assert arguments(tree) == {"PodTopologySpread": {"defaultingType": "List"}}
    assert notes == []
    both = f"priorities: [{{name: {everybody}, weight: 1}}, {{name: {own}, weight: 2}}]"
    tree, notes = migrate(HEADER + both)
    assert "pluginConfig" not in tree["profiles"][0], "as by default: pods without any, too"
    assert points(HEADER + both)[1]["PodTopologySpread"] == 2
    assert notes == [
        "priorities[0].weight: 1 left out: PodTopologySpread has one weight, that of "
        "EvenPodsSpreadPriority"
    ]


def test_the_weight_of_required_affinity() -> None:
    tree, _ = migrate(HEADER + "hardPodAffinitySymmetricWeight: 10")
    assert arguments(tree) == {"InterPodAffinity": {"hardPodAffinityWeight": 10}}


def test_labels_that_nodes_must_have() -> None:
    text = """
predicates:
- {name: Racks, argument: {labelsPresence: {labels: [rack, zone], presence: true}}}
- {name: NoRetiring, argument: {labelsPresence: {labels: [retiring], presence: false}}}
priorities: []
"""
    tree, notes = migrate(HEADER + text)
    required = arguments(tree)["NodeAffinity"]["addedAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert required == {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [
                    {"key": "rack", "operator": "Exists"},
                    {"key": "zone", "operator": "Exists"},
                    {"key": "retiring", "operator": "DoesNotExist"},
                ]
            }
        ]
    }
    assert [note.partition(":")[0] for note in notes] == [
        "predicates[0].argument.labelsPresence",
        "predicates[1].argument.labelsPresence",
    ]
    assert "NodeAffinity" in points(HEADER + text)[0]["filter"]


def test_what_cannot_be_carried_over_is_told_by_field() -> None:
    text = """
predicates:
- {name: Together, argument: {serviceAffinity: {labels: [rack]}}}
- {name: PodFitsResource}
priorities:
- {name: Apart, weight: 1, argument: {serviceAntiAffinity: {label: zone}}}
- {name: Liked, weight: 1, argument: {labelPreference: {label: ssd, presence: true}}}
- {name: NodePreferAvoidPodsPriority, weight: 10000}
- {name: EqualPriority, weight: 1}
- {name: Mine, weight: 1}
zebra: 1
extenders: [{urlPrefix: 'http://x', colour: red}]
"""
    _, notes = migrate(HEADER + text)
    assert notes == [
        "zebra: is not a field of a Policy and was left out",
        "extenders[0].colour: is not a field of a Policy and was left out",
        "predicates[0].argument.serviceAffinity: no counterpart, left out; give such pods a "
        "podAffinity for rack",
        'predicates[1]: no plugin is known for the predicate "PodFitsResource", left out; '
        'did you mean "PodFitsResources"?',
        "priorities[0].argument.serviceAntiAffinity: no counterpart, left out; give pods a "
        "topologySpreadConstraint for zone",
        "priorities[1].argument.labelPreference: no counterpart, left out; give pods a preferred "
        "nodeAffinity for ssd",
        'priorities[2]: "NodePreferAvoidPodsPriority" was removed in 1.24 with its annotation; '
        "taint such nodes with effect PreferNoSchedule",
        'priorities[3]: "EqualPriority" gave every node the same, so nothing is lost without it',
        'priorities[4]: no plugin is known for the priority "Mine", left out',
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "expected a Policy, found no mapping"),
        ("kind: Pod\napiVersion: v1", "expected a Policy of v1, found v1 Pod"),
        ("kind: Policy\napiVersion: v2", "expected a Policy of v1, found v2 Policy"),
        ("{", "did not find expected node content"),
        ("extenders: 3", "extenders: expected a list, got a number"),
        ("extenders: [{httpTimeout: true}]", "extenders[0].httpTimeout: Invalid value: true"),
        ("extenders: [{httpTimeout: 5}, {weight: x}]", "extenders[1].weight: Invalid value"),
        ("extenders: [{prioritizeVerb: p}]", "extenders[0].weight: Invalid value: 0"),
        ("extenders: [{urlPrefix: a, URLPrefix: b}]", "extenders[0].urlPrefix: duplicate field"),
        ("priorities: [{name: EqualPriority}]", "priorities[0].weight: Invalid value: 0: must be"),
        ("hardPodAffinitySymmetricWeight: 101", "hardPodAffinityWeight: Invalid value: 101"),
        ("predicates: [{name: a}]\npredicates: []", "predicates: duplicate key"),
    ],
)
def test_a_policy_that_was_never_valid(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        migrate(text)
    assert str(raised.value).startswith("policy: ")
    assert told in str(raised.value)


def test_names_in_any_case() -> None:
    usual = HEADER + "priorities: [{name: ImageLocalityPriority, weight: 3}]\nextenders: [{}]"
    shouted = json.dumps(
        {"PRIORITIES": [{"NAME": "ImageLocalityPriority", "Weight": 3}], "ExtenderConfigs": [{}]}
    )
    assert migrate(shouted) == migrate(usual)
