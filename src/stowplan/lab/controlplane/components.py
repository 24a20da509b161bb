"""The command line of each server in a control plane.

Called by `ControlPlane`, which supplies the ports and files. Pure: nothing is started or read here.
Every flag that is not obvious says why it is set. What must stay true: everything listens on the
loopback interface only, and the servers' own defaults stay where tests and benchmarks do not need
otherwise, because the point is to meet the real thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
SERVICE_ACCOUNT_ISSUER = "https://kubernetes.default.svc"

# Without kube-controller-manager, no service account exists for the first plugin to find, and the
# not-ready taint that the second adds to each new node is never removed.
ADMISSION_NEEDING_CONTROLLERS = ("ServiceAccount", "TaintNodesByCondition")

# What Kubernetes' own scheduler_perf benchmark switches off.
ADMISSION_OFF_IN_SCHEDULER_PERF = ("ServiceAccount", "TaintNodesByCondition", "Priority")

# The excluded controllers need a cloud provider or the configuration of a pod network.
CONTROLLERS = "*,-nodeipam,-cloud-node-lifecycle,-node-route-controller"


@dataclass(frozen=True)
class ApiServerSettings:
    """What a caller may choose about kube-apiserver."""

    disabled_admission_plugins: Sequence[str] = ADMISSION_NEEDING_CONTROLLERS
    max_requests_inflight: int | None = None
    max_mutating_requests_inflight: int | None = None
    extra_flags: Sequence[str] = ()

    def flags(self) -> list[str]:
        flags = []
        if self.disabled_admission_plugins:
            flags.append(f"--disable-admission-plugins={','.join(self.disabled_admission_plugins)}")
        if self.max_requests_inflight is not None:
            flags.append(f"--max-requests-inflight={self.max_requests_inflight}")
        if self.max_mutating_requests_inflight is not None:
            flags.append(f"--max-mutating-requests-inflight={self.max_mutating_requests_inflight}")
        return [*flags, *self.extra_flags]


def etcd(data: Path, client_port: int, peer_port: int) -> list[str]:
    client, peer = f"http://{HOST}:{client_port}", f"http://{HOST}:{peer_port}"
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # The data is thrown away with the control plane; waiting for the disk would only hide the
        # latency that is to be measured.
        "--unsafe-no-fsync",
        # Room for a benchmark with many thousand pods before the first compaction.
        f"--quota-backend-bytes={8 << 30}",
        "--log-level=warn",
    ]


def kube_apiserver(
    directory: Path, port: int, etcd_port: int, settings: ApiServerSettings
) -> list[str]:
    key = directory / "service-account.key"
    return [
        f"--etcd-servers=http://{HOST}:{etcd_port}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        # Otherwise it looks for a default route, which a sandbox need not have.
        f"--advertise-address={HOST}",
        # The endpoints of the `kubernetes` service may not be loopback addresses: do not try.
        "--endpoint-reconciler-type=none",
        f"--cert-dir={directory / 'certificates'}",
        f"--service-account-issuer={SERVICE_ACCOUNT_ISSUER}",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--token-auth-file={directory / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",
        *settings.flags(),
    ]


def kube_controller_manager(
    directory: Path, kubeconfig: Path, port: int, controllers: str
) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--controllers={controllers}",
        "--leader-elect=false",
        f"--service-account-private-key-file={directory / 'service-account.key'}",
        # The default of 20 requests a second makes a test wait for its own pods.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def kube_scheduler(config: Path, port: int, flags: Sequence[str] = ()) -> list[str]:
    open_paths = "--authorization-always-allow-paths"
    # The flag is a list that grows when it is given twice, so the default must stay out of the way.
    is_given = any(flag.startswith(open_paths) for flag in flags)
    return [
        f"--config={config}",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        "--leader-elect=false",
        # Benchmarks read its metrics without a token.
        *([] if is_given else [f"{open_paths}=/healthz,/readyz,/livez,/metrics"]),
        *flags,
    ]


def kube_scheduler_config(text: str | None, kubeconfig: Path) -> str:
    """A KubeSchedulerConfiguration that connects to our API server.

    `text` is YAML in block style. Where it has a clientConnection of its own (to raise its rate of
    requests, say), that says ``kubeconfig: {kubeconfig}`` and the path is put in there.
    """
    if text is None:
        text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    if "clientConnection:" in text:
        return text.replace("{kubeconfig}", str(kubeconfig))
    return f'{text.rstrip()}\nclientConnection:\n  kubeconfig: "{kubeconfig}"\n'


def kwok(kubeconfig: Path, port: int, config: Path | None) -> list[str]:
    flags = [
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=true",
        f"--server-address={HOST}:{port}",
        f"--node-ip={HOST}",
        # A kubelet's own value. Without leases kube-controller-manager takes every node for dead
        # when its grace period is over.
        "--node-lease-duration-seconds=40",
    ]
    return flags if config is None else [*flags, f"--config={config}"]
