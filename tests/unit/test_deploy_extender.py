"""deploy/extender: ports, names and files agree, and both sides read their configuration."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from stowplan.cli.extender import extender
from stowplan.config.load import load_config
from stowplan.extender.algorithm import Algorithm
from stowplan.extender.algorithms.nop import NOPAlgorithm
from stowplan.extender.configuration import load
from stowplan.extender.kubeapi import Kubeapi
from tests.unit.test_deploy import Grant, Json, documents, granted, one

ROOT = Path(__file__).parents[2] / "deploy" / "extender"
STATIC = ROOT / "static-pod"
RESCHEDULING = ROOT / "rescheduling"
PORT = 31800
INSTALLATIONS = ["", "https", "mutate", "nginx"]
RIGHTS = [
    Grant("", "", resource, verb) for resource in ("nodes", "pods") for verb in ("list", "watch")
]


def built(kubectl: Path, installation: str | Path) -> list[Json]:
    """All objects of an installation, as `kubectl apply -k` would send them."""
    done = subprocess.run(
        [kubectl, "kustomize", ROOT / installation], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def containers(spec: Json) -> dict[str, Json]:
    return {container["name"]: container for container in spec["containers"]}


def check_flags(container: Json) -> dict[str, str]:
    """The flags by name, after the command itself has read them."""
    command, *args = container["args"]
    assert [*container["command"], command] == ["stowplan", "extender"]
    with click.Context(extender) as ctx:
        extender.make_parser(ctx).parse_args(list(args))
    return dict(arg.split("=", 1) for arg in args)


def mounted(spec: Json, container: Json, path: str) -> Json:
    """The volume in which a container finds a file."""
    (mount,) = [
        each for each in container["volumeMounts"] if path.startswith(each["mountPath"] + "/")
    ]
    (volume,) = [each for each in spec["volumes"] if each["name"] == mount["name"]]
    assert isinstance(volume, dict)
    return volume


def check_port(spec: Json, serving: Json, service: Json, labels: Json) -> None:
    (port,) = service["spec"]["ports"]
    (opened,) = serving["ports"]
    assert service["spec"]["type"] == "NodePort"
    assert (port["port"], port["nodePort"], port["targetPort"]) == (PORT, PORT, opened["name"])
    assert opened["containerPort"] == PORT
    assert service["spec"]["selector"].items() <= labels.items()
    for probe, path in (
        ("startup", "/healthz"),
        ("liveness", "/healthz"),
        ("readiness", "/readyz"),
    ):
        asked = serving[f"{probe}Probe"]["httpGet"]
        assert (asked["path"], asked["port"]) == (path, opened["name"])
    others = [each for each in spec["containers"] if each is not serving]
    assert not [each for each in others if each.get("ports")]


def check_restricted(spec: Json) -> None:
    """What the pod security standard `restricted` asks for, and a file system nobody writes."""
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_the_parts_of_an_installation_fit_together(installation: str, kubectl_binary: Path) -> None:
    objects = built(kubectl_binary, installation)
    namespace = one(objects, "Namespace")["metadata"]["name"]
    assert {obj["metadata"].get("namespace", namespace) for obj in objects} == {namespace}
    deployment = one(objects, "Deployment")["spec"]
    template = deployment["template"]
    labels, spec = template["metadata"]["labels"], template["spec"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    assert spec["serviceAccountName"] == one(objects, "ServiceAccount")["metadata"]["name"]
    check_restricted(spec)
    asked = containers(spec)
    serving = asked.get("nginx", asked["wca-scheduler"])
    check_port(spec, serving, one(objects, "Service"), labels)
    flags = check_flags(asked["wca-scheduler"])
    drain_s = int(flags["--drain-timeout"].removesuffix("s"))
    assert drain_s < spec["terminationGracePeriodSeconds"]
    maps = {obj["metadata"]["name"]: obj["data"] for obj in objects if obj["kind"] == "ConfigMap"}
    volume = mounted(spec, asked["wca-scheduler"], flags["--config"])
    assert Path(flags["--config"]).name in maps[volume["configMap"]["name"]]


def test_https_uses_the_secret(kubectl_binary: Path) -> None:
    spec = one(built(kubectl_binary, "https"), "Deployment")["spec"]["template"]["spec"]
    container = containers(spec)["wca-scheduler"]
    flags = check_flags(container)
    for flag, file in (("--tls-cert-file", "tls.crt"), ("--tls-private-key-file", "tls.key")):
        secret = mounted(spec, container, flags[flag])["secret"]["secretName"]
        assert (secret, Path(flags[flag]).name) == ("wca-scheduler-cert", file)
    assert {
        container[f"{probe}Probe"]["httpGet"]["scheme"]
        for probe in ("startup", "liveness", "readiness")
    } == {"HTTPS"}
    assert "create secret tls wca-scheduler-cert" in (ROOT / "README.md").read_text()


def test_nginx_asks_on_the_socket_of_the_extender(kubectl_binary: Path) -> None:
    spec = one(built(kubectl_binary, "nginx"), "Deployment")["spec"]["template"]["spec"]
    asked = containers(spec)
    flags = check_flags(asked["wca-scheduler"])
    assert "--port" not in flags
    socket = flags["--socket"]
    there, here = (mounted(spec, asked[name], socket) for name in ("wca-scheduler", "nginx"))
    assert there == here
    assert "emptyDir" in here
    text = (ROOT / "nginx" / "nginx.conf").read_text()
    assert f"server unix:{socket};" in text
    assert re.findall(r"^ *listen (\d+);", text, re.MULTILINE) == [str(PORT)]
    limit = re.findall(r"client_max_body_size (\d+)m;", text)
    (body,) = [param.default for param in extender.params if param.name == "max_body"]
    assert [f"{each}Mi" for each in limit] == [body], "as much as the extender takes"
    config = asked["nginx"]["command"][-1]
    assert mounted(spec, asked["nginx"], config)["configMap"]["name"].startswith("wca-scheduler-n")
    written = re.findall(r"^ *(?:pid|\w+_temp_path) (\S+);", text, re.MULTILINE)
    assert len(written) == 6
    for path in written:
        assert "emptyDir" in mounted(spec, asked["nginx"], path), "all else is read-only"


def test_the_webhook_asks_the_service_and_blocks_nobody(kubectl_binary: Path) -> None:
    objects = built(kubectl_binary, "mutate")
    (webhook,) = one(objects, "MutatingWebhookConfiguration")["webhooks"]
    service = one(objects, "Service")
    assert webhook["clientConfig"]["service"] == {
        "name": service["metadata"]["name"],
        "namespace": service["metadata"]["namespace"],
        "port": service["spec"]["ports"][0]["port"],
        "path": "/mutate",
    }
    assert webhook["failurePolicy"] == "Ignore"


@pytest.mark.parametrize("installation", INSTALLATIONS)
def test_rescheduling_is_an_addition_to_any_installation(
    installation: str, kubectl_binary: Path, tmp_path: Path
) -> None:
    before = {(obj["kind"], obj["metadata"]["name"]) for obj in built(kubectl_binary, installation)}
    overlay = {
        "resources": [os.path.relpath(ROOT / installation, tmp_path)],
        "components": [os.path.relpath(RESCHEDULING, tmp_path)],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    objects = built(kubectl_binary, tmp_path)
    added = {(obj["kind"], obj["metadata"]["name"]) for obj in objects} - before
    assert {kind for kind, _ in added} == {"Role", "RoleBinding", "ConfigMap"}
    spec = one(objects, "Deployment")["spec"]["template"]["spec"]
    check_restricted(spec)
    container = containers(spec)["wca-scheduler"]
    volume = mounted(spec, container, check_flags(container)["--config"])
    maps = {obj["metadata"]["name"]: obj["data"] for obj in objects if obj["kind"] == "ConfigMap"}
    config = maps[volume["configMap"]["name"]]["config.yaml"]
    assert config == (RESCHEDULING / "config.yaml").read_text(), "it took the place of the other"
    (token_file,) = re.findall(r"^reschedule_token_file: (\S+)$", config, re.MULTILINE)
    assert Path(token_file).name == "token", "the key of the Secret"
    secret = mounted(spec, container, token_file)["secret"]["secretName"]
    shown = (ROOT / "README.md").read_text()
    assert f"create secret generic {secret} \\\n  --from-literal=token=" in shown


def test_rescheduling_grants_what_it_does_where_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "c",
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    configured = load(RESCHEDULING / "config.yaml")
    settings, algorithm = configured.settings, type(configured.algorithm)
    assert isinstance(settings.kubeapi, Kubeapi)
    assert algorithm.reschedule is not Algorithm.reschedule, "one that knows pods to move"
    assert (settings.reschedule_interval, settings.reschedule_by_get) == (0, False)
    file = RESCHEDULING / "rbac.yaml"
    namespaces = settings.kubeapi.monitored_namespaces
    rights = [Grant(namespace, "", "pods", "delete") for namespace in namespaces]
    assert granted(file) == rights
    check_binding(file)
    table = (ROOT / "README.md").read_text().partition("## Rescheduling")[2]
    explained = re.findall(r"^\| (\S+) in `(\S+)`: (\w+) \|", table, re.MULTILINE)
    assert explained == [(right.resource, right.namespace, right.verb) for right in rights]


def test_the_static_pod_and_its_service() -> None:
    pod, service = documents(
        STATIC / "wca-scheduler-pod.yaml", STATIC / "wca-scheduler-service.yaml"
    )
    assert (pod["kind"], service["kind"]) == ("Pod", "Service")
    assert pod["metadata"]["namespace"] == service["metadata"]["namespace"] == "kube-system"
    spec = pod["spec"]
    check_restricted(spec)
    container = containers(spec)["wca-scheduler"]
    check_port(spec, container, service, pod["metadata"]["labels"])
    assert "serviceAccountName" not in spec, "a static pod can have none"
    assert {kind for volume in spec["volumes"] for kind in volume} == {"name", "hostPath"}
    config = check_flags(container)["--config"]
    host = mounted(spec, container, config)["hostPath"]["path"]
    assert f"{host}/{Path(config).name}" in (ROOT / "README.md").read_text()


def check_binding(file: Path) -> None:
    """The role of a file goes to the account that the extender runs as."""
    role, binding = documents(file)
    (account,) = documents(ROOT / "base" / "serviceaccount.yaml")
    assert binding["metadata"].get("namespace") == role["metadata"].get("namespace")
    assert binding["roleRef"]["kind"] == role["kind"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [
        {
            "kind": "ServiceAccount",
            "name": account["metadata"]["name"],
            "namespace": account["metadata"]["namespace"],
        }
    ]


def test_the_role_is_what_the_data_providers_read() -> None:
    assert sorted(granted(ROOT / "base" / "rbac.yaml")) == sorted(RIGHTS)
    check_binding(ROOT / "base" / "rbac.yaml")
    table = (ROOT / "README.md").read_text().partition("## What it may do")[2]
    explained = re.findall(r"^\| (\S+): (\w+) \|", table, re.MULTILINE)
    assert sorted(explained) == sorted((right.resource, right.verb) for right in RIGHTS)


def test_the_extender_reads_the_example_of_the_original() -> None:
    configured = load(ROOT / "base" / "config.yaml")
    assert isinstance(configured.algorithm, NOPAlgorithm)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_configuration_of_kube_scheduler(scheme: str) -> None:
    (ours,) = load_config(ROOT / "kube-scheduler" / f"{scheme}.yaml").extenders
    assert re.fullmatch(rf"{scheme}://[\d.]+:{PORT}", ours.url_prefix)
    assert (ours.filter_verb, ours.prioritize_verb, ours.weight) == ("filter", "prioritize", 1)
    assert ours.enable_https == (scheme == "https")
    if ours.tls_config is not None:
        (service,) = documents(ROOT / "base" / "service.yaml")
        name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        assert ours.tls_config.server_name == f"{name}.{namespace}.svc"
    assert (ours.tls_config is None) == (scheme == "http")


def test_no_manifest_is_forgotten() -> None:
    for kustomization in ROOT.rglob("kustomization.yaml"):
        said = yaml.safe_load(kustomization.read_text())
        named = set(said["resources"]) | {patch["path"] for patch in said.get("patches", ())}
        for generator in said.get("configMapGenerator", ()):
            named.update(generator["files"])
        files = {file.name for file in kustomization.parent.iterdir() if file.is_file()}
        listed = {name for name in named if Path(name).suffix}
        assert listed == files - {"kustomization.yaml", "README.md"}
    table = (ROOT / "README.md").read_text().partition("\n\n")[2].partition("## The image")[0]
    folders = {f"deploy/extender/{each.name}" for each in ROOT.iterdir() if each.is_dir()}
    assert set(re.findall(r"^\| `(\S+)`", table, re.MULTILINE)) == {
        "deploy/extender", *folders - {"deploy/extender/base"}
    }  # fmt: skip
