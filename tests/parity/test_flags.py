"""The command line of the real kube-scheduler, and ours: flags, syntax, precedence, gates."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stowplan.cli.flags_table import SECTIONS
from stowplan.cli.kube_scheduler import kube_scheduler
from stowplan.cli.main import main
from stowplan.config.feature_gates import known_gates
from tests.controlplane_fixtures import require_binaries
from tests.parity.configuration_files import HEADER
from tests.parity.test_written_configuration import Json, expected

OURS = [sys.executable, "-m", "stowplan", "kube-scheduler"]


@pytest.fixture(scope="module")
def binary() -> Path:
    return require_binaries("kube-scheduler")["kube-scheduler"]


@pytest.fixture(scope="module")
def upstream_help(binary: Path) -> str:
    return subprocess.run(
        [binary, "--help"], check=True, capture_output=True, text=True, timeout=30
    ).stdout


def test_every_flag_is_there_and_none_besides(upstream_help: str) -> None:
    theirs: dict[str, tuple[str, str, str, str]] = {}
    section = ""
    for line in upstream_help.splitlines():
        if title := re.fullmatch(r"(\w[\w ]*) flags:", line):
            section = title[1]
        if flag := re.match(r" {2}(?:-(\w), | {4})--([a-z0-9-]+)(?: (\S+))? {2,}(.*)$", line):
            short, name, kind, text = flag.groups()
            default = re.search(r"\(default (.*)\)$", text)
            kind = (kind or "bool").removesuffix("[=true]")
            theirs[name] = (section, kind, default[1] if default else "", short or "")
    ours = {
        flag.name: (section, flag.kind, flag.default, flag.short)
        for section, flags in SECTIONS.items()
        for flag in flags
    }
    assert len(theirs) == 62
    assert ours == theirs


def test_feature_gates_are_those_of_the_help(upstream_help: str) -> None:
    listed = re.findall(r"kube:(\w+)=true\|false \((\w+) - default=(\w+)\)", upstream_help)
    ours = [
        (gate.name, gate.stage, str(gate.default).lower())
        for gate in known_gates().values()
        if gate.stage in ("ALPHA", "BETA")
    ]
    assert sorted(ours) == sorted(listed)


def test_all_gates_are_known_with_their_defaults(binary: Path) -> None:
    """The help does not list stable gates. Locked ones refuse all but their default."""
    gates = [gate for gate in known_gates().values() if not gate.name.startswith("All")]
    settings = ",".join(f"{gate.name}={str(gate.default).lower()}" for gate in gates)
    for command in ([binary], OURS):
        done = subprocess.run(
            [*command, f"--feature-gates={settings}", "--version"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


LINES = {
    "nothing": "",
    "two words": "-v 2 --secure-port 0",
    "joined short": "-v2",
    "short with =": "-v=2",
    "underscores": "--kube_api_qps=3",
    "booleans with =": "--leader-elect=f --profiling=0",
    "a boolean takes no word": "--leader-elect false",
    "an empty boolean": "--leader-elect=",
    "a wrong boolean": "--leader-elect=maybe",
    "an unknown flag": "--port=0",
    "an unknown letter": "-x",
    "a value is missing": "--config",
    "no name": "--=3",
    "an argument": "x",
    "a duration without a unit": "--leader-elect-lease-duration=15",
    "a duration": "--leader-elect-lease-duration=1m30s",
    "hexadecimal": "--secure-port=0x1",
    "a wrong number": "--secure-port=x",
    "beyond int32": "--kube-api-burst=99999999999",
    "a negative level": "-v=-1",
    "an address": "--bind-address=::1",
    "a name as address": "--bind-address=localhost",
    "lists": "--disabled-metrics=a,b --disabled-metrics=c --requestheader-allowed-names=",
    "labels": "--allow-metric-labels=metric1,label1=v1,v2",
    "labels without values": "--allow-metric-labels=metric1",
    "patterns": "--vmodule=a=1,b*=2,",
    "a pattern without level": "--vmodule=a",
    "a certificate": "--tls-sni-cert-key=a,b:example.com,*.example.com",
    "a certificate without key": "--tls-sni-cert-key=a",
    "curves": "--tls-curve-preferences=23,24",
    "a wrong curve": "--tls-curve-preferences=P256",
    "sizes": "--log-json-info-buffer-size=2Ki",
    "a wrong size": "--log-json-info-buffer-size=x",
    "gates": "--feature-gates=MemoryQoS=true,AllAlpha=false --feature-gates=PodsAPI=true",
    "gates of the component": "--feature-gates=kube:MemoryQoS=true",
    "gates with and without component": "--feature-gates=kube:MemoryQoS=true,AllAlpha=false",
    "an unknown gate": "--feature-gates=Nope=true",
    "a gate without value": "--feature-gates=MemoryQoS",
    "a wrong value of a gate": "--feature-gates=MemoryQoS=maybe",
    "a locked gate": "--feature-gates=PodSchedulingReadiness=false",
    "a gate that needs another": "--feature-gates=GangScheduling=true",
    "a gate that another needs": "--feature-gates=NodeDeclaredFeatures=false",
    "gates that need each other": "--feature-gates=GangScheduling=true,GenericWorkload=true",
    "all alpha gates": "--feature-gates=AllAlpha=true",
    "no beta gate": "--feature-gates=AllBeta=false",
    "another component": "--feature-gates=other:MemoryQoS=true",
    "another version": "--version=v1.2.3",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_the_same_lines_are_accepted(
    line: str, binary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--version ends both programs once the flags and gates are read."""
    words = ["--version", *line.split()]
    theirs = subprocess.run([binary, *words], capture_output=True, text=True, timeout=30)
    with pytest.raises(SystemExit) as ended:
        main(words, command=kube_scheduler, prog_name="kube-scheduler")
    shown = capsys.readouterr()
    assert (ended.value.code == 0) == (theirs.returncode == 0), theirs.stderr + shown.err
    if theirs.returncode == 0:
        assert shown.out.startswith(theirs.stdout.strip())
    else:
        assert ended.value.code == 2
        assert shown.err.splitlines()[-1].startswith("Error: ")
        told = re.search(r'err="(.*?)(, err:.*)?"$', theirs.stderr.strip().splitlines()[-1])
        for problem in told[1].split(", ") if told is not None else ():
            assert problem.strip("[]") in shown.err


@pytest.mark.parametrize(
    "line",
    [
        "--min-compatibility-version=kube=1.20",
        "--min-compatibility-version=kube=1.33",
        "--min-compatibility-version=1.36",
        "--min-compatibility-version=kube=1.37",
        "--min-compatibility-version=x",
        "--emulated-version=kube=1.35 --min-compatibility-version=kube=1.34",
        "--emulated-version=kube=1.35 --min-compatibility-version=kube=1.36",
        "--emulated-version=kube=1.32",
        "--emulated-version=kube=1.37",
        "--version=v1.36.3",
        "--version=v1.36.3-x",
        "--version=v1.36.3+x",
        "--version=v1.36.30",
        "--version=V1",
    ],
)
def test_the_same_versions_are_accepted(
    line: str, binary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A version that only is reported does not end the program."""
    words = [*line.split(), "--master=http://127.0.0.1:1", "--secure-port=0"]
    written = tmp_path / "theirs", tmp_path / "ours"
    theirs = subprocess.run(
        [binary, *words, f"--write-config-to={written[0]}"], capture_output=True, timeout=30
    )
    with pytest.raises(SystemExit) as ended:
        main([*words, f"--write-config-to={written[1]}"], command=kube_scheduler)
    assert (ended.value.code == 0) == (theirs.returncode == 0), capsys.readouterr().err
    assert written[0].exists() == written[1].exists() == (theirs.returncode == 0)


FILE = """
leaderElection: {leaderElect: true, resourceName: mine, leaseDuration: 20s}
clientConnection: {kubeconfig: {kubeconfig}, qps: 7, burst: 8}
enableProfiling: true
"""
DEPRECATED = (
    "--profiling=false",
    "--contention-profiling=false",
    "--kubeconfig={kubeconfig}",
    "--kube-api-content-type=application/json",
    "--kube-api-qps=12.5",
    "--kube-api-burst=13",
)
ELECTION = (
    "--leader-elect=false",
    "--leader-elect-lease-duration=30s",
    "--leader-elect-renew-deadline=25s",
    "--leader-elect-retry-period=3s",
    "--leader-elect-resource-name=theirs",
    "--leader-elect-resource-namespace=there",
    "--leader-elect-resource-lock=leases",
)


@pytest.mark.parametrize("text", [None, FILE, "profiles: [{schedulerName: second}]\n"])
@pytest.mark.parametrize("flags", [(), DEPRECATED, ELECTION, DEPRECATED + ELECTION])
def test_flags_and_file_make_the_same_configuration(
    text: str | None, flags: tuple[str, ...], binary: Path, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: a,"
        " contexts: [{name: a, context: {cluster: a, user: a}}],"
        " clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}],"
        " users: [{name: a, user: {}}]}"
    )
    words = [flag.replace("{kubeconfig}", str(kubeconfig)) for flag in flags]
    if text is not None:
        file = tmp_path / "config.yaml"
        file.write_text(HEADER + text.replace("{kubeconfig}", str(kubeconfig)))
        words.append(f"--config={file}")
    words += ["--master=http://127.0.0.1:1", "--secure-port=0"]
    subprocess.run(
        [binary, *words, f"--write-config-to={tmp_path / 'theirs'}"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main([*words, f"--write-config-to={tmp_path / 'ours'}"], command=kube_scheduler)
    assert ended.value.code == 0
    theirs: Json = yaml.safe_load((tmp_path / "theirs").read_text())
    ours: Json = yaml.safe_load((tmp_path / "ours").read_text())
    lease = theirs["leaderElection"]["resourceName"]
    theirs = expected(theirs, "")
    # In kube-scheduler's place a second profile asks for the same Lease as there.
    theirs["leaderElection"]["resourceName"] = lease
    assert ours == theirs
