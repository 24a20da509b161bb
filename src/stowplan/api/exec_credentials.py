"""Run a client-go credential plugin (`users[].user.exec` of a kubeconfig) and read its output.

Called by `auth.ExecSource`, which caches the result. The contract is
client.authentication.k8s.io/v1 and v1beta1: the plugin gets its input in KUBERNETES_EXEC_INFO and
prints an ExecCredential of the same version. Every failure is an Unauthorized whose one line names
the plugin. Its stdout is never quoted, because it may hold secrets.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from stowplan.api.kubeconfig import ExecConfig
from stowplan.clock import parse_rfc3339
from stowplan.errors import Unauthorized
from stowplan.loader.json_text import UNREADABLE, load_json

_TIMEOUT_S = 120.0
_STDERR_SHOWN = 512


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


@dataclass(frozen=True)
class ExecAnswer:
    """What the plugin gave; `expires_at` is seconds since the epoch, None where it never does."""

    token: str
    client_cert: bytes | None
    client_key: bytes | None
    expires_at: float | None


async def run_plugin(plugin: ExecConfig, *, stdin_is_terminal: bool | None = None) -> ExecAnswer:
    """Run once; interactive plugins get the terminal."""
    if stdin_is_terminal is None:
        stdin_is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not stdin_is_terminal:
        raise _failure(plugin, "it must be interactive, and standard input is not a terminal")
    interactive = plugin.interactive_mode != "Never" and stdin_is_terminal
    stdout = await _output(plugin, _environment(plugin, interactive=interactive), interactive)
    return _read_answer(plugin, stdout)


def _environment(plugin: ExecConfig, *, interactive: bool) -> dict[str, str]:
    spec: dict[str, object] = {"interactive": interactive}
    if plugin.cluster_info is not None:
        spec = {"cluster": dict(plugin.cluster_info), **spec}
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    own: Mapping[str, str] = dict(plugin.env)
    return {
        **os.environ,
        **own,
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
    }


async def _output(plugin: ExecConfig, environment: dict[str, str], interactive: bool) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # A person at the terminal sees the prompts; otherwise they belong in our message.
            stderr=None if interactive else asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f". {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
        raise _failure(plugin, f"it cannot be run: {error.strerror}{hint}") from error
    try:
        async with asyncio.timeout(None if interactive else _TIMEOUT_S):
            stdout, stderr = await process.communicate()
    except TimeoutError as error:
        raise _failure(plugin, f"no answer within {_TIMEOUT_S:.0f} seconds") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = " ".join((stderr or b"").decode(errors="replace").split())[-_STDERR_SHOWN:]
        raise _failure(plugin, f"exit code {process.returncode}" + (f": {said}" if said else ""))
    return stdout


def _read_answer(plugin: ExecConfig, stdout: bytes) -> ExecAnswer:
    try:
        answer = load_json(stdout, _ExecCredential)
    except UNREADABLE as error:
        raise _failure(plugin, f"its output is not an ExecCredential: {error}") from error
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise _failure(
            plugin,
            f"it is configured for {plugin.api_version} and answered "
            f"{answer.kind or 'no kind'} of {answer.api_version or 'no apiVersion'}",
        )
    status = answer.status
    if status is None:
        raise _failure(plugin, "its answer has no status")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise _failure(plugin, "it returned a certificate without key or a key without certificate")
    if not status.token and not status.client_certificate_data:
        raise _failure(plugin, "it returned neither a token nor a certificate")
    expires_at = None
    if status.expiration_timestamp:
        try:
            expires_at = parse_rfc3339(status.expiration_timestamp)
        except ValueError as error:
            raise _failure(
                plugin, f"expirationTimestamp {status.expiration_timestamp!r} is not a time"
            ) from error
    return ExecAnswer(
        token=status.token,
        client_cert=status.client_certificate_data.encode() or None,
        client_key=status.client_key_data.encode() or None,
        expires_at=expires_at,
    )


def _failure(plugin: ExecConfig, problem: str) -> Unauthorized:
    return Unauthorized(
        f"getting credentials from exec plugin {plugin.command!r}: {problem}",
        reason="Unauthorized",
    )
