"""`stowplan config` through the console entry point, in this process."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml

from stowplan.cli.main import main
from stowplan.config.load import default_config, parse_config
from stowplan.config.merge import resolve_profiles
from stowplan.config.plugin_args import PLUGIN_ARGS
from stowplan.config.scheduler_plugins import SCHEDULER_PLUGINS
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.plugins.registry import in_tree_registry

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def test_a_good_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(HEADER + "profiles: [{schedulerName: a}, {schedulerName: b}]\n")
    code, out, err = run(capsys, "config", "check", str(file))
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{file}: ok, serves a, b"


def test_a_bad_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(HEADER + "parallelism: 0\npodInitialBackoffSeconds: 0\n")
    code, out, err = run(capsys, "config", "check", str(file))
    assert (code, out) == (2, "")
    assert err == (
        f"Error: {file}: parallelism: Invalid value: 0: "
        "should be an integer value greater than zero\n"
        f"Error: {file}: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0\n"
    )


def test_plugins_and_their_arguments_are_checked_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(HEADER + "profiles:\n- plugins: {score: {enabled: [{name: NodeNumbr}]}}\n")
    assert run(capsys, "config", "check", str(file)) == (
        2,
        "",
        f"Error: {file}: profiles[0].plugins.score.enabled[0].name: "
        'Invalid value: "NodeNumbr": no such plugin; did you mean "NodeNumber"?\n',
    )
    file.write_text(
        HEADER + "profiles:\n- pluginConfig: [{name: NodeResourcesFit, args: {zebra: 1}}]\n"
    )
    code, _, err = run(capsys, "config", "check", str(file))
    assert code == 2
    assert "profiles[0].pluginConfig[0].args.zebra: unknown field" in err
    assert "zebra" in err


def test_mistakes_of_every_sort_are_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        HEADER
        + """
parallelism: 0
extenders: [{urlPrefix: x, prioritizeVerb: p}]
profiles:
- plugins: {filter: {enabled: [{name: NodeNam}]}}
  tieBreak: randm
  pluginConfig:
  - {name: NodeAffinity, args: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution:
      [{weight: 1, preference: {matchExpressions: [{key: a, operator: X}]}}]}}}
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAlocated}}}
  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 101}}
"""
    )
    code, out, err = run(capsys, "config", "check", str(file))
    assert (code, out) == (2, "")
    args = "profiles[0].pluginConfig"
    assert [line.removeprefix(f"Error: {file}: ") for line in err.splitlines()] == [
        "parallelism: Invalid value: 0: should be an integer value greater than zero",
        f"{args}[0].args.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
        '.matchExpressions[0].operator: Unsupported value: "X": supported values: '
        '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
        f'{args}[1].args.scoringStrategy.type: Unsupported value: "MostAlocated": supported '
        'values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"; '
        'did you mean "MostAllocated"?',
        f"{args}[2].args.minCandidateNodesPercentage: Invalid value: 101: "
        "not in valid range [0, 100]",
        'profiles[0].tieBreak: Unsupported value: "randm": supported values: "heap", "random"; '
        'did you mean "random"?',
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        'profiles[0].plugins.filter.enabled[0].name: Invalid value: "NodeNam": no such plugin; '
        'did you mean "NodeName"?',
    ]


def test_what_has_no_effect_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(
        HEADER + "profiles:\n- plugins: {score: {disabled: [{name: ImageLocalty}]}}\n"
        "  pluginConfig: [{name: NodeResourceFit}, {name: NodeName, args: {x: 1}}]\n"
    )
    code, out, err = run(capsys, "config", "check", str(file))
    assert code == 0
    assert out.startswith(f"{file}: ok")
    assert err.splitlines() == [
        f'Warning: {file}: profiles[0].pluginConfig[0].name: there is no plugin "NodeResourceFit"; '
        'did you mean "NodeResourcesFit"?',
        f"Warning: {file}: profiles[0].pluginConfig[1].args: ignored, NodeName takes no arguments",
        f"Warning: {file}: profiles[0].plugins.score.disabled[0].name: there is no plugin "
        '"ImageLocalty" to disable; did you mean "ImageLocality"?',
    ]


def test_unknown_fields_errors_and_warnings_are_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        HEADER
        + """
paralelism: 3
podMaxBackoffSeconds: 0
podInitialBackoffSeconds: -1
profiles:
- plugins: {score: {disabled: [{name: NodeName}, {name: "*"}]}, filtr: {}}
  pluginConfig: [{name: NodeResourcesFit, args: {zebra: 1, scoringStrategy: {type: Most}}}]
"""
    )
    code, out, err = run(capsys, "config", "check", str(file))
    assert (code, out) == (2, "")
    args = "profiles[0].pluginConfig[0].args"
    assert [line.replace(f"{file}: ", "").partition(" (known")[0] for line in err.splitlines()] == [
        "Warning: profiles[0].plugins.score.disabled[0].name: has no effect: NodeName does not "
        "implement score; it implements filter",
        'Error: paralelism: unknown field; did you mean "parallelism"?',
        'Error: profiles[0].plugins.filtr: unknown field; did you mean "filter"?',
        f"Error: {args}.zebra: unknown field",
        f'Error: {args}.scoringStrategy.type: Unsupported value: "Most": supported values: '
        '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
        "Error: podInitialBackoffSeconds: Invalid value: -1: must be greater than 0",
    ]


def test_the_defaults_have_the_arguments_of_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (profile,) = yaml.safe_load(run(capsys, "config", "defaults")[1])["profiles"]
    arguments = {entry["name"]: entry["args"] for entry in profile["pluginConfig"]}
    assert list(arguments) == sorted(set(PLUGIN_ARGS) & set(in_tree_registry().names))
    assert arguments["NodeResourcesFit"] == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "NodeResourcesFitArgs",
        "scoringStrategy": {
            "type": "LeastAllocated",
            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
        },
    }
    assert arguments["DynamicResources"]["bindingTimeout"] == "10m0s"


def test_run_writes_what_would_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "in.yaml", tmp_path / "out.yaml"
    file.write_text(HEADER + "profiles: [{tieBreak: random, tieBreakSeed: 4}]\n")
    argv = ("run", "--config", str(file), "--write-config-to", str(out), "--leader-elect=false")
    assert run(capsys, *argv) == (0, "", "")
    written = yaml.safe_load(out.read_text())
    assert written["leaderElection"]["leaderElect"] is False
    assert written["profiles"][0]["tieBreak"] == "random"
    assert written["profiles"][0]["tieBreakSeed"] == 4
    code, _, err = run(capsys, "run", "--write-config-to", str(tmp_path))
    assert (code, err) == (2, f"Error: {tmp_path}: cannot be written: Is a directory\n")
    file.write_text(HEADER + "profiles: [{plugins: {filter: {enabled: [{name: NodeNam}]}}}]\n")
    code, _, err = run(capsys, *argv)
    assert code == 2
    assert err == (
        f"Error: {file}: profiles[0].plugins.filter.enabled[0].name: Invalid value: "
        '"NodeNam": no such plugin; did you mean "NodeName"?\n'
    )


SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of"
ELECTION = (
    'leaderElection: {leaderElect: true, resourceNamespace: Kube_System, resourceName: "a b"}'
)


@pytest.mark.parametrize(
    ("argv", "file", "start", "end"),
    [
        (
            ("--scheduler-name", "Bad_Name!"),
            "",
            '--scheduler-name: "Bad_Name!" also names the Lease of leader election, but '
            + SUBDOMAIN,
            "Fix: name the Lease by --leader-elect-resource-name, or use --leader-elect=false",
        ),
        (
            (),
            "profiles: [{schedulerName: Bad_Name!}]",
            'FILE: profiles[0].schedulerName: "Bad_Name!" also names the Lease of leader election',
            "Fix: name the Lease by --leader-elect-resource-name, or use --leader-elect=false",
        ),
        (
            ("--leader-elect-resource-name", "Bad_Name!"),
            "",
            f'leaderElection.resourceName: Invalid value: "Bad_Name!": {SUBDOMAIN}',
            "Fix: give the Lease another name, here or by --leader-elect-resource-name",
        ),
        (
            ("--leader-elect-resource-namespace", "a.b"),
            "",
            'leaderElection.resourceNamespace: Invalid value: "a.b": a namespace has up to 63',
            "Fix: give the Lease another namespace, here or by --leader-elect-resource-namespace",
        ),
        (("--namespace", "Team A"), "", '--namespace: "Team A": a namespace has up to 63', ""),
    ],
)
def test_names_that_no_lease_can_have_are_one_line(
    argv: tuple[str, ...],
    file: str,
    start: str,
    end: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written = tmp_path / "written.yaml"
    options = [*argv, "--write-config-to", str(written)]
    if file:
        (tmp_path / "in.yaml").write_text(HEADER + file)
        options += ["--config", str(tmp_path / "in.yaml")]
    code, _, err = run(capsys, "run", *options)
    assert code == 2
    (line,) = err.splitlines()
    assert line.startswith("Error: " + start.replace("FILE", str(tmp_path / "in.yaml")))
    assert line.endswith(end)
    assert not written.exists()


def test_a_name_that_no_lease_can_have_needs_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod may name any scheduler, so only the Lease restricts the name."""
    for election in ("--leader-elect=false", "--leader-elect-resource-name=mine"):
        argv = ("run", "--scheduler-name", "Bad_Name!", election, "--write-config-to")
        assert run(capsys, *argv, str(tmp_path / "written.yaml")) == (0, "", "")


def test_lease_names_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in.yaml"
    file.write_text(HEADER + ELECTION)
    code, _, err = run(capsys, "config", "check", str(file))
    assert code == 2
    assert [line.split(" ")[2] for line in err.splitlines()] == [
        "leaderElection.resourceNamespace:",
        "leaderElection.resourceName:",
    ]
    file.write_text(HEADER + ELECTION.replace("true", "false"))
    assert run(capsys, "config", "check", str(file))[0] == 0


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(HEADER.encode())))
    assert run(capsys, "config", "check", "-")[0] == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"kind: Pod\n")))
    code, _, err = run(capsys, "config", "check", "-")
    assert code == 2
    assert err.startswith("Error: <stdin>: apiVersion: Required value")


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_the_defaults_can_be_read_again(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "config", "defaults", "-o", output)
    assert code == 0
    again, default = parse_config(out), default_config()
    assert again.leader_election == default.leader_election
    registry = in_tree_registry()

    def running(config: KubeSchedulerConfiguration) -> object:
        return resolve_profiles(config.profiles, implements=registry.points, known=registry.names)

    assert running(again) == running(default)


def test_check_shows_what_applies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "good.yaml"
    file.write_text(HEADER + "parallelism: 3\n")
    code, out, _ = run(capsys, "config", "check", str(file), "-o", "yaml")
    shown = yaml.safe_load(out)
    assert code == 0
    assert shown["parallelism"] == 3
    assert shown["percentageOfNodesToScore"] == 100
    names = [ref["name"] for ref in shown["profiles"][0]["plugins"]["multiPoint"]["enabled"]]
    assert names[0] == "SchedulingGates"


def test_a_policy_becomes_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(
        '{"priorities": [], "zebra": 1, "ExtenderConfigs": [{"URLPrefix": "http://x"}]}'
    )
    code, out, err = run(capsys, "config", "migrate", str(policy))
    assert code == 0
    assert err == f"Warning: {policy}: zebra: is not a field of a Policy and was left out\n"
    config = parse_config(out)
    assert [extender.url_prefix for extender in config.extenders] == ["http://x"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(policy.read_text().encode())))
    code, from_stdin, err = run(capsys, "config", "migrate", "-", "-o", "json")
    assert err.startswith("Warning: <stdin>: zebra")
    assert yaml.safe_load(out) == json.loads(from_stdin)


def test_what_is_migrated_is_checked_as_any_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, migrated = tmp_path / "policy.yaml", tmp_path / "migrated.yaml"
    policy.write_text("predicates: [{name: GeneralPredicates}]\npriorities: []\n")
    code, out, err = run(capsys, "config", "migrate", str(policy))
    assert (code, err) == (0, "")
    migrated.write_text(out)
    code, _, err = run(capsys, "config", "check", str(migrated))
    assert (code, err) == (0, "")


def test_a_policy_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.json"
    assert run(capsys, "config", "migrate", str(policy)) == (
        2,
        "",
        f"Error: {policy}: cannot be read: No such file or directory\n",
    )
    policy.write_text('{"kind": "Pod", "apiVersion": "v1"}')
    assert run(capsys, "config", "migrate", str(policy)) == (
        2,
        "",
        f"Error: {policy}: expected a Policy of v1, found v1 Pod\n",
    )


@pytest.mark.parametrize(
    ("profile", "exit_code", "explained"),
    [
        pytest.param(
            "plugins:\n"
            "    multiPoint: {enabled: [{name: Coscheduling}]}\n"
            "    queueSort: {enabled: [{name: QOSSort}], disabled: [{name: '*'}]}\n",
            2,
            [
                "Error: {file}: profiles[0].plugins.multiPoint.enabled[0].name: Invalid value: "
                '"Coscheduling": no such plugin; Coscheduling (gang scheduling by PodGroup) is a '
                "plugin of kubernetes-sigs/scheduler-plugins, which Stowplan does not include. "
                "Fix: remove it, or install a plugin of that name (docs/plugins.md)\n",
                "QOSSort (queue order by quality of service class) is a plugin of",
            ],
            id="enabled",
        ),
        pytest.param(
            "plugins: {score: {disabled: [{name: NodeResourcesAllocatable}]}}\n"
            "  pluginConfig: [{name: NodeResourcesFitPlus, args: {}}]\n",
            0,
            ["NodeResourcesAllocatable (", "NodeResourcesFitPlus ("],
            id="disabled-or-configured",
        ),
    ],
)
def test_names_of_scheduler_plugins_are_explained(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    profile: str,
    exit_code: int,
    explained: list[str],
) -> None:
    file = tmp_path / "gang.yaml"
    file.write_text(f"{HEADER}profiles:\n- {profile}")
    code, _, err = run(capsys, "config", "check", str(file))
    assert code == exit_code
    assert "did you mean" not in err
    for text in explained:
        assert text.replace("{file}", str(file)) in err
    assert err.count("is a plugin of kubernetes-sigs/scheduler-plugins") == len(explained)


@pytest.mark.parametrize("name", SCHEDULER_PLUGINS)
def test_every_plugin_of_scheduler_plugins_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file = tmp_path / "config.yaml"
    enabled = f"{{multiPoint: {{enabled: [{{name: {name}}}]}}}}"
    file.write_text(f"{HEADER}profiles:\n- plugins: {enabled}\n")
    code, _, err = run(capsys, "config", "check", str(file))
    assert code == 2
    assert len(err.splitlines()) == 1
    assert f"; {name} ({SCHEDULER_PLUGINS[name]}) is a plugin of kubernetes-sigs/" in err
    assert "did you mean" not in err
