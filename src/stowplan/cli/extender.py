"""`stowplan extender`: serve a user's algorithm to kube-scheduler over HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from stowplan.cli.options import PORT, duration, file_option, logging_options
from stowplan.config.durations import Duration
from stowplan.errors import ConfigError

_DEFAULT_PORT: Final = 31800
_SMALLEST_BODY: Final = 1024


def _size(value: object) -> int:
    """Parse a Kubernetes quantity into bytes: 1048576, 1Mi, 64M."""
    from stowplan.api.quantity import parse_quantity

    try:
        size = value if isinstance(value, int) else parse_quantity(str(value)).value()
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if size < _SMALLEST_BODY:
        raise click.BadParameter(f"{value} is less than {_SMALLEST_BODY} bytes")
    return size


def _mode(value: object) -> int:
    """Parse file permissions in octal."""
    text = str(value)
    if not text.isascii() or not text.isdigit() or set(text) - set("01234567") or len(text) > 4:
        raise click.BadParameter(f"{text!r} is not an octal file mode such as 660")
    return int(text, 8) & 0o777


_FILE: Final = click.Path(path_type=Path)


@click.command()
@click.option(
    "--config",
    "config_file",
    type=_FILE,
    metavar="FILE",
    required=True,
    help="YAML file with the algorithm, its data and the loggers; see docs/extender.md.",
)
@click.option(
    "--plugins",
    type=_FILE,
    metavar="DIR",
    multiple=True,
    allow_from_autoenv=False,
    help="Folder with Python modules and packages of your own, for `algorithms:` in the "
    "configuration. Can be given several times; STOWPLAN_PLUGINS=DIR:DIR adds more.",
)
@click.option(
    "--bind-address",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0 or :: for all interfaces.",
)
@click.option(
    "--port",
    type=PORT,
    default=_DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--socket",
    "socket_path",
    type=_FILE,
    metavar="PATH",
    help="Listen on this Unix socket, for a proxy in front. Then a port is open only if --port is "
    "given.",
)
@click.option(
    "--socket-mode",
    type=_mode,
    metavar="MODE",
    default="660",
    show_default=True,
    help="Permissions of the socket.",
)
@file_option(
    "--tls-cert-file",
    "Serve HTTPS with this certificate and its chain. This file and the three below are "
    "reloaded when they change.",
)
@file_option("--tls-private-key-file", "Private key of the certificate.")
@file_option(
    "--client-ca-file",
    "Accept clients with a certificate signed by one of these CAs; reject others.",
)
@file_option(
    "--token-file",
    "Accept clients with a bearer token from this file, one token per line; reject others. "
    "With --client-ca-file, either is enough.",
)
@click.option(
    "--max-body",
    type=_size,
    metavar="SIZE",
    default="128Mi",
    show_default=True,
    help="Maximum size of a request body. The default fits 5,000 full nodes of 26 KiB each.",
)
@click.option(
    "--request-timeout",
    type=duration,
    default="30s",
    show_default=True,
    help="Time limit for a client to send a request or to read a response.",
)
@click.option(
    "--algorithm-timeout",
    type=duration,
    default="5s",
    show_default=True,
    help="Time limit for an algorithm that runs in a thread.",
)
@click.option(
    "--drain-timeout",
    type=duration,
    default="10s",
    show_default=True,
    help="Time limit for requests in progress after SIGTERM.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of worker processes; connections go to them in turn. More than one needs Linux.",
)
@logging_options
@click.pass_context
def extender(
    ctx: click.Context,
    config_file: Path,
    plugins: tuple[Path, ...],
    bind_address: str,
    port: int,
    socket_path: Path | None,
    socket_mode: int,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    client_ca_file: Path | None,
    token_file: Path | None,
    max_body: int,
    request_timeout: Duration,
    algorithm_timeout: Duration,
    drain_timeout: Duration,
    workers: int,
) -> int:
    """Serve your algorithm to kube-scheduler as a scheduler extender.

    Serves /filter, /prioritize, /preempt and /bind (the first two also below /api/scheduler),
    /mutate, /reschedule, /status, /healthz, /readyz and /metrics. On SIGTERM or Ctrl-C it finishes
    the requests in progress and exits with code 0.
    """
    from stowplan.extender.configuration import add_plugin_folders, apply_loggers, load
    from stowplan.extender.serving import ExtenderOptions, run
    from stowplan.http.server_tls import TlsFiles

    for value, flag in (
        (request_timeout, "--request-timeout"),
        (algorithm_timeout, "--algorithm-timeout"),
    ):
        if value <= 0:
            raise ConfigError("must be more than 0", where=flag)
    if drain_timeout < 0:
        raise ConfigError("must not be less than 0", where="--drain-timeout")
    tls = None
    if tls_cert_file is not None and tls_private_key_file is not None:
        tls = TlsFiles(tls_cert_file, tls_private_key_file, client_ca_file)
    elif tls_cert_file is not None or tls_private_key_file is not None:
        raise ConfigError("each needs the other", where="--tls-cert-file, --tls-private-key-file")
    elif client_ca_file is not None:
        raise ConfigError("needs --tls-cert-file", where="--client-ca-file")
    has_port = socket_path is None or (
        ctx.get_parameter_source("port") is not click.core.ParameterSource.DEFAULT
    )
    if client_ca_file is not None and not has_port:
        raise ConfigError(
            "has no effect on a Unix socket; add --port, or let the proxy check certificates",
            where="--client-ca-file",
        )
    # In addition to the flag: an image sets the variable, and a manifest the flag.
    more = os.environ.get("STOWPLAN_PLUGINS", "").split(os.pathsep)
    add_plugin_folders([*plugins, *(Path(folder) for folder in more if folder)])
    configured = load(config_file)
    apply_loggers(configured.loggers, {type(part).__module__ for part in configured.parts})
    return run(
        configured,
        ExtenderOptions(
            bind_address=bind_address,
            port=port if has_port else None,
            socket=socket_path,
            socket_mode=socket_mode,
            tls=tls,
            token_file=token_file,
            max_body=max_body,
            request_timeout_s=request_timeout,
            algorithm_timeout_s=algorithm_timeout,
            drain_timeout_s=drain_timeout,
            workers=workers,
        ),
    )


def main() -> None:
    """Run the entry point of dist/wca-scheduler.pex."""
    from stowplan.cli.main import main

    main(command=extender, prog_name=Path(sys.argv[0]).name)
