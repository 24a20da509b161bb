"""The cluster to use and its credentials: one kubeconfig context, or the pod's service account.

`load_cluster_config` is called once at start; `client`, `tls` and `auth` read the result. Order:
the file asked for, $KUBECONFIG (several files merged), in-cluster, ~/.kube/config. Every error in a
file is a KubeconfigError that names file and field. As in kubectl, credentials are never sent over
plain HTTP.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stowplan.api.kubeconfig_file import Cluster, Entry, Merged, User, read_files
from stowplan.api.proxy_environment import proxy_from_environment
from stowplan.errors import KubeconfigError
from stowplan.redaction import redact_url

EXEC_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
_PROXY_SCHEMES = ("http", "https")


@dataclass(frozen=True)
class ExecConfig:
    """A credential plugin; `cluster_info` is its input if provideClusterInfo is set, else None."""

    command: str
    api_version: str
    args: tuple[str, ...] = field(default=(), repr=False)  # may hold secrets
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    interactive_mode: str = "Never"
    install_hint: str = ""
    cluster_info: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ClusterConfig:
    """A resolved cluster and user. Secrets stay out of repr, hence out of logs."""

    server: str = field(repr=False)  # may hold a password
    ca_data: bytes | None = None
    client_cert: bytes | None = None
    client_key: bytes | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    exec: ExecConfig | None = None
    impersonate: tuple[tuple[str, str], ...] = ()
    namespace: str = "default"
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = field(default="", repr=False)  # may hold a password
    disable_compression: bool = False
    source: str = ""


def load_cluster_config(
    *, kubeconfig: str | None = None, context: str | None = None, master: str = ""
) -> ClusterConfig:
    """The cluster the user means; see the module's docstring for the order.

    `master` replaces the address of the API server. Without a kubeconfig that address is used
    without credentials, as kube-scheduler does.
    """
    if master:
        found = _from_file(kubeconfig, context) if kubeconfig else ClusterConfig(server="")
        return _at_master(found, master)
    if kubeconfig:
        return _from_file(kubeconfig, context)
    from_environment = os.environ.get("KUBECONFIG", "")
    if from_environment:
        names = dict.fromkeys(name for name in from_environment.split(os.pathsep) if name)
        return _from_files([Path(name) for name in names], context, chosen_by="KUBECONFIG")
    if not context and _is_in_cluster(SERVICE_ACCOUNT_PATH):
        return in_cluster_config(SERVICE_ACCOUNT_PATH)
    home = Path("~/.kube/config").expanduser()
    if home.exists():
        return _from_files([home], context)
    raise KubeconfigError(
        f"no cluster to talk to: no --kubeconfig, KUBECONFIG is not set, not running in a pod, "
        f"and {home} does not exist"
    )


def _from_file(kubeconfig: str, context: str | None) -> ClusterConfig:
    path = Path(kubeconfig)
    if not path.exists():
        raise KubeconfigError("no such file", where=str(path))
    return _from_files([path], context)


def _at_master(found: ClusterConfig, master: str) -> ClusterConfig:
    uses_tls = bool(found.ca_data or found.client_cert or found.insecure_skip_tls_verify)
    server = _server(master, "--master", uses_tls=uses_tls)
    source = f"--master, {found.source}" if found.source else "--master"
    if server.startswith("https://"):
        return replace(found, server=server, source=source)
    return ClusterConfig(
        server=server,
        impersonate=found.impersonate,
        namespace=found.namespace,
        proxy_url=found.proxy_url or _proxy(server),
        source=source,
    )


def _is_in_cluster(base_path: str) -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and Path(base_path, "token").exists()


def in_cluster_config(base_path: str = SERVICE_ACCOUNT_PATH) -> ClusterConfig:
    """The service account mounted into this pod."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError(
            "not running in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be set",
            where="in-cluster",
        )
    base = Path(base_path)
    token_file = base / "token"
    _read(token_file, "in-cluster: token")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace_file = base / "namespace"
    namespace = namespace_file.read_text().strip() if namespace_file.exists() else ""
    return ClusterConfig(
        server=server,
        ca_data=_read(base / "ca.crt", "in-cluster: ca.crt"),
        token_file=str(token_file),
        namespace=namespace or "default",
        proxy_url=_proxy(server),
        source="in-cluster",
    )


def _from_files(paths: list[Path], context: str | None, *, chosen_by: str = "") -> ClusterConfig:
    merged = read_files(paths)
    if not merged.files:
        listed = os.pathsep.join(str(path) for path in paths)
        raise KubeconfigError(f"no such file: {listed}", where=chosen_by)
    name = context or merged.current_context
    if not name:
        raise KubeconfigError(
            "is not set; name one with --context or `kubectl config use-context`",
            where=f"{merged.name}: current-context",
        )
    chosen = merged.contexts.get(name)
    if chosen is None:
        known = ", ".join(sorted(merged.contexts)) or "none"
        field_name = "contexts" if context else "current-context"
        raise KubeconfigError(
            f"there is no context {name!r} (there are: {known})",
            where=f"{merged.name}: {field_name}",
        )
    where = f"{chosen.file}: contexts[{name}]"
    cluster_name, user_name = chosen.value.cluster, chosen.value.user
    cluster = _named(merged.clusters, cluster_name, where, "cluster", merged)
    user = _named(merged.users, user_name, where, "user", merged)
    return _resolve(
        cluster,
        f"{cluster.file}: clusters[{cluster_name}]",
        user,
        f"{user.file}: users[{user_name}]",
        namespace=chosen.value.namespace or "default",
        source=f"{merged.name} (context {name})",
    )


def _named(
    entries: Mapping[str, Entry[Any]], name: str, where: str, kind: str, merged: Merged
) -> Entry[Any]:
    if not name:
        raise KubeconfigError("is not set", where=f"{where}.{kind}")
    if name not in entries:
        raise KubeconfigError(
            f"there is no {kind} {name!r} in {merged.name}", where=f"{where}.{kind}"
        )
    return entries[name]


def _resolve(
    cluster_entry: Entry[Cluster],
    cluster_at: str,
    user_entry: Entry[User],
    user_at: str,
    *,
    namespace: str,
    source: str,
) -> ClusterConfig:
    cluster, user = cluster_entry.value, user_entry.value
    ca_data = _data_or_file(
        cluster_entry,
        cluster_at,
        "certificate-authority",
        cluster.certificate_authority_data,
        cluster.certificate_authority,
    )
    if ca_data and cluster.insecure_skip_tls_verify:
        raise KubeconfigError(
            "cannot be used together with a certificate authority",
            where=f"{cluster_at}.insecure-skip-tls-verify",
        )
    uses_tls = bool(
        ca_data
        or cluster.insecure_skip_tls_verify
        or user.client_certificate
        or user.client_certificate_data
    )
    server = _server(cluster.server, f"{cluster_at}.server", uses_tls=uses_tls)
    shared: dict[str, Any] = {
        "server": server,
        "ca_data": ca_data,
        "namespace": namespace,
        "tls_server_name": cluster.tls_server_name,
        "insecure_skip_tls_verify": cluster.insecure_skip_tls_verify,
        "proxy_url": _proxy(server, cluster.proxy_url, f"{cluster_at}.proxy-url"),
        "disable_compression": cluster.disable_compression,
        "impersonate": _impersonation(user, user_at),
        "source": source,
    }
    credentials = _credentials(user_entry, user_at)
    if server.startswith("http://"):
        return ClusterConfig(**shared)
    has_own = any(
        credentials[name] for name in ("token", "token_file", "username", "password", "client_cert")
    )
    if user.exec is not None and not has_own:
        exec_config = _exec(user_entry, f"{user_at}.exec", cluster, shared)
        return ClusterConfig(**shared, exec=exec_config)
    return ClusterConfig(**shared, **credentials)


def _server(server: str, where: str, *, uses_tls: bool) -> str:
    if not server:
        raise KubeconfigError("is not set", where=where)
    if "://" not in server:
        server = f"{'https' if uses_tls else 'http'}://{server}"
    try:
        parts = urlsplit(server)
        _ = parts.port  # raises where the port is not a number
    except ValueError:
        # The error would quote the port, which may be a part of a password.
        raise KubeconfigError(
            f"{redact_url(server)!r}: the address or the port is not valid", where=where
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise KubeconfigError(
            f"{redact_url(server)!r} is not an http or https address", where=where
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _proxy(server: str, configured: str = "", where: str = "") -> str:
    """The proxy the cluster names, else the one the environment names; empty for none."""
    proxy_url = configured or proxy_from_environment(server)
    scheme = urlsplit(proxy_url).scheme
    if proxy_url and scheme not in _PROXY_SCHEMES:
        raise KubeconfigError(
            f"unsupported scheme {scheme!r}, use an http or https proxy",
            where=where if configured else "HTTPS_PROXY",
        )
    return proxy_url


def _credentials(entry: Entry[User], where: str) -> dict[str, Any]:
    user = entry.value
    if user.auth_provider is not None:
        raise KubeconfigError(
            f"{user.auth_provider.name!r} is not supported; use an exec plugin",
            where=f"{where}.auth-provider",
        )
    if user.token and (user.username or user.password):
        raise KubeconfigError(
            "a token and a username are both set, only one is allowed", where=where
        )
    client_cert = _data_or_file(
        entry,
        where,
        "client-certificate",
        user.client_certificate_data,
        user.client_certificate,
    )
    client_key = None
    if client_cert is not None:
        client_key = _data_or_file(
            entry, where, "client-key", user.client_key_data, user.client_key
        )
        if client_key is None:
            raise KubeconfigError(
                "must be set, because a client certificate is", where=f"{where}.client-key"
            )
    token_file = ""
    if user.token_file:
        token_path = entry.resolve(user.token_file)
        token_file = str(token_path)
        if not user.token:
            _read(token_path, f"{where}.tokenFile")
    return {
        "client_cert": client_cert,
        "client_key": client_key,
        "token": user.token,
        "token_file": token_file,
        "username": user.username,
        "password": user.password,
    }


def _impersonation(user: User, where: str) -> tuple[tuple[str, str], ...]:
    if not user.as_user:
        if user.as_uid or user.as_groups or user.as_user_extra:
            raise KubeconfigError(
                "must be set, because a uid, groups or extras are", where=f"{where}.as"
            )
        return ()
    headers = [("Impersonate-User", user.as_user)]
    if user.as_uid:
        headers.append(("Impersonate-Uid", user.as_uid))
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    for key, values in (user.as_user_extra or {}).items():
        headers += [(f"Impersonate-Extra-{key}", value) for value in values]
    return tuple(headers)


def _exec(
    entry: Entry[User], where: str, cluster: Cluster, shared: Mapping[str, Any]
) -> ExecConfig:
    plugin = entry.value.exec
    assert plugin is not None
    if not plugin.command:
        raise KubeconfigError("is not set", where=f"{where}.command")
    if plugin.api_version not in EXEC_API_VERSIONS:
        raise KubeconfigError(
            f"{plugin.api_version!r} is not one of {', '.join(EXEC_API_VERSIONS)}",
            where=f"{where}.apiVersion",
        )
    mode = plugin.interactive_mode
    if not mode and plugin.api_version.endswith("/v1beta1"):
        mode = "IfAvailable"
    if mode not in _INTERACTIVE_MODES:
        raise KubeconfigError(
            f"{mode!r} is not one of {', '.join(_INTERACTIVE_MODES)}",
            where=f"{where}.interactiveMode",
        )
    if any(not variable.name for variable in plugin.env or ()):
        raise KubeconfigError("a variable has no name", where=f"{where}.env")
    command = plugin.command
    if "/" in command:
        command = str(entry.resolve(command))
    info = _exec_cluster_info(cluster, shared) if plugin.provide_cluster_info else None
    return ExecConfig(
        command=command,
        api_version=plugin.api_version,
        args=plugin.args or (),
        env=tuple((variable.name, variable.value) for variable in plugin.env or ()),
        interactive_mode=mode,
        install_hint=plugin.install_hint,
        cluster_info=info,
    )


def _exec_cluster_info(cluster: Cluster, shared: Mapping[str, Any]) -> dict[str, Any]:
    ca_data = shared["ca_data"]
    info = {
        "server": shared["server"],
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(ca_data).decode() if ca_data else "",
        "proxy-url": shared["proxy_url"],
        "disable-compression": cluster.disable_compression,
    }
    return {key: value for key, value in info.items() if value} | {"config": cluster.exec_extension}


def _data_or_file(entry: Entry[Any], where: str, name: str, data: str, path: str) -> bytes | None:
    """Inline data wins over a file, as in kubectl."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise KubeconfigError("is not base64", where=f"{where}.{name}-data") from error
    if path:
        return _read(entry.resolve(path), f"{where}.{name}")
    return None


def _read(path: Path, where: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"cannot read {path}: {error.strerror}", where=where) from error
    if not content.strip():
        raise KubeconfigError(f"{path} is empty", where=where)
    return content
