"""The flags of `stowplan extender`: what they become, and which are refused."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from stowplan.cli.extender import extender, main
from stowplan.errors import ConfigError
from stowplan.extender import serving
from stowplan.extender.configuration import Configured
from stowplan.extender.serving import DEFAULT_MAX_BODY, DEFAULT_PORT, ExtenderOptions
from stowplan.http.server_tls import TlsFiles
from tests.replacing import replace


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text("algorithm: !NOPAlgorithm\n")
    return f"--config={file}"


def options_of(monkeypatch: pytest.MonkeyPatch, *flags: str) -> ExtenderOptions:
    """What the command would have served with."""
    seen: list[ExtenderOptions] = []

    def run(configured: Configured, options: ExtenderOptions) -> int:
        assert type(configured.algorithm).__name__ == "NOPAlgorithm"
        seen.append(options)
        return 0

    replace(monkeypatch, serving, serving.run)(run)
    extender.main(list(flags), standalone_mode=False)
    return seen[0]


def test_defaults(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    assert options_of(monkeypatch, config) == ExtenderOptions()
    assert DEFAULT_PORT == 31800
    assert DEFAULT_MAX_BODY == 128 * 1024 * 1024


def test_the_largest_body_admits_5000_whole_nodes() -> None:
    assert DEFAULT_MAX_BODY / 5000 > 26 * 1024


def test_flags_become_options(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    flags = [
        "--bind-address=::1",
        "--port=0",
        "--socket=/run/x.sock",
        "--socket-mode=0600",
        "--tls-cert-file=a",
        "--tls-private-key-file=b",
        "--client-ca-file=c",
        "--token-file=d",
        "--max-body=64Mi",
        "--request-timeout=1m",
        "--algorithm-timeout=200ms",
        "--drain-timeout=0",
        "--workers=4",
    ]
    assert options_of(monkeypatch, config, *flags) == ExtenderOptions(
        bind_address="::1",
        port=0,
        socket=Path("/run/x.sock"),
        socket_mode=0o600,
        tls=TlsFiles(Path("a"), Path("b"), Path("c")),
        token_file=Path("d"),
        max_body=64 * 1024 * 1024,
        request_timeout_s=60.0,
        algorithm_timeout_s=0.2,
        drain_timeout_s=0.0,
        workers=4,
    )


def test_the_package_of_the_other_name_reads_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["wca-scheduler.pex"])
    monkeypatch.setenv("STOWPLAN_CONFIG", "no-such.yaml")
    with pytest.raises(SystemExit):
        main()
    assert "Cannot find configuration file: 'no-such.yaml'" in capsys.readouterr().err


def test_a_socket_instead_of_the_port(monkeypatch: pytest.MonkeyPatch, config: str) -> None:
    assert options_of(monkeypatch, config, "--socket=x").port is None
    assert options_of(monkeypatch, config, "--socket=x", "--port=31800").port == 31800


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (
            ["--tls-cert-file=a"],
            "--tls-cert-file, --tls-private-key-file: each needs the other",
        ),
        (["--client-ca-file=a"], "--client-ca-file: needs --tls-cert-file"),
        (["--request-timeout=0"], "--request-timeout: must be more than 0"),
        (["--algorithm-timeout=-1s"], "--algorithm-timeout: must be more than 0"),
        (["--drain-timeout=-1s"], "--drain-timeout: must not be less than 0"),
        (
            ["--client-ca-file=a", "--tls-cert-file=b", "--tls-private-key-file=c", "--socket=d"],
            "--client-ca-file: has no effect on a Unix socket; add --port, or let the proxy check "
            "certificates",
        ),
    ],
)
def test_flags_that_do_not_go_together(config: str, flags: list[str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        extender.main([config, *flags], standalone_mode=False)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    "flag",
    [
        "--max-body=x",
        "--max-body=10",
        "--socket-mode=888",
        "--socket-mode=abc",
        "--port=70000",
        "--workers=0",
        "--workers=65",
    ],
)
def test_values_that_are_none(config: str, flag: str) -> None:
    with pytest.raises(click.BadParameter):
        extender.main([config, flag], standalone_mode=False)


def test_the_help_states_the_limit_of_bodies(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        extender.main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "5,000 full nodes of 26 KiB each. [default: 128Mi]" in text
    assert "[default: 31800;" in text
