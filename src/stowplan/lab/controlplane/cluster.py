"""`ControlPlane`: a private Kubernetes control plane, started and stopped in one piece.

Used by the e2e tests through the fixture in tests/controlplane_fixtures.py, by the benchmarks, and
by ``python -m stowplan.controlplane up``. What must stay true: it is all in one directory and on
loopback ports, several can run side by side, and after `stop` neither a process nor (unless the
caller named the directory) a file is left.
"""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from stowplan.lab.controlplane import components, credentials
from stowplan.lab.controlplane.api_access import ApiAccess, unverified_access
from stowplan.lab.controlplane.binaries import BinaryMissing, find_binary, missing_targets
from stowplan.lab.controlplane.components import HOST, ApiServerSettings
from stowplan.lab.controlplane.processes import ControlPlaneError, ServerProcess, free_port
from stowplan.lab.controlplane.targets import TARGET_BY_NAME

NEEDED_BINARIES = ("etcd", "kube-apiserver", "kubectl")
START_ATTEMPTS = 3
START_TIMEOUT = 90.0
KUBECTL_TIMEOUT = 60.0


class ControlPlane:
    """etcd and kube-apiserver, and on request the other servers of a control plane.

    Use it as a context manager, or call `start` and `stop`. By default those admission plugins are
    off that need kube-controller-manager; pass ``disabled_admission_plugins=()`` for none. The
    properties below have their values once it is started.
    """

    def __init__(
        self,
        *,
        directory: Path | None = None,
        disabled_admission_plugins: Sequence[str] = components.ADMISSION_NEEDING_CONTROLLERS,
        max_requests_inflight: int | None = None,
        max_mutating_requests_inflight: int | None = None,
        apiserver_flags: Sequence[str] = (),
    ) -> None:
        self._settings = ApiServerSettings(
            disabled_admission_plugins,
            max_requests_inflight,
            max_mutating_requests_inflight,
            apiserver_flags,
        )
        self._kept_directory = directory
        self._directory: Path | None = None
        self._admin = credentials.TokenUser(credentials.ADMIN, ("system:masters",))
        self._scheduler_user = credentials.TokenUser(credentials.KUBE_SCHEDULER)
        self._processes: list[ServerProcess] = []
        self._apiserver: ServerProcess | None = None
        self._etcd: ServerProcess | None = None
        self._api: ApiAccess | None = None
        self._ports = (0, 0)  # of kube-apiserver and of etcd
        self._etcd_peer_port = 0

    # -- life cycle ---------------------------------------------------------------------------

    def start(self) -> Self:
        """Start etcd and kube-apiserver and wait until the API is ready (a few seconds)."""
        missing = missing_targets(TARGET_BY_NAME[name] for name in NEEDED_BINARIES)
        if missing:
            raise BinaryMissing(target.name for target in missing)
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._start_once()
                return self
            except ControlPlaneError as error:
                self.stop()
                # Another process may take the port between its choice and its use.
                if attempt == START_ATTEMPTS or "address already in use" not in str(error):
                    raise
            except BaseException:
                self.stop()
                raise
        raise AssertionError("the last attempt returns or raises")

    def stop(self) -> None:
        """Stop everything that was started here, the latest first. Safe to call twice."""
        # A throw-away server needs no graceful shutdown. kube-apiserver's takes many seconds: it
        # waits for its clients to end their watches.
        grace = 0.0 if self._kept_directory is None else 5.0
        while self._processes:
            self._processes.pop().stop(grace)
        self._apiserver = self._etcd = None
        if self._directory is not None and self._kept_directory is None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # -- what a client needs to know ----------------------------------------------------------

    @property
    def directory(self) -> Path:
        """Where data, logs and kubeconfig files are."""
        if self._directory is None:
            raise ControlPlaneError("the control plane is not running")
        return self._directory

    @property
    def url(self) -> str:
        """The address of kube-apiserver; it stays the same over restarts."""
        return f"https://{HOST}:{self._ports[0]}"

    @property
    def etcd_url(self) -> str:
        """The address of etcd, which serves its gRPC API as JSON there, too."""
        return f"http://{HOST}:{self._ports[1]}"

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig file."""
        return self.directory / "admin.kubeconfig"

    @property
    def certificate_authority(self) -> Path:
        """The CA certificates that vouch for kube-apiserver, in PEM."""
        return self.directory / "certificates" / "apiserver.crt"

    @property
    def admin_token(self) -> str:
        """The bearer token of a member of system:masters."""
        return self._admin.token

    @property
    def api(self) -> ApiAccess:
        """Plain requests with the admin's rights."""
        if self._api is None:
            raise ControlPlaneError("the control plane is not running")
        return self._api

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the running servers, by name."""
        return {process.name: process.pid for process in self._processes if process.running}

    def check_running(self) -> None:
        """Raise ControlPlaneError if a server has ended by itself."""
        for process in self._processes:
            if not process.stopped:
                process.check_running()

    def log(self, name: str) -> str:
        """What a server has logged so far; `name` as in `pids`."""
        return (self.directory / "logs" / f"{name}.log").read_text(errors="replace")

    # -- access for others --------------------------------------------------------------------

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002 - the name that subprocess.run has for it
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the admin; with `check` an error status raises ControlPlaneError."""
        result = subprocess.run(
            [
                find_binary("kubectl"),
                f"--kubeconfig={self.kubeconfig}",
                f"--cache-dir={self.directory / 'kubectl-cache'}",
                *arguments,
            ],
            input=input,
            capture_output=True,
            text=True,
            timeout=KUBECTL_TIMEOUT,
            check=False,
        )
        if check and result.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)}: {result.stderr.strip()}")
        return result

    def service_account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        """A fresh token of an existing service account, by the TokenRequest API."""
        answer = self.api.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": seconds},
            },
        )
        token: str = answer["status"]["token"]
        return token

    def write_kubeconfig(self, name: str, token: str) -> Path:
        """Write a kubeconfig file for another user, such as a service account."""
        authority = self.certificate_authority.read_bytes()
        text = credentials.kubeconfig(self.url, authority, name, token)
        return self._write_secret(f"{name}.kubeconfig", text)

    # -- the other servers --------------------------------------------------------------------

    def start_controller_manager(
        self, *flags: str, controllers: str = components.CONTROLLERS
    ) -> ServerProcess:
        """Start kube-controller-manager, with the admin's rights."""
        port = free_port()
        command = components.kube_controller_manager(
            self.directory, self.kubeconfig, port, controllers
        )
        url = f"https://{HOST}:{port}"
        process = self._run("kube-controller-manager", [*command, *flags], url)
        return self._when_healthy(process, unverified_access(url))

    def start_scheduler(self, config_text: str | None = None, *flags: str) -> ServerProcess:
        """Start kube-scheduler under its usual name, with the rights a cluster gives it.

        `config_text` is a KubeSchedulerConfiguration in YAML without a clientConnection, or with
        one that says ``kubeconfig: {kubeconfig}``. The process's `url` serves its metrics.
        """
        port = free_port()
        kubeconfig = self.write_kubeconfig("kube-scheduler", self._scheduler_user.token)
        config = self.directory / f"kube-scheduler-{port}.yaml"
        config.write_text(components.kube_scheduler_config(config_text, kubeconfig))
        url = f"https://{HOST}:{port}"
        command = components.kube_scheduler(config, port, flags)
        process = self._run("kube-scheduler", command, url)
        # It is healthy before it has listed anything. Objects created then may come to it by its
        # lists, sorted by name, instead of by watches, in the order of creation.
        return self._when_healthy(process, unverified_access(url), "/readyz")

    def start_kwok(self, config_text: str | None = None, *flags: str) -> ServerProcess:
        """Start KWOK: every node turns Ready, every bound pod Running.

        `config_text` replaces KWOK's own stages.
        """
        port = free_port()
        config = None
        if config_text is not None:
            config = self.directory / f"kwok-{port}.yaml"
            config.write_text(config_text)
        url = f"http://{HOST}:{port}"
        command = components.kwok(self.kubeconfig, port, config)
        process = self._run("kwok", [*command, *flags], url)
        return self._when_healthy(process, unverified_access(url))

    def stop_apiserver(self, grace: float = 2.0) -> None:
        """Take kube-apiserver away; etcd keeps the state. With ``grace=0`` as by a crash."""
        if self._apiserver is not None:
            self._apiserver.stop(grace)
            self._processes.remove(self._apiserver)
            self._apiserver = None

    def start_apiserver(self) -> None:
        """Bring kube-apiserver back at the same address with the same state."""
        if self._apiserver is not None:
            raise ControlPlaneError("kube-apiserver is already running")
        command = components.kube_apiserver(self.directory, *self._ports, self._settings)
        process = self._run("kube-apiserver", command, self.url)
        self._apiserver = process
        # It makes its certificate when it starts for the first time.
        authority = self.certificate_authority
        process.wait_until(lambda: authority.exists() and _is_complete(authority), START_TIMEOUT)
        tls = ssl.create_default_context(cafile=str(authority))
        self._api = ApiAccess(self.url, tls, self.admin_token)
        self._when_healthy(process, self._api, "/readyz")
        # Being ready does not include the namespaces that every cluster has.
        self._when_healthy(process, self._api, "/api/v1/namespaces/default")

    def restart_apiserver(self, grace: float = 2.0) -> None:
        """Stop kube-apiserver and start it again; its watches end, its data stays."""
        self.stop_apiserver(grace)
        self.start_apiserver()

    def kill_etcd(self) -> None:
        """Take etcd away as by a crash; its data directory stays."""
        if self._etcd is not None:
            self._etcd.stop(grace=0)
            self._processes.remove(self._etcd)
            self._etcd = None

    def start_etcd(self) -> None:
        """Start etcd, or bring it back at the same address with the same data."""
        if self._etcd is not None:
            raise ControlPlaneError("etcd is already running")
        data = self.directory / "etcd"
        command = components.etcd(data, self._ports[1], self._etcd_peer_port)
        self._etcd = self._run("etcd", command, self.etcd_url)
        self._when_healthy(self._etcd, unverified_access(self.etcd_url), "/readyz")

    # -- inside -------------------------------------------------------------------------------

    def _start_once(self) -> None:
        if self._processes:
            raise ControlPlaneError("the control plane is already running")
        if self._kept_directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="stowplan-controlplane-"))
        else:
            self._directory = self._kept_directory.resolve()
        (self._directory / "logs").mkdir(parents=True, exist_ok=True)
        # In a directory that is used again the key stays, for the tokens signed with it.
        if not (self._directory / "service-account.key").exists():
            self._write_secret("service-account.key", credentials.service_account_key())
        users = [self._admin, self._scheduler_user]
        self._write_secret("tokens.csv", credentials.token_file(users))

        self._ports = (free_port(), free_port())
        self._etcd_peer_port = free_port()
        self.start_etcd()
        self.start_apiserver()
        self.write_kubeconfig("admin", self.admin_token)

    def _run(self, name: str, flags: Sequence[str], url: str) -> ServerProcess:
        taken = sum(process.name.split("#")[0] == name for process in self._processes)
        label = name if not taken else f"{name}#{taken + 1}"
        log = self.directory / "logs" / f"{label}.log"
        process = ServerProcess(label, [find_binary(name), *flags], log, url)
        self._processes.append(process)
        return process

    def _when_healthy(
        self, process: ServerProcess, access: ApiAccess, path: str = "/healthz"
    ) -> ServerProcess:
        process.wait_until(lambda: access.answers(path), START_TIMEOUT)
        return process

    def _write_secret(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path


def _is_complete(certificate: Path) -> bool:
    return certificate.read_bytes().rstrip().endswith(b"-----END CERTIFICATE-----")
