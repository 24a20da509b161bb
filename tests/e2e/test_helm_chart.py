"""The Helm chart and the kustomize manifests on a real API server, under Pod Security `restricted`.

Ten sets of values are applied with `--dry-run=server`: the API server validates, defaults and
admits every object, and stores none. Then the chart is installed, upgraded and uninstalled, and its
scheduler runs with the command, the files and the rights of the installed objects.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import unverified_access
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.e2e.test_deploy_rbac import create_pod, started, wait_bound, wait_for_roles
from tests.helm_chart import CHART, VALUE_SETS, Json, helm, pods, render, workloads
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

DEPLOY = CHART.parents[1]
CRDS = Path(__file__).parents[1] / "data" / "prometheus_operator_crds.yaml"
#: Their pods are those of a control-plane node's kubelet.
STATIC_PODS = ("static-pod",)


def namespace(name: str) -> Json:
    labels = {
        f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own, with a node, restricted namespaces and the Operator's CRDs."""
    require_binaries("etcd", "kube-apiserver", "kubectl", "helm")
    with ControlPlane() as running:
        size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        node = {"metadata": {"name": "n1"}, "status": {"capacity": size, "allocatable": size}}
        running.api.create("/api/v1/nodes", node)
        created = [namespace(name) for name in ("stowplan", "team-a", "other")]
        running.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(created), check=True)
        running.kubectl("apply", "-f", str(CRDS), check=True)
        running.kubectl("wait", "--for=condition=Established", "-f", str(CRDS), check=True)
        yield running


def dry_run(plane: ControlPlane, objects: list[Json]) -> subprocess.CompletedProcess[str]:
    return plane.kubectl(
        "apply", "--dry-run=server", "-f", "-", input=yaml.safe_dump_all(objects), check=False
    )


def check_accepted(plane: ControlPlane, objects: list[Json]) -> None:
    """Every object, and a pod for each Deployment, without an error or a warning."""
    sent = [*objects, *pods(objects)]
    done = dry_run(plane, sent)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("(server dry run)") == len(sent)


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_api_server_accepts_the_chart(
    name: str, plane: ControlPlane, helm_binary: Path
) -> None:
    check_accepted(plane, render(helm_binary, VALUE_SETS[name]))


def test_there_are_ten_sets_of_values() -> None:
    assert len(VALUE_SETS) == 10


def test_the_api_server_refuses_what_is_wrong(plane: ControlPlane, helm_binary: Path) -> None:
    """The tests above could fail: Pod Security, fields of objects and fields of the CRDs."""
    privileged = {"securityContext": {"privileged": True, "allowPrivilegeEscalation": True}}
    objects = render(helm_binary, privileged)
    done = dry_run(plane, [*objects, *pods(objects)])
    assert 'pods "stowplan-trial" is forbidden: violates PodSecurity "restricted' in done.stderr
    assert 'Warning: would violate PodSecurity "restricted' in done.stderr, "of the Deployment"

    objects = render(helm_binary, VALUE_SETS["monitoring"])
    for each in objects:
        if each["kind"] == "ServiceMonitor":
            each["spec"]["endpoints"][0]["prot"] = "https"
        if each["kind"] == "Service":
            each["spec"]["ports"][0]["port"] = "https"
    refused = dry_run(plane, objects).stderr
    assert 'unknown field "spec.endpoints[0].prot"' in refused
    assert "Service" in refused


def test_the_api_server_accepts_the_kustomize_manifests(plane: ControlPlane) -> None:
    """All installations but static pods, in their own namespaces, which enforce `restricted`."""
    built = {
        file.parent: yaml.safe_load(file.read_text())
        for file in sorted(DEPLOY.rglob("kustomization.yaml"))
    }
    included = {
        (folder / each).resolve() for folder, text in built.items() for each in text["resources"]
    }
    folders = [
        folder
        for folder, text in built.items()
        if text["kind"] == "Kustomization"
        and folder not in included
        and folder.name not in STATIC_PODS
    ]
    assert len(folders) >= 6
    objects = [
        each
        for folder in folders
        for each in yaml.safe_load_all(plane.kubectl("kustomize", str(folder), check=True).stdout)
    ]
    namespaces = [each for each in objects if each["kind"] == "Namespace"]
    for each in namespaces:
        assert each["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(namespaces), check=True)
    check_accepted(plane, objects)


def test_the_chart_is_installed_upgraded_and_uninstalled(
    plane: ControlPlane, helm_binary: Path
) -> None:
    """By Helm itself: an upgrade must not change a field that the API server holds immutable."""

    def run(*arguments: str | Path) -> str:
        connection = ("--kubeconfig", str(plane.kubeconfig), "--namespace", "other")
        done = helm(helm_binary, *arguments, *connection)
        assert (done.returncode, done.stderr) == (0, ""), arguments
        return done.stdout

    def release_objects() -> list[str]:
        kinds = (
            "deployments,configmaps,services,serviceaccounts,roles,rolebindings,clusterroles,"
            "clusterrolebindings,poddisruptionbudgets,networkpolicies,servicemonitors,prometheusrules,"
            "mutatingwebhookconfigurations"
        )
        selector = "app.kubernetes.io/instance=trial"
        listed = plane.kubectl(
            "get", kinds, "--all-namespaces", "-l", selector, "-o", "name", check=True
        )
        return sorted(listed.stdout.split())

    shown = run("install", "trial", CHART)
    assert "serves pods with schedulerName stowplan." in shown
    assert "kubectl -n other rollout status deployment/trial-stowplan" in shown
    labels = "app.kubernetes.io/instance=trial,app.kubernetes.io/component=scheduler"
    assert f"kubectl -n other logs --prefix -l {labels}\n" in shown
    first = release_objects()
    assert "clusterrole.rbac.authorization.k8s.io/other:trial-stowplan" in first
    for name in ("monitoring", "namespaced", "overrides"):
        run("upgrade", "trial", CHART, "--reset-values", "--values", VALUE_SETS[name])
        assert release_objects() != first, name
    run("upgrade", "trial", CHART, "--reset-values")
    assert release_objects() == first, "what was switched off is gone"
    run("uninstall", "trial")
    assert release_objects() == []


def test_the_notes_say_what_is_served(plane: ControlPlane, helm_binary: Path) -> None:
    def notes(*arguments: str) -> str:
        connection = ("--kubeconfig", str(plane.kubeconfig), "--dry-run=client")
        done = helm(helm_binary, "install", "x", CHART, *connection, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.partition("\nNOTES:\n")[2]

    assert "Nothing is installed" in notes("--set", "scheduler.enabled=false")
    assert "in namespace default." in notes("--set", "scheduler.scope=namespace")
    everything = notes("--values", str(VALUE_SETS["overrides"]))
    assert "node labels acme.example.databases.NAMESPACE/POD" in everything
    assert "Extender: serves HTTPS on port 8443 of Service acme-scheduling-extender" in everything


def test_prometheus_may_read_metrics_and_nothing_else(
    plane: ControlPlane, helm_binary: Path
) -> None:
    objects = render(helm_binary, VALUE_SETS["monitoring"])
    roles = [each for each in objects if each["metadata"]["name"].endswith("-scraper")]
    assert [each["kind"] for each in roles] == ["ClusterRole", "ClusterRoleBinding"]
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(roles), check=True)
    account = "--as=system:serviceaccount:monitoring:prometheus-k8s"
    wait_for(
        "the role",
        lambda: plane.kubectl("auth", "can-i", "get", "/metrics", account).returncode == 0,
    )
    for path in ("/configz", "/debug/pprof/profile"):
        refused = plane.kubectl("auth", "can-i", "get", path, account)
        assert (refused.returncode, refused.stdout) == (1, "no\n")


def rendered_command(objects: list[Json], name: str, folder: Path, port: int) -> list[str]:
    """The command of a Deployment on files of its ConfigMaps, with another port."""
    spec = workloads(objects)[name]["spec"]
    (container,) = spec["containers"]
    maps = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ConfigMap"}
    volumes = {each["name"]: each["configMap"]["name"] for each in spec.get("volumes", [])}
    for mount in container.get("volumeMounts", []):
        mounted = folder / mount["mountPath"].lstrip("/")
        mounted.mkdir(parents=True)
        for file, text in maps[volumes[mount["name"]]]["data"].items():
            (mounted / file).write_text(text)
    (opened,) = container["ports"]
    flags = [
        flag.replace("=/etc/", f"={folder}/etc/").replace(f"={opened['containerPort']}", f"={port}")
        for flag in container["args"]
    ]
    assert f"{port}" in " ".join(flags)
    return [sys.executable, "-m", *container["command"], *flags]


def test_the_scheduler_of_the_chart_runs(
    plane: ControlPlane, helm_binary: Path, tmp_path: Path
) -> None:
    """As its service account, on its HTTPS port, where Prometheus may read the metrics."""
    objects = render(helm_binary, {"monitoring": {"scraper": {"serviceAccount": "scraper"}}})
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects), check=True)
    plane.kubectl("create", "serviceaccount", "scraper", "--namespace=stowplan", check=True)
    wait_for_roles(plane, "stowplan")
    token = plane.service_account_token("stowplan", "stowplan")
    port = free_port()
    command = rendered_command(objects, "stowplan", tmp_path, port)
    command.append(f"--kubeconfig={plane.write_kubeconfig('chart', token)}")
    with started(tmp_path / "log", command) as scheduler:
        scheduler.wait_until_scheduling()
        create_pod(plane, "default", "from-the-chart")
        wait_bound(plane, "default", "from-the-chart")
        lease = plane.api.get("/apis/coordination.k8s.io/v1/namespaces/stowplan/leases/stowplan")
        assert lease["spec"]["holderIdentity"]
        scraper = unverified_access(
            f"https://127.0.0.1:{port}", plane.service_account_token("stowplan", "scraper")
        )
        assert "scheduler_pending_pods" in scraper.raw("GET", "/metrics")
        scheduler.stop()


def test_the_static_scheduler_of_the_chart_runs(
    plane: ControlPlane, helm_binary: Path, tmp_path: Path
) -> None:
    objects = render(helm_binary, VALUE_SETS["static"])
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects), check=True)
    token = plane.service_account_token("stowplan", "stowplan-static")
    account = "--as=system:serviceaccount:stowplan:stowplan-static"
    wait_for(
        "the role", lambda: plane.kubectl("auth", "can-i", "list", "nodes", account).returncode == 0
    )
    command = rendered_command(objects, "stowplan-static", tmp_path, free_port())
    command.append(f"--kubeconfig={plane.write_kubeconfig('static', token)}")
    plane.kubectl("label", "node", "n1", "rf.scheduler.databases.default/pinned=", check=True)
    with started(tmp_path / "log", command) as scheduler:
        create_pod(plane, "default", "pinned", scheduler_name="databases")
        wait_bound(plane, "default", "pinned")
        scheduler.stop()


def test_the_extender_of_the_chart_runs(helm_binary: Path, tmp_path: Path) -> None:
    """With an algorithm of the values; it asks no API server."""
    port = free_port()
    objects = render(helm_binary, VALUE_SETS["plugins"])
    command = rendered_command(objects, "stowplan-extender", tmp_path, port)
    with started(tmp_path / "log", command) as extender:
        client = unverified_access(f"http://127.0.0.1:{port}", "")

        def is_ready() -> bool:
            try:
                return bool(client.raw("GET", "/readyz"))
            except OSError:
                return False

        wait_for("the extender to answer", is_ready)
        names = {"Pod": {"metadata": {"name": "p"}}, "NodeNames": ["n1"]}
        assert '"n1"' in client.raw("POST", "/filter", names)
        extender.stop()
