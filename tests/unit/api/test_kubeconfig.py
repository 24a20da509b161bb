"""kubeconfig files as kubectl reads them; every mistake names its file and field."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.api.kubeconfig import ClusterConfig, in_cluster_config, load_cluster_config
from stowplan.errors import KubeconfigError

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("KUBE") or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def document(**changes: Any) -> dict[str, Any]:
    """A small valid kubeconfig; `cluster`, `user` and `context` change its entries."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [
            {"name": "c", "cluster": {"server": "https://c.test:6443"} | changes.get("cluster", {})}
        ],
        "users": [{"name": "u", "user": changes.get("user", {"token": "secret"})}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u"} | changes.get("context", {})}
        ],
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def load(path: Path, context: str | None = None) -> ClusterConfig:
    return load_cluster_config(kubeconfig=str(path), context=context)


def test_a_plain_file(tmp_path: Path) -> None:
    config = load(write(tmp_path / "config", document(context={"namespace": "team"})))
    assert config.server == "https://c.test:6443"
    assert config.token == "secret"
    assert config.namespace == "team"
    assert config.source == f"{tmp_path}/config (context main)"


def test_secrets_are_not_in_repr(tmp_path: Path) -> None:
    user = {"token": "s3cret", "client-certificate-data": b64(PEM), "client-key-data": b64(b"k3y")}
    text = repr(load(write(tmp_path / "config", document(user=user))))
    assert "s3cret" not in text
    assert "k3y" not in text


def test_namespace_is_default_unless_said(tmp_path: Path) -> None:
    assert load(write(tmp_path / "config", document())).namespace == "default"


def test_context_by_name(tmp_path: Path) -> None:
    content = document()
    content["contexts"].append({"name": "other", "context": {"cluster": "c", "user": "u2"}})
    content["users"].append({"name": "u2", "user": {"token": "two"}})
    assert load(write(tmp_path / "config", content), context="other").token == "two"


def test_json_is_yaml(tmp_path: Path) -> None:
    content = (
        '{"clusters":[{"name":"c","cluster":{"server":"https://x"}}],"users":[{"name":"u"}],'
        '"contexts":[{"name":"m","context":{"cluster":"c","user":"u"}}],"current-context":"m"}'
    )
    assert load(write(tmp_path / "config", content)).server == "https://x"


# Several files


def test_the_first_file_wins_a_name_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = document(cluster={"server": "https://first"})
    second = document(cluster={"server": "https://second", "tls-server-name": "not-merged"})
    paths = [write(tmp_path / "one", first), write(tmp_path / "two", second)]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, paths)))
    config = load_cluster_config()
    assert config.server == "https://first"
    assert config.tls_server_name == ""


def test_parts_come_from_different_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = document()
    write(tmp_path / "clusters", {"clusters": whole["clusters"], "current-context": ""})
    write(tmp_path / "rest", {"users": whole["users"], "contexts": whole["contexts"]})
    write(tmp_path / "current", {"current-context": "main", "clusters": None})
    write(tmp_path / "later", {"current-context": "ignored"})
    names = ["clusters", "missing", "rest", "", "current", "rest", "later"]
    chain = os.pathsep.join(str(tmp_path / name) if name else "" for name in names)
    monkeypatch.setenv("KUBECONFIG", chain)
    assert load_cluster_config().token == "secret"


def test_relative_paths_are_relative_to_their_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = document(
        cluster={"certificate-authority": "pki/ca.crt"},
        user={"client-certificate": "me.crt", "client-key": "../keys/me.key"},
    )
    (tmp_path / "a" / "pki").mkdir(parents=True)
    (tmp_path / "a" / "pki" / "ca.crt").write_bytes(PEM + b"ca")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "me.crt").write_bytes(PEM + b"me")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "me.key").write_bytes(b"key")
    write(tmp_path / "a" / "config", {"clusters": whole["clusters"]})
    write(
        tmp_path / "b" / "config",
        {key: whole[key] for key in ("users", "contexts", "current-context")},
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["a/config", "b/config"]))
    config = load_cluster_config()
    assert config.ca_data == PEM + b"ca"
    assert config.client_cert == PEM + b"me"
    assert config.client_key == b"key"


# Where to look


def test_an_explicit_file_beats_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = write(tmp_path / "env", document(cluster={"server": "https://env"}))
    monkeypatch.setenv("KUBECONFIG", str(env))
    explicit = write(tmp_path / "explicit", document(cluster={"server": "https://explicit"}))
    assert load(explicit).server == "https://explicit"
    assert load_cluster_config().server == "https://env"


def service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str = "10.0.0.1"
) -> Path:
    base = tmp_path / "serviceaccount"
    base.mkdir()
    (base / "token").write_text("sa-token\n")
    (base / "ca.crt").write_bytes(PEM)
    (base / "namespace").write_text("kube-system\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("stowplan.api.kubeconfig.SERVICE_ACCOUNT_PATH", str(base))
    return base


@pytest.mark.parametrize(
    ("host", "server"),
    [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")],
)
def test_in_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, server: str
) -> None:
    base = service_account(tmp_path, monkeypatch, host)
    config = in_cluster_config(str(base))
    assert config.server == server
    assert config.token_file == str(base / "token")
    assert config.ca_data == PEM
    assert config.namespace == "kube-system"
    assert config.source == "in-cluster"


def test_in_cluster_beats_home_and_a_context_beats_in_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "home" / ".kube" / "config", document(cluster={"server": "https://home"}))
    assert load_cluster_config().server == "https://home"
    service_account(tmp_path, monkeypatch)
    assert load_cluster_config().server == "https://10.0.0.1:443"
    assert load_cluster_config(context="main").server == "https://home"


def test_outside_a_pod_in_cluster_says_so() -> None:
    with pytest.raises(KubeconfigError, match="not running in a pod: KUBERNETES_SERVICE_HOST"):
        in_cluster_config()


def test_nothing_anywhere_tells_what_was_tried() -> None:
    with pytest.raises(KubeconfigError, match=r"KUBECONFIG is not set, not running in a pod"):
        load_cluster_config()


# Cluster and user fields


def test_data_wins_over_a_file_and_may_be_folded(tmp_path: Path) -> None:
    encoded = b64(PEM)
    folded = "\n".join(encoded[i : i + 16] for i in range(0, len(encoded), 16)) + "\n"
    cluster = {"certificate-authority": "not-there", "certificate-authority-data": folded}
    assert load(write(tmp_path / "config", document(cluster=cluster))).ca_data == PEM


def test_tls_settings(tmp_path: Path) -> None:
    cluster = {"tls-server-name": "kubernetes", "insecure-skip-tls-verify": True}
    config = load(write(tmp_path / "config", document(cluster=cluster)))
    assert config.tls_server_name == "kubernetes"
    assert config.insecure_skip_tls_verify


def test_token_file_is_kept_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file")
    config = load(write(tmp_path / "config", document(user={"tokenFile": "token"})))
    assert config.token_file == str(tmp_path / "token")
    assert config.token == ""


def test_impersonation(tmp_path: Path) -> None:
    user = {
        "token": "t",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"scopes": ["x", "z"]},
    }
    assert load(write(tmp_path / "config", document(user=user))).impersonate == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes", "x"),
        ("Impersonate-Extra-scopes", "z"),
    )


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://c.test:6443/", "https://c.test:6443"),
        ("https://c.test/k8s/clusters/c-1/", "https://c.test/k8s/clusters/c-1"),
        ("localhost:8080", "http://localhost:8080"),
    ],
)
def test_server_addresses(tmp_path: Path, server: str, expected: str) -> None:
    config = load(write(tmp_path / "config", document(cluster={"server": server})))
    assert config.server == expected


def test_plain_http_is_sent_no_credentials(tmp_path: Path) -> None:
    config = load(write(tmp_path / "config", document(cluster={"server": "http://c.test"})))
    assert config.token == ""


def test_master_replaces_the_address(tmp_path: Path) -> None:
    file = str(write(tmp_path / "config", document(context={"namespace": "team"})))
    config = load_cluster_config(kubeconfig=file, master="https://other.test:1/")
    assert (config.server, config.token) == ("https://other.test:1", "secret")
    plain = load_cluster_config(kubeconfig=file, master="http://other.test")
    assert (plain.server, plain.token, plain.namespace) == ("http://other.test", "", "team")


def test_master_alone_needs_no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/absent")
    config = load_cluster_config(master="127.0.0.1:8080")
    assert (config.server, config.source) == ("http://127.0.0.1:8080", "--master")


@pytest.mark.parametrize("master", ["ftp://x", "http://", "http://x:port"])
def test_a_wrong_master_is_told(master: str) -> None:
    with pytest.raises(KubeconfigError, match=r"^--master: "):
        load_cluster_config(master=master)


def test_exec_plugin(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["--now"],
        "env": [{"name": "A", "value": "1"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
        "installHint": "get it",
    }
    cluster = {
        "certificate-authority-data": b64(PEM),
        "proxy-url": "http://proxy:3128",
        "extensions": [
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
        ],
    }
    content = document(user={"exec": plugin}, cluster=cluster)
    resolved = load(write(tmp_path / "config", content)).exec
    assert resolved is not None
    assert resolved.command == f"{tmp_path}/bin/login"
    assert resolved.args == ("--now",)
    assert resolved.env == (("A", "1"),)
    assert resolved.cluster_info == {
        "server": "https://c.test:6443",
        "certificate-authority-data": b64(PEM),
        "proxy-url": "http://proxy:3128",
        "config": {"audience": "x"},
    }


def test_v1beta1_plugins_may_leave_the_interactive_mode_out(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}
    resolved = load(write(tmp_path / "config", document(user={"exec": plugin}))).exec
    assert resolved is not None
    assert resolved.interactive_mode == "IfAvailable"
    assert resolved.command == "login"
    assert resolved.cluster_info is None


def test_own_credentials_beat_a_plugin(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login"}
    user = {"exec": plugin, "username": "jane", "password": "pw"}
    config = load(write(tmp_path / "config", document(user=user)))
    assert config.exec is None
    assert (config.username, config.password) == ("jane", "pw")


# Proxies


def test_the_clusters_own_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://from-env:1")
    own = document(cluster={"proxy-url": "https://own:3128"})
    assert load(write(tmp_path / "config", own)).proxy_url == "https://own:3128"
    assert load(write(tmp_path / "config", document())).proxy_url == "http://from-env:1"


@pytest.mark.parametrize(
    ("server", "no_proxy", "is_used"),
    [
        ("https://c.test:6443", "", True),
        ("https://c.test:6443", "other.test", True),
        ("https://c.test:6443", "test", False),
        ("https://c.test:6443", ".test", False),
        ("https://c.test:6443", "c.test:6443", False),
        ("https://c.test:6443", "c.test:443", True),
        ("https://c.test:6443", "a, *", False),
        ("https://10.1.2.3", "10.0.0.0/8", False),
        ("https://11.1.2.3", "10.0.0.0/8", True),
        ("https://10.1.2.3", "10.1.2.3", False),
        ("https://[fd00::1]:6443", "fd00::/16", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://localhost:6443", "", False),
        ("https://[::1]:6443", "", False),
    ],
)
def test_proxy_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, no_proxy: str, is_used: bool
) -> None:
    monkeypatch.setenv("https_proxy", "proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    config = load(write(tmp_path / "config", document(cluster={"server": server})))
    assert config.proxy_url == ("http://proxy:3128" if is_used else "")


def test_a_proxy_of_the_environment_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://user:secret@proxy:1080")
    path = write(tmp_path / "config", document())
    with pytest.raises(KubeconfigError, match="HTTPS_PROXY: unsupported scheme 'socks5'") as caught:
        load(path)
    assert "secret" not in str(caught.value)


# Mistakes

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "interactiveMode": "Never"}

MISTAKES: list[tuple[Any, str]] = [
    ("a: [", r"config: is not YAML: line 2, column 1"),
    ("just text", r"config: is not a kubeconfig: a mapping is expected"),
    (b"\xff\xfe\xfa", r"config: is not YAML"),
    ({"kind": "Pod"}, r"config: kind: 'Pod' is not Config"),
    ({"apiVersion": "v2"}, r"config: apiVersion: 'v2' is not v1"),
    ({"clusters": 5}, r"config: clusters: Expected `array \| null`, got `int`"),
    (document(user={"token": 5}), r"config: users\[0\]\.user\.token: Expected `str`"),
    (
        {**document(), "users": [{"name": "u"}, {"name": "u"}]},
        r"config: users: 'u' is defined twice",
    ),
    ("", r"config: current-context: is not set; name one with --context"),
    (
        {**document(), "current-context": "gone"},
        r"config: current-context: there is no context 'gone' \(there are: main\)",
    ),
    (document(context={"cluster": ""}), r"config: contexts\[main\]\.cluster: is not set"),
    (
        document(context={"user": "nobody"}),
        r"config: contexts\[main\]\.user: there is no user 'nobody'",
    ),
    (document(cluster={"server": ""}), r"config: clusters\[c\]\.server: is not set"),
    (
        document(cluster={"server": "ftp://x"}),
        r"config: clusters\[c\]\.server: 'ftp://x' is not an http or https address",
    ),
    (document(cluster={"server": "https://x:port"}), r"config: clusters\[c\]\.server: .*[Pp]ort"),
    (
        document(cluster={"certificate-authority": "ca.crt"}),
        r"config: clusters\[c\]\.certificate-authority: cannot read .*/ca\.crt: No such file",
    ),
    (
        document(cluster={"certificate-authority-data": "%%%"}),
        r"config: clusters\[c\]\.certificate-authority-data: is not base64",
    ),
    (
        document(
            cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": b64(PEM)}
        ),
        r"config: clusters\[c\]\.insecure-skip-tls-verify: cannot be used together",
    ),
    (
        document(cluster={"proxy-url": "gopher://x"}),
        r"config: clusters\[c\]\.proxy-url: unsupported scheme 'gopher'",
    ),
    (
        document(user={"client-certificate-data": b64(PEM)}),
        r"config: users\[u\]\.client-key: must be set",
    ),
    (
        document(user={"token": "t", "username": "u"}),
        r"config: users\[u\]: a token and a username are both set",
    ),
    (
        document(user={"tokenFile": "gone"}),
        r"config: users\[u\]\.tokenFile: cannot read .*/gone: No such file",
    ),
    (
        document(user={"auth-provider": {"name": "oidc"}}),
        r"config: users\[u\]\.auth-provider: 'oidc' is not supported; use an exec plugin",
    ),
    (document(user={"as-groups": ["g"]}), r"config: users\[u\]\.as: must be set"),
    (
        document(user={"exec": EXEC | {"command": ""}}),
        r"config: users\[u\]\.exec\.command: is not set",
    ),
    (
        document(user={"exec": EXEC | {"apiVersion": "v1"}}),
        r"config: users\[u\]\.exec\.apiVersion: 'v1' is not one of client\.authentication",
    ),
    (
        document(user={"exec": EXEC | {"interactiveMode": ""}}),
        r"config: users\[u\]\.exec\.interactiveMode: '' is not one of Never, IfAvailable, Always",
    ),
    (
        document(user={"exec": EXEC | {"env": [{"value": "1"}]}}),
        r"config: users\[u\]\.exec\.env: a variable has no name",
    ),
]


@pytest.mark.parametrize(("content", "message"), MISTAKES)
def test_mistakes_name_file_and_field(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "config"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        write(path, content)
    with pytest.raises(KubeconfigError, match=message) as caught:
        load(path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KubeconfigError, match=f"{tmp_path}/gone: no such file"):
        load(tmp_path / "gone")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/one{os.pathsep}{tmp_path}/two")
    with pytest.raises(KubeconfigError, match=f"KUBECONFIG: no such file: {tmp_path}/one:"):
        load_cluster_config()


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=f"{tmp_path}: cannot be read: Is a directory"):
        load(tmp_path)
