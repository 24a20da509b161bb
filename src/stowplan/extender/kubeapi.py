"""`!Kubeapi`: a cluster, followed by list and watch.

`cluster_data` reads its view of nodes and pods, `rescheduling` deletes pods by it. The WCA
scheduler listed all nodes and pods for every request; here a request costs the API server nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import SERVICE_ACCOUNT_PATH, ClusterConfig, load_cluster_config
from stowplan.api.objects import Pod
from stowplan.api.proxy_environment import proxy_from_environment
from stowplan.api.resources import NODES, PODS
from stowplan.api.tls import build_context
from stowplan.errors import ConfigError, StowplanError
from stowplan.extender import background
from stowplan.extender.cluster_view import ClusterView
from stowplan.extender.followers import Follower
from stowplan.extender.metrics import Metric
from stowplan.loader.numbers import whole_number

TOKEN_PATH: Final = f"{SERVICE_ACCOUNT_PATH}/token"
CA_PATH: Final = f"{SERVICE_ACCOUNT_PATH}/ca.crt"
_MIN_TIMEOUT_S: Final = 1.0
_MAX_TIMEOUT_S: Final = 60.0


class Kubeapi(Follower):
    """See the module. Without a host: $KUBECONFIG, the pod's service account, ~/.kube/config."""

    name = "kubeapi"

    def __init__(
        self,
        host: str | None = None,
        port: str | int | None = None,
        client_token_path: str | None = TOKEN_PATH,
        server_cert_ca_path: str | None = CA_PATH,
        timeout: float = 5.0,
        monitored_namespaces: list[str] | None = None,
        kubeconfig: str | None = None,
    ) -> None:
        """The first six are the WCA scheduler's. `timeout` is for deletions."""
        if not _MIN_TIMEOUT_S <= timeout <= _MAX_TIMEOUT_S:
            raise ConfigError(f"{timeout:g} is not from 1 to 60 seconds", where="timeout")
        namespaces = tuple(dict.fromkeys(monitored_namespaces or ["default"]))
        if not all(namespaces):
            raise ConfigError("a namespace has no name", where="monitored_namespaces")
        if host and kubeconfig:
            raise ConfigError("cannot be used together with host", where="kubeconfig")
        self.monitored_namespaces = namespaces
        self.view = ClusterView(namespaces)
        if host:
            config = _config(host, port, client_token_path, server_cert_ca_path)
        else:
            config = load_cluster_config(kubeconfig=kubeconfig)
        super().__init__(config, "reading the cluster")
        build_context(config)  # a CA that is none is a mistake in the configuration
        self._timeout_s = timeout
        self._failed_deletions = 0

    # A part that runs

    def _follow_all(self, client: ApiClient) -> None:
        view = self.view
        nodes = Informer(
            client,
            NODES,
            on_add=view.put_node,
            on_update=lambda _, node: view.put_node(node),
            on_delete=lambda node: view.remove_node(node.name),
        )
        self._follow("nodes", nodes)
        for namespace in self.monitored_namespaces:
            pods = Informer(
                client,
                PODS,
                namespace=namespace,
                on_add=view.put_pod,
                on_update=lambda _, pod: view.put_pod(pod),
                on_delete=view.remove_pod,
            )
            self._follow(f"pods in {namespace}", pods)

    def why_not_ready(self) -> str | None:
        missing = [
            f"{what} ({self._refusals[what]})" if what in self._refusals else what
            for what in self._unlisted()
        ]
        if missing:
            return f"not listed yet: {', '.join(missing)}"
        return None if self._informers else "not started"

    def measures(self) -> Iterable[Metric]:
        view = self.view
        yield Metric(background.KUBEAPI_SYNCED, int(self.is_synced))
        yield Metric(background.KUBEAPI_NODES, len(view.basics()))
        yield Metric(background.KUBEAPI_PODS, view.pod_count)
        yield Metric(background.KUBEAPI_PODS_WITHOUT_APP, view.pods_without_app)
        yield Metric(background.KUBEAPI_BAD_QUANTITIES, view.bad_quantities)
        yield Metric(background.KUBEAPI_ERRORS, self._troubles.count + self._failed_deletions)

    @property
    def cluster_config(self) -> ClusterConfig:
        """Address and credentials, for callers that watch more of the cluster."""
        return self._config

    @property
    def is_synced(self) -> bool:
        """Whether the view holds all that there is."""
        return bool(self._informers) and not self._unlisted()

    # What is written

    async def delete_pod(self, pod: Pod) -> None:
        """Exactly this one, not another that has got its name; StowplanError if that fails."""
        if self._client is None:
            raise StowplanError("the connection to the cluster is closed")
        metadata = pod.metadata
        try:
            await self._client.delete(
                PODS,
                metadata.name,
                namespace=metadata.namespace,
                uid=metadata.uid,
                timeout_s=self._timeout_s,
            )
        except StowplanError:
            self._failed_deletions += 1
            raise


def _config(
    host: str, port: str | int | None, token_path: str | None, ca_path: str | None
) -> ClusterConfig:
    scheme, _, address = host.rstrip("/").rpartition("://")
    scheme = scheme or "https"
    if scheme not in ("http", "https") or not address:
        raise ConfigError(f"{host!r} is not an http or https address", where="host")
    if port in (None, ""):
        port = 443 if scheme == "https" else 80
    if not 0 < (whole_number(str(port)) or 0) < 65536:
        raise ConfigError(f"{port!r} is not a port", where="port")
    if ":" in address and not address.startswith("["):
        address = f"[{address}]"
    server = f"{scheme}://{address}:{port}"
    if scheme == "http":  # no secrets over a line that anybody may read
        return ClusterConfig(server, proxy_url=proxy_from_environment(server), source="!Kubeapi")
    if token_path:
        _read(token_path, "client_token_path")
    return ClusterConfig(
        server,
        ca_data=_read(ca_path, "server_cert_ca_path") if ca_path else None,
        token_file=token_path or "",
        proxy_url=proxy_from_environment(server),
        source="!Kubeapi",
    )


def _read(path: str, where: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", where=where) from None
