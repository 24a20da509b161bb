"""Flags of the web console: addresses, and what a console with sign-in needs."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from stowplan.cli.console import console
from stowplan.cli.options import HostPort, host_port
from stowplan.cli.run import run
from stowplan.errors import ConfigError
from stowplan.server.serving_options import ConsoleOptions

KUBECONFIG = """\
{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
 "users": [{"name": "u", "user": {}}],
 "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]}
"""


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10270", "127.0.0.1", 10270),
        ("0", "127.0.0.1", 0),
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("[::1]:80", "::1", 80),
        (":80", "0.0.0.0", 80),
        ("localhost:80", "localhost", 80),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert host_port(text) == HostPort(host, port)
    assert host_port(str(host_port(text))) == HostPort(host, port)


@pytest.mark.parametrize("text", ["", "x", "all:1:x", "10.0.0.1", "1:70000", "10.0.0.1:"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not \\[ADDRESS:\\]PORT, such as 10270 or 0"):
        host_port(text)


@pytest.mark.parametrize(
    ("options", "has_sign_in"),
    [
        (ConsoleOptions(), False),
        (ConsoleOptions("localhost"), False),
        (ConsoleOptions("::1"), False),
        (ConsoleOptions("127.8.8.8"), False),
        (ConsoleOptions("0.0.0.0"), True),
        (ConsoleOptions("::"), True),
        (ConsoleOptions("10.0.0.1"), True),
        (ConsoleOptions("console.example.com"), True),
        (ConsoleOptions(token_file=Path("token")), True),
    ],
)
def test_beyond_loopback_users_sign_in(options: ConsoleOptions, has_sign_in: bool) -> None:
    assert options.has_sign_in is has_sign_in


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("secret", "--token-file: .* must hold one token of at least 20 letters"),
        ("", "must hold one token"),
        ("two tokens, each of many letters", "must hold one token"),
        (None, "cannot read .*/token: No such file or directory"),
    ],
)
def test_token_files_that_cannot_be_used(content: str | None, problem: str, tmp_path: Path) -> None:
    file, kubeconfig = tmp_path / "token", tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    if content is not None:
        file.write_text(content)
    command = ["--port=0", f"--token-file={file}", f"--kubeconfig={kubeconfig}"]
    done = CliRunner().invoke(console, command, standalone_mode=False)
    assert isinstance(done.exception, ConfigError)
    with pytest.raises(ConfigError, match=problem):
        raise done.exception


def test_flags_that_need_others(tmp_path: Path) -> None:
    done = CliRunner().invoke(console, ["--tls-cert-file=tls.crt"])
    assert (done.exit_code, "add --bind-address or --token-file" in done.output) == (2, True)
    done = CliRunner().invoke(run, ["--console-token-file=token"])
    assert (done.exit_code, "--console-token-file needs --console" in done.output) == (2, True)
    half = ["--bind-address=0.0.0.0", "--tls-cert-file=tls.crt", f"--token-file={tmp_path}/t"]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    done = CliRunner().invoke(console, [*half, f"--kubeconfig={kubeconfig}"], standalone_mode=False)
    assert "--tls-cert-file needs --tls-private-key-file" in str(done.exception)
