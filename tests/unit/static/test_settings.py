"""The two profiles, and the cluster that is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.config.types import POINTS
from stowplan.errors import KubeconfigError
from stowplan.plugins.static_placement.labels import PinLabels
from stowplan.scheduler.access import rights_for
from stowplan.static import credentials
from stowplan.static.credentials import find_cluster
from stowplan.static.settings import StaticSettings, make_engine

KUBECONFIG = (
    "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
    "clusters: [{{name: c, cluster: {{server: 'http://{}:1'}}}}]\n"
    "users: [{{name: c, user: {{}}}}]\n"
    "contexts: [{{name: c, context: {{cluster: c, user: c}}}}]\n"
)


def test_strict_is_the_label_and_nothing_else() -> None:
    engine, binder = make_engine(StaticSettings(name="test"))
    assert list(engine.profiles) == ["test"]
    profile = engine.profiles["test"]
    plugins = {
        point: [plugin.name for plugin in found] for point in POINTS if (found := profile.at(point))
    }
    assert plugins == {
        "preEnqueue": ["SchedulingGates"],
        "queueSort": ["PrioritySort"],
        "preFilter": ["StaticPlacement"],
        "filter": ["StaticPlacement"],
        "bind": ["StaticBinder"],
        "postBind": ["StaticPlacement", "StaticBinder"],
    }
    assert profile.at("bind") == [binder]
    assert profile.tie_break_seed is not None, "chance chooses"
    assert engine.looked_up() == []


def test_with_respect_the_defaults_have_their_say_but_nobody_is_evicted() -> None:
    engine, binder = make_engine(StaticSettings(name="test", respect_node_state=True))
    profile = engine.profiles["test"]
    names = set(profile.plugins)
    assert {"NodeUnschedulable", "TaintToleration", "NodeResourcesFit", "StaticPlacement"} <= names
    assert not names & {"DefaultPreemption", "DefaultBinder"}
    assert profile.at("bind") == [binder]
    deletes = {right.resource for right in rights_for(engine.plugins()) if "delete" in right.verbs}
    assert deletes == {"resourceclaims"}


def test_the_prefix_reaches_the_plugin() -> None:
    settings = StaticSettings(name="test", prefix="pins.example.com")
    engine, _ = make_engine(settings)
    plugin = engine.profiles["test"].plugins["StaticPlacement"]
    labels = PinLabels("test", "pins.example.com")
    assert getattr(plugin, "labels", None) == settings.labels == labels


def test_no_delay_is_still_a_pause() -> None:
    assert StaticSettings(delay_s=0.0).round_s == 0.1
    assert StaticSettings(delay_s=2.5).round_s == 2.5


# Credentials


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without anything; nothing in the environment."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT_PATH", str(tmp_path / "mounted"))
    return tmp_path


def kubeconfig(directory: Path, host: str) -> str:
    directory.mkdir(exist_ok=True, parents=True)
    (directory / "config").write_text(KUBECONFIG.format(host))
    return str(directory / "config")


def token(directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    directory.mkdir()
    (directory / "token").write_text("secret")
    (directory / "ca.crt").write_text("certificate")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return str(directory)


def test_the_order_in_which_a_cluster_is_looked_for(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KubeconfigError) as nothing:
        find_cluster(None, None)
    assert str(nothing.value) == (
        "No kubeconfig or token found: no --kubeconfig, KUBECONFIG is not set, there is no "
        f"{place}/mounted/token, and no {place}/home/.kube/config"
    )
    kubeconfig(place / "home" / ".kube", "home")
    assert find_cluster(None, None).server == "http://home:1"
    token(place / "mounted", monkeypatch)
    assert find_cluster(None, None).server == "https://10.0.0.1:443"
    elsewhere = token(place / "elsewhere", monkeypatch)
    assert find_cluster(None, elsewhere).token_file == f"{elsewhere}/token"
    monkeypatch.setenv("KUBECONFIG", kubeconfig(place / "env", "env"))
    assert find_cluster(None, elsewhere).server == "http://env:1"
    flag = kubeconfig(place / "flag", "flag")
    assert find_cluster(flag, elsewhere).server == "http://flag:1"


def test_what_was_asked_for_must_be_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubeconfig(place / "home" / ".kube", "home")
    with pytest.raises(KubeconfigError, match=r"^/nope: no such file$"):
        find_cluster("/nope", None)
    with pytest.raises(KubeconfigError, match="there is no token in /nope"):
        find_cluster(None, "/nope")
    lonely = place / "lonely"
    lonely.mkdir()
    (lonely / "token").write_text("secret")
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST"):
        find_cluster(None, str(lonely))
    monkeypatch.setenv("KUBECONFIG", "/nope/config")
    with pytest.raises(KubeconfigError, match=r"^KUBECONFIG: no such file: /nope/config$"):
        find_cluster(None, None)
