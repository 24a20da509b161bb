"""The pure parts of `stowplan.lab.controlplane`: keys, versions, flags, texts. Nothing is built."""

from __future__ import annotations

import base64
import dataclasses
import fcntl
import io
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from stowplan.lab.controlplane import __main__ as command_line
from stowplan.lab.controlplane import binaries, build, components, credentials, progress, targets
from stowplan.lab.controlplane.processes import free_port
from stowplan.lab.controlplane.toolchain import is_new_enough, parse_go_version

GO_MOD = """\
module example.test/x

go 1.26.0

tool example.test/a/cmd/tool

require example.test/direct v1.0.0

require (
	example.test/a v1.2.3 // indirect
	example.test/b v0.1.0
)

replace example.test/b => example.test/b v0.1.1
"""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)
    return path


@pytest.mark.parametrize(
    ("text", "version", "usable"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8), True),
        ("go version go1.26rc1 linux/arm64", (1, 26, 0), True),
        ("go version devel go1.27-1a2b3c4 linux/amd64", (1, 27, 0), True),
        ("go version go1.9.7 linux/amd64", (1, 9, 7), False),
        ("go version go2.0 plan9/386", (2, 0, 0), True),
        ("gccgo (GCC) 13.2", None, False),
        ("", None, False),
    ],
)
def test_go_version(text: str, version: tuple[int, int, int] | None, usable: bool) -> None:
    assert parse_go_version(text) == version
    assert is_new_enough(version) is usable


def test_required_modules_ignore_what_links_nothing() -> None:
    tidied = GO_MOD.replace("// indirect", "").replace("tool example.test/a/cmd/tool", "")
    moved = "require example.test/direct v1.0.0\n"
    tidied = tidied.replace(moved, "").replace("require (\n", "require (\n\t" + moved[8:])
    assert targets.required_modules(tidied) == targets.required_modules(GO_MOD)
    bumped = GO_MOD.replace("v0.1.1", "v0.1.2")
    assert targets.required_modules(bumped) != targets.required_modules(GO_MOD)


def test_cache_key_follows_the_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    key = targets.cache_key()
    assert len(key) == 16
    monkeypatch.setattr(targets, "BUILD_FLAGS", ("-race",))
    targets.cache_key.cache_clear()
    try:
        assert targets.cache_key() != key
    finally:
        monkeypatch.undo()
        targets.cache_key.cache_clear()
    assert targets.cache_key() == key


def test_a_tool_with_its_own_key_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of Helm must not rebuild kube-apiserver."""
    key, helm = targets.cache_key(), targets.TARGET_BY_NAME["helm"]
    first = targets.file_name(helm)
    assert first.startswith("helm-")
    for name in ("go.mod", "go.sum"):
        text = (targets.HELM.directory / name).read_text()
        (tmp_path / name).write_text(text.replace("helm.sh/helm/v3 v3.", "helm.sh/helm/v3 v3.9"))
    bumped = dataclasses.replace(targets.HELM, directory=tmp_path)
    monkeypatch.setattr(targets, "HELM", bumped)
    monkeypatch.setattr(targets, "MODULES", (*targets.MODULES[:-1], bumped))
    targets.cache_key.cache_clear()
    assert targets.cache_key() == key
    assert targets.file_name(dataclasses.replace(helm, module=bumped)) != first


def test_the_collector_is_named_by_its_pins_and_by_our_main_package(tmp_path: Path) -> None:
    collector = targets.TARGET_BY_NAME["otelcol"]
    first = targets.file_name(collector)
    assert first.startswith("otelcol-")
    assert collector.sources is not None
    source = (collector.sources / "main.go").read_text()
    (tmp_path / "main.go").write_text(f"{source}// changed\n")
    assert targets.file_name(dataclasses.replace(collector, sources=tmp_path)) != first
    (tmp_path / "main.go").write_text(source)
    assert targets.file_name(dataclasses.replace(collector, sources=tmp_path)) == first
    for name in ("go.mod", "go.sum"):
        text = (collector.sources / name).read_text()
        (tmp_path / name).write_text(
            text.replace("collector/otelcol v0.", "collector/otelcol v0.9")
        )
    bumped = dataclasses.replace(collector.module, directory=tmp_path)
    assert targets.file_name(dataclasses.replace(collector, module=bumped)) != first


def test_helm_knows_its_version_and_that_of_kubernetes() -> None:
    flags = targets.ldflags(targets.HELM)
    assert f"helm/v3/internal/version.version={targets.pinned_version(targets.HELM)}" in flags
    assert "helm/v3/pkg/chartutil.k8sVersionMinor=36" in flags


def test_versions_come_from_the_go_mod_files() -> None:
    assert targets.pinned_version(targets.KUBERNETES).startswith("v1.36.")
    flags = targets.ldflags(targets.KUBERNETES)
    version = targets.pinned_version(targets.KUBERNETES)
    assert f"k8s.io/component-base/version.gitVersion={version}" in flags
    assert "version.gitMinor=36" in flags
    assert targets.ldflags(targets.ETCD) == targets.STRIP_LDFLAGS


def test_staging_modules_match_the_kubernetes_release() -> None:
    text = (targets.KUBERNETES.directory / "go.mod").read_text()
    staging = targets.pinned_version(targets.KUBERNETES).replace("v1.", "v0.")
    replaced = [line.split() for line in text.splitlines() if "=>" in line]
    assert len(replaced) > 25
    assert {words[-1] for words in replaced} == {staging}


def test_a_program_of_ours_is_named_after_its_source(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text("package main")
    target = targets.BuildTarget("oracle", targets.KUBERNETES, "./oracle", "oracle", tmp_path)
    first = targets.file_name(target)
    (tmp_path / "main_test.go").write_text("package main")
    assert targets.file_name(target) == first
    (tmp_path / "main.go").write_text("package main // edited")
    assert targets.file_name(target) != first
    assert targets.file_name(targets.TARGET_BY_NAME["etcd"]) == "etcd"


def test_cache_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOWPLAN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert binaries.cache_root() == Path("/somewhere/cache/stowplan/controlplane")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert binaries.cache_root() == Path.home() / ".cache" / "stowplan" / "controlplane"
    monkeypatch.setenv("STOWPLAN_CACHE", "/elsewhere")
    assert binaries.cache_root() == Path("/elsewhere/controlplane")


def test_assets_come_before_the_cache(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(binaries.BinaryMissing, match=r"no etcd on this .*`make controlplane`"):
        binaries.find_binary("etcd")
    cached = executable(binaries.cache_directory() / "etcd")
    assert binaries.find_binary("etcd") == cached
    ready_made = executable(tmp_path / "assets" / "etcd")
    executable(tmp_path / "assets" / "informer")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert binaries.find_binary("etcd") == ready_made
    missing = [target.name for target in binaries.missing_targets()]
    assert "etcd" not in missing
    assert "informer" in missing, "a program of ours comes from this checkout only"


def test_command_line_names_what_is_missing(
    empty_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["path"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "kube-apiserver" in captured.err
    assert command_line.main(["status"]) == 1
    assert capsys.readouterr().out.count("missing") == len(targets.TARGETS)
    for target in targets.TARGETS:
        executable(binaries.cache_directory() / targets.file_name(target))
    assert command_line.main(["path", "kubectl"]) == 0
    assert capsys.readouterr().out == f"{binaries.cache_directory() / 'kubectl'}\n"
    assert command_line.main(["build"]) == 0, "nothing to do, so neither Go nor network is needed"
    assert command_line.main(["clean", "--stale"]) == 0
    assert command_line.main(["path"]) == 0
    assert command_line.main(["clean"]) == 0
    assert command_line.main(["path"]) == 1


@pytest.mark.parametrize("value", ["etcd,kube-proxy", ","])
def test_unknown_names_are_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["build", "--only", value])
    assert "there is: etcd, kube-apiserver" in capsys.readouterr().err


def test_progress_line() -> None:
    assert progress.describe("Compiling x", 0, 900, "", 3) == "Compiling x, 3s"
    line = progress.describe("Compiling x", 120, 900, "k8s.io/api/core/v1", 61)
    assert line == (
        "Compiling x: 120 packages compiled, at most 780 to go, 1m01s [k8s.io/api/core/v1]"
    )
    assert progress.describe("Fetching x", 7, 0, "a v1", 9) == "Fetching x: 7, 9s [a v1]"


def test_a_piped_stream_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_INTERVAL_S", 0.01)
    stream = io.StringIO()
    with progress.BuildProgress(stream) as reporter:
        reporter.step("Compiling x", total=5)
        reporter.advance("a/b")
        while stream.getvalue().count("\n") < 3:
            pass
    lines = stream.getvalue().splitlines()
    assert lines[0] == "Compiling x, 0s"
    assert lines[1].startswith("Compiling x: 1 packages compiled, at most 4 to go, 0s [a/b]")
    assert "\r" not in stream.getvalue()


def test_output_of_go_is_told_apart() -> None:
    assert build.is_package_path("k8s.io/api/core/v1")
    assert build.is_package_path("internal/cpu")
    for message in ("# k8s.io/api", "go: downloading x v1", "./main.go:3:1: syntax error", ""):
        assert not build.is_package_path(message)


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("go: x@v1: Get: dial tcp: lookup proxy: no such host", "GOPROXY"),
        ("write /tmp/x: no space left on device", "disk is full"),
        ("k8s.io/api: compile: signal: killed", "memory"),
        ("./main.go:3:1: syntax error", "run the same command again"),
    ],
)
def test_failures_come_with_advice(message: str, advice: str) -> None:
    text = build.explain_failure("kubernetes", 1, ["first", message])
    assert text.startswith("building kubernetes failed (go exited with 1):\nfirst\n")
    assert message in text
    assert advice in text


def test_lock_is_exclusive(empty_cache: Path) -> None:
    exclusively = fcntl.LOCK_EX | fcntl.LOCK_NB
    with (empty_cache / "lock").open("a") as other:
        lock = build.build_lock(empty_cache, progress.BuildProgress(io.StringIO()))
        with lock, pytest.raises(BlockingIOError):
            fcntl.flock(other, exclusively)
        fcntl.flock(other, exclusively)


def test_service_account_key_is_a_p256_key() -> None:
    key = load_pem_private_key(credentials.service_account_key().encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"
    assert credentials.service_account_key() != credentials.service_account_key()


def test_kubeconfig_carries_its_authority() -> None:
    text = credentials.kubeconfig("https://127.0.0.1:1", b"PEM", "system:x", "secret")
    loaded = yaml.safe_load(text)
    authority = loaded["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(authority) == b"PEM"
    assert loaded["users"][0] == {"name": "system:x", "user": {"token": "secret"}}


def test_apiserver_flags() -> None:
    default = components.ApiServerSettings().flags()
    assert default == ["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]
    chosen = components.ApiServerSettings((), 800, 400, ["--v=2"]).flags()
    assert chosen == [
        "--max-requests-inflight=800",
        "--max-mutating-requests-inflight=400",
        "--v=2",
    ]


def test_scheduler_config_gets_a_connection() -> None:
    path = Path("some.kubeconfig")
    own = "kind: X\nclientConnection:\n  qps: 5000\n  kubeconfig: {kubeconfig}\n"
    assert "kubeconfig: some.kubeconfig" in components.kube_scheduler_config(own, path)
    added = components.kube_scheduler_config("kind: X", path)
    assert added == 'kind: X\nclientConnection:\n  kubeconfig: "some.kubeconfig"\n'
    assert "KubeSchedulerConfiguration" in components.kube_scheduler_config(None, path)


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) == 20
    assert max(ports) < 32768
