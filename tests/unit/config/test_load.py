"""Reading files: defaults, strictness, and errors that name file and field, all at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from stowplan.config.durations import Duration
from stowplan.config.load import default_config, load_config, parse_config, to_object
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.errors import ConfigError

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
DATA = Path(__file__).parents[2] / "data"


def errors_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, where="f.yaml")
    assert caught.value.exit_code == 2
    lines = str(caught.value).split("\n")
    assert all(line.startswith("f.yaml: ") for line in lines)
    return [line.removeprefix("f.yaml: ") for line in lines]


def test_an_empty_configuration_is_the_default_one() -> None:
    assert parse_config(HEADER) == default_config()
    assert parse_config(HEADER + "profiles: []\nleaderElection: {}\n") == default_config()


def test_defaults() -> None:
    config = default_config()
    assert config.parallelism == 16
    assert config.percentage_of_nodes_to_score == 100
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert config.leader_election.leader_elect
    assert config.leader_election.lease_duration == 15.0
    assert config.leader_election.renew_deadline == 10.0
    assert config.leader_election.retry_period == 2.0
    assert config.leader_election.resource_lock == "leases"
    assert config.leader_election.resource_name == "kube-scheduler"
    assert config.leader_election.resource_namespace == "kube-system"
    assert (config.client_connection.qps, config.client_connection.burst) == (50, 100)
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]


def test_null_means_not_set_at_every_depth() -> None:
    text = (
        HEADER + "parallelism: null\nextenders:\nleaderElection: {leaseDuration: null}\n"
        "profiles:\n- schedulerName:\n  plugins:\n    filter: {enabled: null, disabled: }\n"
    )
    assert parse_config(text) == default_config()


def test_zero_means_not_set_where_go_cannot_tell() -> None:
    text = (
        HEADER + "leaderElection: {leaseDuration: 0s, resourceName: ''}\n"
        "clientConnection: {qps: 0, burst: 0, contentType: ''}\n"
    )
    assert parse_config(text) == default_config()


def test_an_explicit_zero_percentage_stays_adaptive() -> None:
    assert parse_config(HEADER + "percentageOfNodesToScore: 0\n").percentage_of_nodes_to_score == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", True), ("enableProfiling: false\n", False), ("enableProfiling: true\n", True)],
)
def test_contention_profiling_follows_profiling(text: str, expected: bool) -> None:
    assert parse_config(HEADER + text).enable_contention_profiling is expected


def test_what_is_written_is_read() -> None:
    config = parse_config(
        HEADER
        + """
leaderElection: {leaderElect: false, leaseDuration: 1m30s}
profiles:
- schedulerName: one
  percentageOfNodesToScore: 30
  plugins:
    score: {enabled: [{name: NodeAffinity, weight: 5}], disabled: [{name: "*"}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      ignoredResources: [example.com/a]
- schedulerName: two
"""
    )
    assert not config.leader_election.leader_elect
    assert config.leader_election.lease_duration == Duration(90)
    one, two = config.profiles
    assert (one.scheduler_name, one.percentage_of_nodes_to_score) == ("one", 30)
    assert one.plugins.at("score").enabled[0].name == "NodeAffinity"
    assert one.plugins.score.enabled[0].weight == 5
    assert one.plugins.score.disabled[0].name == "*"
    assert one.plugin_args("NodeResourcesFit") == {"ignoredResources": ["example.com/a"]}
    assert one.plugin_args("NodeAffinity") == {}
    assert (two.scheduler_name, two.percentage_of_nodes_to_score) == ("two", None)


def test_json_with_tabs_is_read() -> None:
    text = json.dumps(to_object(default_config()), indent="\t")
    assert "\t" in text
    assert parse_config(text) == default_config()


def test_flow_style_yaml_is_read() -> None:
    text = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}"
    assert parse_config(text) == default_config()


def test_what_kube_scheduler_writes_is_read() -> None:
    config = load_config(DATA / "kube_scheduler_written.yaml")
    assert config.percentage_of_nodes_to_score == 0
    assert config.client_connection == default_config().client_connection
    assert config.leader_election == default_config().leader_election
    (profile,) = config.profiles
    assert profile.plugin_args("VolumeBinding") == {"bindTimeoutSeconds": 600}
    assert profile.plugins.score.enabled[1].weight == 7


def test_print_and_read_again() -> None:
    config = parse_config(
        HEADER + "profiles:\n- plugins: {score: {enabled: [{name: A, weight: 2}]}}\n"
        "  pluginConfig: [{name: A, args: {list: [], nested: {}}}]\n"
    )
    text = yaml.safe_dump(to_object(config))
    assert parse_config(text) == config
    assert "plugins" not in to_object(default_config())["profiles"][0]


def test_every_unknown_field_and_wrong_type_is_told() -> None:
    assert errors_of(
        HEADER
        + """
paralelism: 3
parallelism: many
leaderElection: {leaseDuration: 15, retryPeriod: 3x, leaderElect: "yes"}
profiles:
- plugins: {filter: {enabled: [{nam: x}]}, score: []}
  zebra: 1
- 3
extenders: {}
"""
    ) == [
        'paralelism: unknown field; did you mean "parallelism"?',
        'parallelism: Invalid value: "many": Expected `int`, got `str`',
        'leaderElection.leaseDuration: Invalid value: 15: expected a duration such as "15s"',
        "leaderElection.retryPeriod: Invalid value: \"3x\": '3x' is not a duration; "
        'write it like "15s", "1m30s" or "100ms"',
        'leaderElection.leaderElect: Invalid value: "yes": Expected `bool`, got `str`',
        'profiles[0].plugins.filter.enabled[0].nam: unknown field; did you mean "name"?',
        "profiles[0].plugins.score: expected a mapping, got a list",
        "profiles[0].zebra: unknown field "
        "(known here: schedulerName, percentageOfNodesToScore, plugins, pluginConfig, "
        "tieBreak, tieBreakSeed)",
        "profiles[1]: expected a mapping, got a number",
        "extenders: expected a list, got a mapping",
    ]


def test_integers_are_bounded_as_in_go() -> None:
    (error,) = errors_of(HEADER + "parallelism: 4294967296\n")
    assert error.startswith("parallelism: Invalid value: 4294967296: ")


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (
            "apiVersion: v1\nkind: Pod\nspec: {}\n",
            [
                'apiVersion: Invalid value: "v1": expected "kubescheduler.config.k8s.io/v1"',
                'kind: Invalid value: "Pod": expected "KubeSchedulerConfiguration"',
            ],
        ),
        (
            "profiles: []\n",
            [
                'apiVersion: Required value: expected "kubescheduler.config.k8s.io/v1"',
                'kind: Required value: expected "KubeSchedulerConfiguration"',
            ],
        ),
        (
            HEADER.replace("/v1", "/v1beta3"),
            [
                'apiVersion: Invalid value: "kubescheduler.config.k8s.io/v1beta3": '
                'expected "kubescheduler.config.k8s.io/v1"'
            ],
        ),
        ("", ["expected a KubeSchedulerConfiguration, found no mapping"]),
        ("- a\n", ["expected a KubeSchedulerConfiguration, found no mapping"]),
        ("a: [\n", ["line 2, column 1: did not find expected node content"]),
        ("a: &x [*x]\n", ["line 1, column 8: an alias contains itself: anchor 'x'"]),
    ],
)
def test_files_that_are_something_else(text: str, errors: list[str]) -> None:
    assert errors_of(text) == errors


def test_two_documents_are_refused() -> None:
    (error,) = errors_of(HEADER + "---\n" + HEADER)
    assert "line 3" in error
    assert "document" in error


def test_repeated_keys_are_refused_with_their_lines() -> None:
    text = HEADER + "profiles:\n- schedulerName: a\n  schedulerName: b\nparallelism: 1\nkind: X\n"
    assert errors_of(text)[:2] == [
        "profiles[0].schedulerName: duplicate key, in lines 4 and 5",
        "kind: duplicate key, in lines 2 and 7",
    ]


def test_repeated_keys_in_json_are_refused() -> None:
    text = json.dumps(to_object(default_config()))[:-1] + ', "parallelism": 3}'
    assert errors_of(text) == ["parallelism: duplicate key"]
    name = '"schedulerName": "default-scheduler"'
    assert errors_of(text.replace(name, f"{name}, {name}")) == [
        "parallelism: duplicate key",
        "profiles[0].schedulerName: duplicate key",
    ]


def test_repeated_keys_do_not_hide_other_mistakes() -> None:
    assert errors_of(HEADER + "parallelism: 1\nparallelism: 2\nzebra: 1\n")[0] == (
        "parallelism: duplicate key, in lines 3 and 4"
    )
    assert len(errors_of(HEADER + "parallelism: 1\nparallelism: 2\nzebra: 1\n")) == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        load_config(missing)
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary\.yaml: is not UTF-8 text"):
        load_config(binary)
    control = tmp_path / "control.yaml"
    control.write_bytes(b"a: \x00\n")
    with pytest.raises(ConfigError, match=r"control\.yaml: .*control characters are not allowed"):
        load_config(control)


def test_the_structs_are_frozen() -> None:
    config: KubeSchedulerConfiguration = default_config()
    with pytest.raises(AttributeError):
        config.parallelism = 3  # type: ignore[misc]  # frozen, as the test shows
