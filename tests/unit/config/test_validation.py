"""Validation in kube-scheduler's words; the long case is its own answer to the same file."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stowplan.config.durations import Duration
from stowplan.config.load import default_config, parse_config
from stowplan.config.types import LeaderElection
from stowplan.config.validation import validate
from stowplan.errors import ConfigError

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def errors_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(HEADER + text)
    return str(caught.value).split("\n")


def test_many_mistakes_in_upstreams_order() -> None:
    # The texts are kube-scheduler 1.36.3's for this file, except where a comment says so.
    assert errors_of(
        """
parallelism: -1
percentageOfNodesToScore: 101
leaderElection: {leaseDuration: -1s, renewDeadline: 5s, resourceLock: x}
clientConnection: {burst: -1}
podInitialBackoffSeconds: 0
podMaxBackoffSeconds: -1
profiles:
- plugins:
    filter: {enabled: [{name: EBSLimits}]}
    queueSort: {enabled: [{name: PrioritySort}]}
  pluginConfig: [{name: Foo}, {name: Foo}]
- schedulerName: a
- schedulerName: a
  percentageOfNodesToScore: -3
extenders:
- urlPrefix: x
  prioritizeVerb: p
  bindVerb: b
  managedResources: [{name: foo}, {name: x.y/z}, {name: x.y/z}]
- {urlPrefix: x, bindVerb: b}
"""
    ) == [
        "clientConnection.burst: Invalid value: -1: must be non-negative",
        'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
        'leaderElection.leaseDuration: Invalid value: "5s": must be greater than `RenewDeadline`',
        'leaderElection.resourceLock: Invalid value: "x": resourceLock value must be "leases"',
        "parallelism: Invalid value: -1: should be an integer value greater than zero",
        "profiles[0].schedulerName: Required value",
        'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version '
        '"v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")',
        'profiles[0].pluginConfig[1]: Duplicate value: "Foo"',
        "profiles[2].percentageOfNodesToScore: Invalid value: -3: not in valid range [0-100]",
        # Upstream shows {} for the other path.
        'profiles[2].schedulerName: Duplicate value: "profiles[1].schedulerName"',
        # Upstream shows Go's field names.
        "profiles[1].plugins.queueSort: Invalid value: {}: must be the same for all profiles",
        "profiles[2].plugins.queueSort: Invalid value: {}: must be the same for all profiles",
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        "podMaxBackoffSeconds: Invalid value: -1: "
        "must be greater than or equal to PodInitialBackoffSeconds",
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        'extenders[0].managedResources[0].name: Invalid value: "foo": '
        "is an invalid extended resource name",
        'extenders[0].managedResources[2].name: Invalid value: "x.y/z": '
        "duplicate extender managed resource name",
        'extenders: Invalid value: "found 2 extenders implementing bind": '
        "only one extender can implement bind",
    ]


def test_leader_election_is_not_checked_when_it_is_off() -> None:
    parse_config(HEADER + "leaderElection: {leaderElect: false, leaseDuration: -1s}\n")


def test_the_renew_deadline_must_leave_room_for_a_jittered_retry() -> None:
    assert errors_of("leaderElection: {renewDeadline: 3s, retryPeriod: 2500ms}\n") == [
        'leaderElection.renewDeadline: Invalid value: "3s": '
        "must be greater than 1.2 times `RetryPeriod`"
    ]
    parse_config(HEADER + "leaderElection: {renewDeadline: 3001ms, retryPeriod: 2500ms}\n")


def test_good_extenders_are_read() -> None:
    text = "extenders: [{urlPrefix: 'http://x', enableHTTPS: false, filterVerb: f}]\n"
    (extender,) = parse_config(HEADER + text).extenders
    assert (extender.url_prefix, extender.filter_verb) == ("http://x", "f")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("example.com/gpu", ""),
        ("gpu", "is an invalid extended resource name"),
        ("kubernetes.io/gpu", "is an invalid extended resource name"),
        ("sub.kubernetes.io/gpu", "is an invalid extended resource name"),
        ("requests.example.com/gpu", "is an invalid extended resource name"),
        ("a/b/c", "a valid label key must consist of"),
        ("/gpu", "prefix part must be non-empty"),
        ("example.com/", "name part must be non-empty"),
        ("Example.com/gpu", "prefix part a lowercase RFC 1123 subdomain"),
        ("example.com/" + "a" * 63, ""),
        ("example.com/" + "a" * 64, "name part must be no more than 63 bytes"),
        ("example.com/-a", "name part must consist of"),
    ],
)
def test_managed_resource_names(name: str, reason: str) -> None:
    text = f"extenders: [{{urlPrefix: x, managedResources: [{{name: '{name}'}}]}}]\n"
    if not reason:
        assert parse_config(HEADER + text).extenders[0].managed_resources[0].name == name
    else:
        path = "extenders[0].managedResources[0].name"
        assert errors_of(text)[0].startswith(f'{path}: Invalid value: "{name}": {reason}')


def test_several_profiles_each_need_a_name() -> None:
    assert errors_of("profiles: [{schedulerName: a}, {}]\n") == [
        "profiles[1].schedulerName: Required value"
    ]
    assert errors_of("profiles: [{schedulerName: ''}]\n") == [
        "profiles[0].schedulerName: Required value"
    ]


def test_one_queue_sort_for_all() -> None:
    assert errors_of(
        "profiles:\n"
        "- {schedulerName: a, plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}}\n"
        "- {schedulerName: b, plugins: {queueSort: {enabled: [{name: B}]}}}\n"
    ) == [
        "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: "
        "only one queue sort plugin can be enabled",
        'profiles[1].plugins.queueSort: Invalid value: {"enabled":[{"name":"B"}]}: '
        "must be the same for all profiles",
    ]
    assert errors_of(
        "profiles:\n"
        "- schedulerName: a\n"
        "  plugins: &same {queueSort: {enabled: [{name: A}], disabled: [{name: '*'}]}}\n"
        "- {schedulerName: b, plugins: *same, pluginConfig: [{name: A, args: {x: 1}}]}\n"
    ) == [
        'profiles[1].pluginConfig.args: Invalid value: {"x":1}: '
        "queueSort must be the same for all profiles"
    ]


def test_args_of_another_plugin_are_refused() -> None:
    assert errors_of(
        "profiles:\n- pluginConfig:\n"
        "  - {name: NodeAffinity, args: {kind: NodeResourcesFitArgs, apiVersion: v1}}\n"
        "  - {name: Mine, args: {kind: Whatever}}\n"
    ) == [
        'profiles[0].pluginConfig[0].args.apiVersion: Invalid value: "v1": '
        'expected "kubescheduler.config.k8s.io/v1"',
        'profiles[0].pluginConfig[0].args.kind: Invalid value: "NodeResourcesFitArgs": '
        'expected "NodeAffinityArgs"',
    ]


def test_placement_plugins_are_refused() -> None:
    assert errors_of(
        "profiles:\n- plugins: {placementScore: {enabled: [{name: A}]}, placementGenerate: {}}\n"
    ) == [
        "profiles[0].plugins.placementScore: Forbidden: "
        "scheduling of pod groups by placement is not supported"
    ]


def test_structs_that_flags_have_changed_are_checked_alike() -> None:
    election = LeaderElection(
        lease_duration=Duration(0), resource_name="", resource_namespace="", resource_lock="leases"
    )
    errors = validate(replace(default_config(), leader_election=election, profiles=()))
    assert [str(error) for error in errors] == [
        'leaderElection.leaseDuration: Invalid value: "0s": must be greater than zero',
        'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
        "leaderElection.resourceNamespace: Required value",
        "leaderElection.resourceName: Required value",
        "profiles: Required value",
    ]
