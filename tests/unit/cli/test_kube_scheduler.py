"""The `kube-scheduler` entry point: its flags, their warnings and errors, in this process."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeAlias

import pytest

import stowplan
from stowplan.cli.flag_values import (
    configured,
    metrics_filter,
    request_limits,
    serving_options,
    shown_versions,
)
from stowplan.cli.flags_table import FLAGS
from stowplan.cli.kube_scheduler import kube_scheduler
from stowplan.cli.kube_scheduler import main as kube_scheduler_main
from stowplan.cli.main import main
from stowplan.cli.pflag import parse_arguments
from stowplan.config.feature_gates import ALWAYS_ON, INTERNAL, MISSING, SWITCHED, known_gates
from stowplan.config.kubernetes_version import ShownVersions
from stowplan.config.load import default_config, parse_config
from stowplan.server.serving_options import ServingOptions, SniCertificate
from tools import flags_page

Run: TypeAlias = Callable[..., tuple[object, str, str]]

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words, command=kube_scheduler, prog_name="kube-scheduler")
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run


def written(tmp_path: Path) -> str:
    """Ends the program once all flags have been read and checked."""
    return f"--write-config-to={tmp_path / 'written.yaml'}"


def serving(*words: str) -> ServingOptions:
    flags = parse_arguments(words, FLAGS.values())
    return serving_options(
        flags, default_config(), bind_address="127.0.0.1", secure_port=10259, plain_port=0
    )


def test_help_lists_every_flag_once(run: Run) -> None:
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    shown = [word.rstrip(",") for word in out.split() if word.startswith("--")]
    for name in FLAGS.keys() - {"version"}:
        assert f"--{name}" in shown
    assert "Leader election flags:" in out
    assert run("-h") == (0, out, "")


def test_the_installed_program() -> None:
    (script,) = entry_points(group="console_scripts", name="kube-scheduler")
    assert script.load() is kube_scheduler_main


def test_version(run: Run) -> None:
    line = f"Kubernetes v1.36.3 (Stowplan {stowplan.__version__})\n"
    assert run("--version") == (0, line, "")
    code, out, _ = run("--version=raw")
    assert code == 0
    assert out.startswith('version.Info{Major:"1", Minor:"36", GitVersion:"v1.36.3"')


def test_kubeadms_line_is_accepted_without_warnings(run: Run, tmp_path: Path) -> None:
    conf = "/etc/kubernetes/scheduler.conf"
    assert run(
        f"--authentication-kubeconfig={conf}",
        f"--authorization-kubeconfig={conf}",
        "--bind-address=127.0.0.1",
        f"--kubeconfig={conf}",
        "--leader-elect=true",
        written(tmp_path),
    ) == (0, "", "")


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--contention-profiling", "there is no profile of blocking"),
        ("--emulated-version=kube=1.35", "Stowplan always behaves as v1.36"),
        ("--http2-max-streams-per-connection=5", "the endpoints speak HTTP/1.1 only"),
        ("--kube-api-content-type=application/cbor", "requests are always JSON"),
        ("--log-flush-frequency=1s", "each log line is written at once"),
        ("--show-hidden-metrics-for-version=1.35", "no metric is hidden"),
        ("--tls-curve-preferences=23", "OpenSSL chooses the key exchange"),
    ],
)
def test_a_flag_without_effect_is_told_once_with_its_reason(
    flag: str, reason: str, run: Run, tmp_path: Path
) -> None:
    code, _, err = run(flag, written(tmp_path))
    assert code == 0
    assert [line for line in err.splitlines() if f'reason="{reason}"' in line] == err.splitlines()
    assert len(err.splitlines()) == 1


def test_every_flag_without_effect_gives_a_reason_where_it_is_documented() -> None:
    page = flags_page.page()
    for flag in FLAGS.values():
        assert f"`--{flag.name}`" in page
        assert (f"**No effect**: {flag.without_effect}." in page) or not flag.without_effect


def test_the_page_of_flags_is_up_to_date() -> None:
    assert flags_page.PAGE.read_text() == flags_page.page(), "run `make docs`"


def test_deprecated_flags_that_yield_to_the_file_are_told(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEADER)
    code, _, err = run(
        f"--config={file}", "--kubeconfig=x", "--kube-api-qps=3", "-v=0", written(tmp_path)
    )
    assert code == 0
    assert len(err.splitlines()) == 2
    for flag in ("--kubeconfig", "--kube-api-qps"):
        assert f'flag="{flag}" reason="the configuration file decides"' in err


#: A value that is not the default, for each kind of flag.
OTHER_VALUES = {
    "bool": "false",
    "colonSeparatedMultimapStringString": "LoggingBetaOptions=true",
    "duration": "7s",
    "float32": "7",
    "int": "7",
    "int32": "7",
    "int32Slice": "23",
    "ip": "::1",
    "Level": "0",
    "namedCertKey": "a,b",
    "pattern=N,...": "a=1",
    "quantity": "0",
    "string": "x",
    "stringToString": "m,l=v",
    "strings": "x",
}
SPECIAL_VALUES = {
    "allow-metric-labels-manifest": "",
    "authorization-always-allow-paths": "/x",
    "emulated-version": "kube=1.36",
    "leader-elect-lease-duration": "30s",
    "leader-elect-renew-deadline": "14s",
    "leader-elect-resource-lock": "leases",
    "log-json-split-stream": "false",
    "log-text-split-stream": "false",
    "logging-format": "text",
    "min-compatibility-version": "kube=1.36",
    "show-hidden-metrics-for-version": "",
}
#: Upstream's deprecated flags with a field in the configuration.
YIELD_TO_THE_FILE = {
    "contention-profiling",
    "kube-api-burst",
    "kube-api-content-type",
    "kube-api-qps",
    "kubeconfig",
    "profiling",
}


@pytest.mark.parametrize(
    "name", sorted(FLAGS.keys() - {"config", "write-config-to", "help", "version"})
)
def test_precedence_of_every_flag_beside_a_file(name: str, run: Run, tmp_path: Path) -> None:
    """Six yield to the file, those of leader election win over it, all others apply."""
    file = tmp_path / "config.yaml"
    file.write_text(
        HEADER
        + "clientConnection: {qps: 20, burst: 30, kubeconfig: /k}\n"
        + "leaderElection: {resourceName: mine, resourceNamespace: there, leaseDuration: 20s}\n"
    )
    value = SPECIAL_VALUES.get(name, OTHER_VALUES[FLAGS[name].kind])
    results = []
    for flags in ((), (f"--{name}={value}",)):
        out = tmp_path / "written.yaml"
        code, _, err = run(f"--config={file}", f"--write-config-to={out}", *flags)
        assert code == 0, err
        results.append((out.read_text(), err))
    (without, _), (written, warning) = results
    yields = f'flag="--{name}" reason="the configuration file decides"' in warning
    assert yields == (name in YIELD_TO_THE_FILE)
    is_same = name == "leader-elect-resource-lock"  # there is one lock
    assert (written != without) == (name.startswith("leader-elect") and not is_same)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("GenericWorkload=true", "GenericWorkload=true has no effect: Stowplan does not have this"),
        ("SchedulerAsyncPreemption=false", "has no effect: Stowplan always has"),
        ("OpportunisticBatching=false", "it changes how kube-scheduler works inside"),
        ("MemoryQoS=true", "it is a feature of other components"),
        ("AllAlpha=true", "Stowplan's features do not depend on their stage"),
    ],
)
def test_a_gate_without_effect_is_told_once(
    setting: str, reason: str, run: Run, tmp_path: Path
) -> None:
    code, _, err = run(f"--feature-gates={setting}", written(tmp_path))
    assert code == 0
    assert reason in err
    assert len(err.splitlines()) == 1


def test_gates_at_their_defaults_are_silent(run: Run, tmp_path: Path) -> None:
    gates = "PodLevelResources=true,GangScheduling=false,LoggingBetaOptions=true"
    assert run(f"--feature-gates={gates}", written(tmp_path)) == (0, "", "")


def test_marked_gates_exist_and_are_marked_once() -> None:
    marked = [*SWITCHED, *ALWAYS_ON, *MISSING, *INTERNAL]
    assert len(marked) == len({*marked})
    assert {*marked} <= known_gates().keys()
    assert all(known_gates()[name].default for name in ALWAYS_ON)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--logging-format=xml",), 'Invalid value: "xml": Unsupported log format'),
        (
            ("--logging-format=json", "--feature-gates=LoggingBetaOptions=false"),
            "Log format json is disabled, see LoggingBetaOptions feature",
        ),
        (("--vmodule=a=1", "--logging-format=json"), "Only supported for text log format"),
        (("--log-json-split-stream",), "Feature LoggingAlphaOptions is disabled"),
        (("--leader-elect-resource-lock=endpoints",), "leaderElection.resourceLock"),
        (("--secure-port=99999",), "--secure-port: 99999 must be between 0 and 65535"),
        (("--show-hidden-metrics-for-version=1.2",), '"1.2" must be omitted or have the value'),
        (("--allow-metric-labels=a=b",), '--allow-metric-labels: "a" is not METRIC,LABEL'),
        (("--allow-metric-labels-manifest=/absent",), "/absent: cannot be read: No such file"),
        (("--emulated-version=1.20",), '"1.20" is not a version from kube=1.33 to kube=1.36'),
        (
            ("--min-compatibility-version=kube=1.20",),
            '--min-compatibility-version: "kube=1.20" is not a version from kube=1.33 to kube=1.36',
        ),
        (
            ("--emulated-version=1.35", "--min-compatibility-version=1.36"),
            '--min-compatibility-version: "1.36" is not a version from kube=1.33 to kube=1.35',
        ),
        (("--config=/absent",), "/absent: cannot be read: No such file"),
    ],
)
def test_mistakes_are_one_line(
    words: tuple[str, ...], problem: str, run: Run, tmp_path: Path
) -> None:
    code, out, err = run(*words, written(tmp_path))
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: ")
    assert problem in err


def test_the_flags_of_the_endpoints() -> None:
    options = serving(
        "--bind-address=::1",
        "--secure-port=0",
        "--tls-cert-file=c.pem",
        "--tls-private-key-file=k.pem",
        "--tls-cipher-suites=A,B",
        "--tls-min-version=VersionTLS13",
        "--tls-sni-cert-key=a.pem,a.key:a.example,*.b.example",
        "--tls-sni-cert-key=b.pem,b.key",
        "--client-ca-file=ca.pem",
        "--requestheader-client-ca-file=front.pem",
        "--requestheader-allowed-names=front-proxy,other",
        "--requestheader-username-headers=X-Remote-User,X-User",
        "--authentication-skip-lookup",
        "--authentication-token-webhook-cache-ttl=1m",
        "--authorization-always-allow-paths=/healthz",
        "--authorization-always-allow-paths=/metrics",
    )
    assert (options.bind_address, options.secure_port) == ("::1", 0)
    assert (options.tls_cert_file, options.tls_private_key_file) == (Path("c.pem"), Path("k.pem"))
    assert options.tls_cipher_suites == ("A", "B")
    assert options.tls_min_version == "VersionTLS13"
    assert options.tls_sni_cert_keys == (
        SniCertificate(Path("a.pem"), Path("a.key"), ("a.example", "*.b.example")),
        SniCertificate(Path("b.pem"), Path("b.key")),
    )
    assert options.client_ca_file == Path("ca.pem")
    assert options.requestheader.client_ca_file == Path("front.pem")
    assert options.requestheader.allowed_names == ("front-proxy", "other")
    assert options.requestheader.username_headers == ("x-remote-user", "x-user")
    assert options.authentication_skip_lookup
    assert options.authentication_token_cache_ttl_s == 60
    assert options.authorization_always_allow_paths == ("/healthz", "/metrics")
    assert options.flags["secure-port"] == "0"
    assert options.flags["leader-elect-resource-name"] == "kube-scheduler"


def test_defaults_of_the_endpoints_are_those_of_the_options() -> None:
    options = serving()
    assert options == ServingOptions(flags=options.flags)


def test_passwords_are_not_shown_among_the_flags() -> None:
    assert "secret" not in str(serving("--master=https://me:secret@example.com").flags)


@pytest.mark.parametrize(
    ("words", "file", "limits"),
    [
        ((), None, (0, 0)),
        (("--kube-api-qps=20",), None, (20, 100)),
        (("--kube-api-qps=50",), None, (50, 100)),
        (("--kube-api-burst=7",), None, (50, 7)),
        (("--kube-api-qps=0", "--kube-api-burst=0"), None, (5, 10)),
        (("--kube-api-qps=-1",), None, (0, 0)),
        ((), "", (0, 0)),
        ((), "clientConnection: {qps: 50, burst: 100}", (0, 0)),
        ((), "clientConnection: {qps: 20}", (20, 100)),
        ((), "clientConnection: {burst: 7}", (50, 7)),
        ((), "clientConnection: {qps: 2.5, burst: 3}", (2.5, 3)),
        ((), "clientConnection: {qps: -1}", (0, 0)),
        (("--kube-api-qps=1", "--kube-api-burst=2"), "", (0, 0)),
        (("--kube-api-qps=1", "--kube-api-burst=2"), "clientConnection: {qps: 20}", (20, 100)),
    ],
)
def test_limits_of_requests(
    words: tuple[str, ...], file: str | None, limits: tuple[float, int]
) -> None:
    flags = parse_arguments(words, FLAGS.values())
    has_file = file is not None
    config = parse_config(HEADER + file) if file is not None else default_config()
    connection = configured(config, flags, has_file=has_file).client_connection
    assert request_limits(flags, connection, has_file=has_file) == limits


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), ("1.36.3", "1.35")),
        (("--min-compatibility-version=kube=1.33",), ("1.36.3", "1.33")),
        (("--min-compatibility-version=1.36",), ("1.36.3", "1.36")),
        (("--emulated-version=kube=1.35",), ("1.36.3", "1.34")),
        (("--emulated-version=1.33",), ("1.36.3", "1.33")),
        (("--version=v1.36.3-ours",), ("1.36.3-ours", "1.35")),
    ],
)
def test_versions_that_are_reported(words: tuple[str, ...], shown: tuple[str, str]) -> None:
    flags = parse_arguments(words, FLAGS.values())
    assert shown_versions(flags) == ShownVersions(*shown)


def test_labels_of_a_manifest_yield_to_those_of_the_flag(tmp_path: Path) -> None:
    file = tmp_path / "allowed.yaml"
    file.write_text('allowListMapping: {"m,a": "1,2", "m,b": "3"}\n')
    words = (f"--allow-metric-labels-manifest={file}", "--allow-metric-labels=m,a=9")
    shown = metrics_filter(parse_arguments(words, FLAGS.values()))
    assert shown is not None
    assert shown.allowed == {"m": {"a": frozenset({"9"}), "b": frozenset({"3"})}}
