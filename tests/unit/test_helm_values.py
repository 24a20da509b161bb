"""deploy/helm/stowplan: its values, what they do, and that it grants what the manifests grant."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.cli.extender import extender
from stowplan.cli.run import run
from stowplan.cli.static import static
from tests.helm_chart import CHART, VALUE_SETS, Json, helm, render, render_text, workloads
from tools.chart import files, values

REPOSITORY = CHART.parents[2]
DEFAULTS = list(values((CHART / "values.yaml").read_text()))
COMMANDS = {"run": run, "static": static, "extender": extender}
README = (CHART / "README.md").read_text()


def nested(path: str, value: Any) -> Json:
    """{"a": {"b": value}} for a.b."""
    for name in reversed(path.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def replaced(tree: Json, path: str, value: Any) -> Json:
    """A copy of the values with another one in this place."""
    result = copy.deepcopy(tree)
    section, _, last = path.rpartition(".")
    (looked_up(result, section) if section else result)[last] = value
    return result


def looked_up(tree: Json, path: str) -> Any:
    found: Any = tree
    for name in path.split("."):
        found = found[name]
    return found


def test_the_copies_and_the_table_are_up_to_date() -> None:
    for path, text in files().items():
        assert path.read_text() == text, f"run `make docs` and commit {path.name}"


def test_a_value_without_a_comment_is_refused() -> None:
    text = "# Header.\n\nimage:\n  # The tag.\n  tag: a\n  name: b\n"
    with pytest.raises(ValueError, match=r"image\.name has no comment"):
        list(values(text))


def test_the_chart_has_the_version_of_the_project() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (project["version"], project["version"])


@pytest.mark.parametrize("name", VALUE_SETS)
def test_lint_has_no_complaint(name: str, helm_binary: Path) -> None:
    done = helm(helm_binary, "lint", "--strict", "--quiet", CHART, "--values", VALUE_SETS[name])
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


def test_the_package_contains_the_chart_without_its_tests(
    helm_binary: Path, tmp_path: Path
) -> None:
    packed = helm(helm_binary, "package", CHART, "--destination", tmp_path)
    assert (packed.returncode, packed.stderr) == (0, "")
    (archive,) = tmp_path.glob("stowplan-*.tgz")
    listed = subprocess.run(["tar", "-tzf", archive], capture_output=True, text=True, check=True)
    names = set(listed.stdout.split())
    assert {"stowplan/files/dashboard.json", "stowplan/files/rules.yaml"} <= names
    assert not [name for name in names if "/ci/" in name]
    rendered = helm(helm_binary, "template", "stowplan", archive, "--namespace", "stowplan")
    assert list(yaml.safe_load_all(rendered.stdout)) == render(helm_binary)


# -- wrong values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("scheduler.replicas", "2", "at '/scheduler/replicas': got string, want integer"),
        ("scheduler.enabled", "yes", "at '/scheduler/enabled': got string, want boolean"),
        ("scheduler.replica", 2, "at '/scheduler': additional properties 'replica' not allowed"),
        ("replicas", 2, "at '': additional properties 'replicas' not allowed"),
        ("image", "stowplan:1", "at '/image': got string, want object"),
        ("image.tag", 1.5, "at '/image/tag': got number, want string"),
        ("scheduler.scope", "cluser",
         "at '/scheduler/scope': value must be one of 'cluster', 'namespace'"),
        ("scheduler.nodeSelector", {"ssd": True},
         "at '/scheduler/nodeSelector/ssd': got boolean, want string"),
        ("scheduler.tolerations", {"operator": "Exists"},
         "at '/scheduler/tolerations': got object, want array"),
        ("scheduler.config.profiles", "stowplan",
         "at '/scheduler/config/profiles': got string, want array"),
        ("scheduler.config.kind", "Policy",
         "at '/scheduler/config/kind': value must be 'KubeSchedulerConfiguration'"),
        ("scheduler.resources.limits.memory", "1GB",
         "at '/scheduler/resources/limits/memory': '1GB' does not match pattern"),
        ("scheduler.podDisruptionBudget.maxUnavailable", "half",
         "at '/scheduler/podDisruptionBudget/maxUnavailable': 'half' does not match pattern"),
        ("scheduler.plugins.files", {"../x.py": ""},
         "at '/scheduler/plugins/files': additional properties '../x.py' not allowed"),
        ("scheduler.tls", None, "at '/scheduler': missing property 'tls'"),
        ("static.replicas", 2, "at '/static/replicas': maximum: got 2, want 1"),
        ("extender.config", {"algorithm": "NOP"},
         "at '/extender/config': got object, want string"),
        ("extender.service.port", 0, "at '/extender/service/port': minimum: got 0, want 1"),
        ("networkPolicy.apiServer.cidrs", ["10.0.0.1"],
         "at '/networkPolicy/apiServer/cidrs/0': '10.0.0.1' does not match pattern"),
        ("monitoring.serviceMonitor.interval", 30,
         "at '/monitoring/serviceMonitor/interval': got number, want string"),
    ],
)  # fmt: skip
def test_one_line_names_a_wrong_value(
    path: str, value: object, told: str, helm_binary: Path
) -> None:
    done = helm(helm_binary, "template", "x", CHART, values=nested(path, value))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = re.findall(r"^- (.*)$", done.stderr, re.MULTILINE)
    assert line.startswith(told)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"scheduler": {"config": {"leaderElection": {"leaderElect": False}}}},
         "scheduler.replicas is 2, but only one scheduler may run without leader election. Fix: "),
        ({"scheduler": {"scope": "namespace",
                        "config": {"leaderElection": {"resourceNamespace": "kube-system"}}}},
         'scheduler.config.leaderElection.resourceNamespace is "kube-system", but '),
        ({"scheduler": {"plugins": {"load": ["ssd.py:SsdOnly"]}}},
         'scheduler.plugins.load names "ssd.py:SsdOnly", but scheduler.plugins.files has no '),
        ({"scheduler": {"plugins": {"files": {"a.py": ""}, "existingConfigMap": "b"}}},
         "scheduler.plugins.files and scheduler.plugins.existingConfigMap are both set. Fix: "),
        ({"extender": {"enabled": True, "terminationGracePeriodSeconds": 5}},
         "extender.terminationGracePeriodSeconds is 5, but must be longer than "),
        ({"extender": {"enabled": True, "webhook": {"enabled": True}}},
         "extender.webhook.enabled is true, but the API server calls webhooks over HTTPS. Fix: "),
        ({"extender": {"enabled": True, "tls": {"clientCAKey": "ca.crt"}}},
         "extender.tls.clientCAKey is set, but extender.tls.secretName is not"),
    ],
)  # fmt: skip
def test_values_that_contradict_each_other_are_refused(
    given: Json, told: str, helm_binary: Path
) -> None:
    done = helm(helm_binary, "template", "x", CHART, values=given)
    assert done.returncode == 1
    first, *rest = [line for line in done.stderr.splitlines() if line]
    assert re.fullmatch(r"Error: execution error at \(\S+\): " + re.escape(told) + ".*", first)
    assert rest == ["Use --debug flag to render out invalid YAML"], "which Helm adds"


def test_the_error_in_the_readme_is_what_helm_says(helm_binary: Path) -> None:
    done = helm(helm_binary, "template", "x", CHART, "--set-string", "scheduler.replicas=2")
    assert done.stderr.strip() in README


# -- what values do --------------------------------------------------------------------------------


def test_the_set_of_overrides_changes_every_value() -> None:
    given = yaml.safe_load(VALUE_SETS["overrides"].read_text())
    same = [path for path, default, _ in DEFAULTS if looked_up(given, path) == default]
    # It is on by default; files and an existing ConfigMap exclude each other.
    assert same == ["scheduler.enabled", "scheduler.plugins.files", "extender.plugins.files"]


@pytest.mark.slow
def test_every_value_has_an_effect(helm_binary: Path) -> None:
    """Each value is changed, most of them back to their defaults: the manifests must change."""
    visible = yaml.safe_load(VALUE_SETS["overrides"].read_text())
    # Where the default is already there, or is refused beside the other overrides.
    others = {
        "scheduler.enabled": False,
        "scheduler.plugins.files": {"own.py": "pass"},
        "extender.plugins.files": {"racks.py": "pass"},
        "extender.service.type": "ClusterIP",
        "extender.terminationGracePeriodSeconds": 31,
        "extender.tls.secretName": "other-cert",
    }
    # In place of overrides that hide the effect of others.
    for path, value in {
        "rbac.create": True,
        "image.digest": "",
        "fullnameOverride": "",
        "scheduler.config": {
            "percentageOfNodesToScore": 5,
            "leaderElection": {"leaderElect": True},
        },
        "scheduler.plugins.existingConfigMap": "",
        "scheduler.plugins.files": {"own.py": ""},
        "scheduler.serviceAccount.create": True,
        "static.serviceAccount.create": True,
        "extender.plugins.existingConfigMap": "",
        "extender.plugins.files": {"racks.py": ""},
        "extender.serviceAccount.create": True,
        "extender.service.type": "NodePort",
        "extender.service.nodePort": 30001,
    }.items():
        others.setdefault(path, looked_up(visible, path))
        visible = replaced(visible, path, value)
    changed: dict[str, Json] = {}
    for path, default, _ in DEFAULTS:
        changed[path] = replaced(visible, path, others.get(path, default))
        if path.endswith("existingConfigMap"):
            files_path = path.replace("existingConfigMap", "files")
            changed[path] = replaced(changed[path], files_path, {})
    unchanged = render_text(helm_binary, visible)
    with ThreadPoolExecutor(4) as pool:
        rendered = pool.map(partial(render_text, helm_binary), changed.values())
        without_effect = [
            path for path, text in zip(changed, rendered, strict=True) if text == unchanged
        ]
    assert without_effect == []


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_programs_know_their_flags(name: str, helm_binary: Path) -> None:
    """Each command reads its arguments, and every file that they name is mounted."""
    for template in workloads(render(helm_binary, VALUE_SETS[name])).values():
        (container,) = template["spec"]["containers"]
        command, *arguments = container["args"]
        assert container["command"] == ["stowplan"]
        with COMMANDS[command].make_context(command, list(arguments)):
            pass  # every value has the type of its flag
        mounts = {each["mountPath"]: each["name"] for each in container.get("volumeMounts", [])}
        named = [
            argument.partition("=")[2] for argument in arguments if "=/etc/stowplan" in argument
        ]
        for path in named:
            assert any(f"{path}/".startswith(f"{mount}/") for mount in mounts), path
        volumes = {each["name"] for each in template["spec"].get("volumes", [])}
        assert volumes == set(mounts.values())


def test_a_plugin_in_the_values_is_loaded(helm_binary: Path, tmp_path: Path) -> None:
    """`stowplan run` with the rendered flags, on the files of the rendered ConfigMaps."""
    objects = render(helm_binary, VALUE_SETS["plugins"])
    folders = {"stowplan": "stowplan", "stowplan-plugins": "stowplan-plugins"}
    for each in objects:
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] in folders:
            folder = tmp_path / folders[each["metadata"]["name"]]
            folder.mkdir()
            for name, text in each["data"].items():
                (folder / name).write_text(text)
    (container,) = workloads(objects)["stowplan"]["spec"]["containers"]
    flags = [flag.replace("/etc/", f"{tmp_path}/") for flag in container["args"]]
    written = tmp_path / "written.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "stowplan", *flags, f"--write-config-to={written}"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    config = yaml.safe_load(written.read_text())
    assert config["profiles"][0]["schedulerName"] == "ssd-scheduler"
    enabled = config["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert "on_ssd" in [each["name"] for each in enabled]
    assert config["leaderElection"]["resourceName"] == "ssd-lease"


def test_a_change_of_the_configuration_starts_new_pods(helm_binary: Path) -> None:
    def checksum(given: Json) -> str:
        template = workloads(render(helm_binary, given))["stowplan"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    more = {"scheduler": {"replicas": 3}}
    configured = {"scheduler": {"config": {"percentageOfNodesToScore": 50}}}
    assert checksum({}) == checksum(more) != checksum(configured)


def test_the_examples_of_the_readme_are_good_values(helm_binary: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert len(examples) == 8
    for example in examples:
        render(helm_binary, yaml.safe_load(example))


# -- rights ----------------------------------------------------------------------------------------


def rights(objects: Iterable[Json], own: str) -> set[tuple[str, ...]]:
    """What the roles grant, and which roles of the cluster are bound; `own` is the namespace."""
    found: set[tuple[str, ...]] = set()
    for each in objects:
        place = each["metadata"].get("namespace", "")
        place = "own" if place == own else place
        if each["kind"] in ("Role", "ClusterRole"):
            found |= {
                (place, group, resource, verb, name)
                for rule in each["rules"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
                for name in rule.get("resourceNames", [""])
            }
        elif each["kind"].endswith("RoleBinding"):
            if each["roleRef"]["name"].startswith(("system:", "extension-")):
                found.add((place, each["roleRef"]["name"]))
            assert len(each["subjects"]) == 1
    return found


@pytest.mark.parametrize(
    ("manifests", "namespace", "given"),
    [
        ("scheduler", "stowplan", {}),
        ("scheduler/namespaced", "team-a", {"scheduler": {"scope": "namespace"}}),
        ("static", "rfscheduler",
         {"scheduler": {"enabled": False}, "static": {"enabled": True}}),
        ("static/respect-node-state", "rfscheduler",
         {"scheduler": {"enabled": False}, "static": {"enabled": True, "respectNodeState": True}}),
        ("extender", "wca-scheduler",
         {"scheduler": {"enabled": False}, "extender": {"enabled": True}}),
    ],
)  # fmt: skip
def test_the_rights_are_those_of_the_manifests(
    manifests: str, namespace: str, given: Json, kubectl_binary: Path, helm_binary: Path
) -> None:
    built = subprocess.run(
        [kubectl_binary, "kustomize", CHART.parents[1] / manifests],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    expected = rights(yaml.safe_load_all(built.stdout), namespace)
    assert expected
    objects = render(helm_binary, given, namespace=namespace)
    assert rights(objects, namespace) == expected


def test_rescheduling_has_the_rights_of_the_manifest(helm_binary: Path) -> None:
    manifest = CHART.parents[1] / "extender" / "rescheduling" / "rbac.yaml"
    expected = rights(yaml.safe_load_all(manifest.read_text()), "default")
    on = {"namespaces": ["default"], "tokenSecret": "token"}
    disabled = {"scheduler": {"enabled": False}}
    plain = render(helm_binary, {**disabled, "extender": {"enabled": True}})
    objects = render(helm_binary, {**disabled, "extender": {"enabled": True, "rescheduling": on}})
    assert rights(objects, "default") - rights(plain, "default") == expected


def test_the_webhook_is_that_of_the_manifest(helm_binary: Path) -> None:
    file = CHART.parents[1] / "extender" / "mutate" / "webhook.yaml"
    (expected,) = yaml.safe_load(file.read_text())["webhooks"]
    given = {"enabled": True, "tls": {"secretName": "cert"}, "webhook": {"enabled": True}}
    objects = render(
        helm_binary, {"fullnameOverride": "wca", "extender": given}, namespace="wca-scheduler"
    )
    (webhook,) = next(each["webhooks"] for each in objects if "webhooks" in each)
    service = next(each for each in objects if each["metadata"]["name"] == "wca-extender")
    assert webhook["name"] == f"{service['metadata']['name']}.wca-scheduler.svc"
    assert webhook["clientConfig"]["service"].pop("name") == "wca-extender"
    del webhook["name"], expected["name"], expected["clientConfig"]["service"]["name"]
    assert webhook == expected


def test_bindings_name_the_roles_and_the_account(helm_binary: Path) -> None:
    objects = render(helm_binary, VALUE_SETS["all"])
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    accounts = {name for kind, name in names if kind == "ServiceAccount"}
    bound = set()
    for each in objects:
        if "roleRef" in each:
            role = (each["roleRef"]["kind"], each["roleRef"]["name"])
            assert role in names or role[1].startswith(("system:", "extension-"))
            (subject,) = each["subjects"]
            assert subject["name"] in accounts
            bound.add(role)
    assert {each for each in names if each[0] in ("Role", "ClusterRole")} <= bound


def test_the_role_names_the_lease_of_the_flags(helm_binary: Path) -> None:
    elected = {"leaderElection": {"resourceName": "mine", "resourceNamespace": "kube-system"}}
    objects = render(helm_binary, {"scheduler": {"config": elected}})
    (container,) = workloads(objects)["stowplan"]["spec"]["containers"]
    assert "--leader-elect-resource-name=mine" in container["args"]
    assert "--leader-elect-resource-namespace=kube-system" in container["args"]
    (role,) = [each for each in objects if each["kind"] == "Role"]
    assert role["metadata"]["namespace"] == "kube-system"
    leases = [rule for rule in role["rules"] if rule["resources"] == ["leases"]]
    assert [rule.get("resourceNames") for rule in leases] == [None, ["mine"]]


@pytest.mark.parametrize("scope", ["cluster", "namespace"])
def test_without_leader_election_no_right_on_leases_is_granted(
    scope: str, helm_binary: Path
) -> None:
    config = {"leaderElection": {"leaderElect": False}}
    objects = render(helm_binary, {"scheduler": {"scope": scope, "replicas": 1, "config": config}})
    assert not [right for right in rights(objects, "stowplan") if "leases" in right]
    (container,) = workloads(objects)["stowplan"]["spec"]["containers"]
    assert not [flag for flag in container["args"] if "leader-elect" in flag]


# -- monitoring ------------------------------------------------------------------------------------


def test_the_alerts_and_the_dashboard_are_those_of_deploy_monitoring(helm_binary: Path) -> None:
    objects = {each["kind"]: each for each in render(helm_binary, VALUE_SETS["monitoring"])}
    monitoring = CHART.parents[1] / "monitoring"
    rules = yaml.safe_load((monitoring / "rules.yaml").read_text())
    assert objects["PrometheusRule"]["spec"] == rules
    (dashboard,) = [
        each["data"]
        for each in render(helm_binary, VALUE_SETS["monitoring"])
        if each["metadata"]["name"] == "stowplan-dashboards"
    ]
    shipped = json.loads((monitoring / "dashboard.json").read_text())
    assert json.loads(dashboard["stowplan.json"]) == shipped


def test_the_jobs_have_the_names_that_the_alerts_expect(helm_binary: Path) -> None:
    monitors = [
        each["spec"]["endpoints"][0]
        for each in render(helm_binary, VALUE_SETS["monitoring"])
        if each["kind"] == "ServiceMonitor"
    ]
    jobs = {each["relabelings"][0]["replacement"]: each for each in monitors}
    scraped = yaml.safe_load((CHART.parents[1] / "monitoring" / "scrape.yaml").read_text())
    expected = {each["job_name"]: each for each in scraped["scrape_configs"]}
    assert jobs.keys() == expected.keys() - {"kube-scheduler"}
    for name, endpoint in jobs.items():
        assert endpoint["scheme"] == expected[name].get("scheme", "http")
        assert endpoint.get("honorLabels", False) == expected[name].get("honor_labels", False)
        assert ("bearerTokenFile" in endpoint) == ("authorization" in expected[name])
