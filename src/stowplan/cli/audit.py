"""`stowplan audit`: what schedulers did to a cluster, against what Kubernetes promises."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from stowplan import __version__
from stowplan.audit.findings import KINDS, Options, Report
from stowplan.audit.text import report_text
from stowplan.cli.options import duration, file_option, kubeconfig_options
from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.clock import SystemClock
from stowplan.config.durations import Duration
from stowplan.config.fields import did_you_mean
from stowplan.loader.files import read_input
from stowplan.loader.malformed import LARGE

EXIT_FINDINGS: Final = 1
_PROGRESS_AFTER_S: Final = 1.0
_USER_AGENT: Final = f"stowplan/{__version__} audit"


def _kinds(context: click.Context, parameter: click.Parameter, value: Any) -> frozenset[str]:
    """Names of kinds, repeated or joined by commas."""
    chosen = [name.strip() for text in value for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in KINDS:
            hint = did_you_mean(name, set(KINDS))
            raise click.BadParameter(f"{name!r} is no kind of finding{hint}; see --help")
    return frozenset(chosen)


@click.command(
    epilog="Kinds of findings: "
    + "; ".join(f"{name}: {text}" for name, text in KINDS.items())
    + "."
)
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    help="Audit the objects of a file that `kubectl get ... -o yaml` wrote; - is standard input.",
)
@click.option(
    "--etcd", metavar="URL", help="Audit every binding in the history of the etcd at this address."
)
@click.option("--etcd-cacert", metavar="FILE", default="", help="CA of the certificate of --etcd.")
@click.option("--etcd-cert", metavar="FILE", default="", help="Client certificate for --etcd.")
@click.option("--etcd-key", metavar="FILE", default="", help="Private key of --etcd-cert.")
@file_option(
    "--history",
    "Audit a history that --save-history wrote.",
)
@file_option(
    "--save-history",
    "Also write the history of --etcd to a file.",
)
@file_option(
    "--audit-log",
    "Audit log of kube-apiserver, beside --etcd or --history: finds bindings carried out "
    "twice, and who bound a pod. Can be repeated.",
    multiple=True,
)
@click.option(
    "--only", multiple=True, metavar="KIND", callback=_kinds, help="Report these kinds only."
)
@click.option("--ignore", multiple=True, metavar="KIND", callback=_kinds, help="Leave out kinds.")
@click.option(
    "--certain",
    is_flag=True,
    help="Leave out findings that may have become so after the pod was bound.",
)
@click.option(
    "--scheduler-name",
    multiple=True,
    metavar="NAME",
    help="Report pods of this scheduler only. Can be repeated.",
)
@click.option(
    "--since",
    type=duration,
    metavar="DURATION",
    default="0s",
    help="Report only pods that were bound, or wait, since then, such as 1h. Default: all.",
)
@click.option(
    "--grace",
    type=duration,
    metavar="DURATION",
    default="1m",
    show_default=True,
    help="How long a pod that fits may be pending, and a Scheduled event may take.",
)
@click.option(
    "--event-ttl",
    type=duration,
    metavar="DURATION",
    default="1h",
    show_default=True,
    help="How long kube-apiserver keeps events (its flag --event-ttl).",
)
@click.option(
    "--in-flight",
    type=duration,
    metavar="DURATION",
    default="5s",
    show_default=True,
    help="With a history: how long a binding may be under way. What others change in that time is "
    "not a fault of the scheduler.",
)
@output_option()
@kubeconfig_options
def audit(
    filename: str | None,
    etcd: str | None,
    etcd_cacert: str,
    etcd_cert: str,
    etcd_key: str,
    history: Path | None,
    save_history: Path | None,
    audit_log: tuple[Path, ...],
    only: frozenset[str],
    ignore: frozenset[str],
    certain: bool,
    scheduler_name: tuple[str, ...],
    since: Duration,
    grace: Duration,
    event_ttl: Duration,
    in_flight: Duration,
    output: OutputFormat | None,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Check what schedulers did to a cluster: double binds, overcommit, broken rules.

    \b
      $ stowplan audit
      $ stowplan audit --since 1h --scheduler-name default-scheduler
      $ kubectl get nodes,pods,ns,pvc,pv,csinodes,events -A -o json | stowplan audit -f -
      $ stowplan audit --etcd http://127.0.0.1:2379 --audit-log audit.log

    Finds pods that were bound twice, nodes that hold more than they have, pods that stand where a
    rule forbids it or wait although there is a place, and bindings without an event.

    Audits a live cluster, a file of objects, or everything in etcd's history; nothing is written.
    Works for every scheduler: rules are those of Kubernetes, checked by code that no scheduler of
    ours uses. A live cluster shows only what is left; where a rule may have been broken by a later
    change, the finding says so. Exits with 0 if there is nothing to report and with 1 if there is.
    """
    if sum(each is not None for each in (filename, etcd, history)) > 1:
        raise click.UsageError("Choose one of --filename, --etcd and --history.")
    is_history = etcd is not None or history is not None
    if audit_log and not is_history:
        raise click.UsageError("--audit-log goes with --etcd or --history.")
    if save_history is not None and etcd is None:
        raise click.UsageError("--save-history goes with --etcd.")
    options = Options(
        only=only,
        ignore=ignore,
        schedulers=frozenset(scheduler_name),
        certain=certain,
        since_s=since,
        grace_s=grace,
        event_ttl_s=event_ttl,
        in_flight_s=in_flight,
    )

    from stowplan.present.status_line import StatusLine

    line = StatusLine(sys.stderr, delay_s=_PROGRESS_AFTER_S)
    try:
        if is_history:
            from stowplan.audit.etcd import Etcd

            source = (
                Etcd(etcd, ca_file=etcd_cacert, cert_file=etcd_cert, key_file=etcd_key)
                if etcd
                else None
            )
            report = _audit_history(source, history, save_history, audit_log, options, line.update)
        else:
            report = _audit_objects(filename, kubeconfig, context, options, line.update)
    finally:
        line.erase()
    if output is None:
        click.echo(report_text(report), nl=False)
    else:
        print_object(msgspec.to_builtins(report), output)
    return EXIT_FINDINGS if report.findings else 0


def _audit_history(
    etcd: Any,
    history: Path | None,
    save: Path | None,
    logs: Sequence[Path],
    options: Options,
    progress: Callable[[str], None],
) -> Report:
    from stowplan.audit.audit_log import read_audit_log
    from stowplan.audit.etcd import read_history, save_history
    from stowplan.audit.history import audit_history

    revisions = read_history(history) if history is not None else etcd.history()
    if save is not None:
        revisions = save_history(revisions, save)
    requests = chain.from_iterable(map(read_audit_log, logs))
    return audit_history(revisions, requests=requests, options=options, progress=progress)


def _audit_objects(
    filename: str | None,
    kubeconfig: str | None,
    context: str | None,
    options: Options,
    progress: Callable[[str], None],
) -> Report:
    from stowplan.api.client import ApiClient
    from stowplan.api.kubeconfig import load_cluster_config
    from stowplan.audit.live import audit_cluster
    from stowplan.audit.sources import Objects, read_cluster, read_objects

    if filename is not None:
        found = read_objects(filename, read_input(filename, limit=LARGE.size))
    else:
        cluster = load_cluster_config(kubeconfig=kubeconfig, context=context)

        async def read() -> Objects:
            async with ApiClient(cluster, user_agent=_USER_AGENT) as client:
                return await read_cluster(client, progress)

        found = asyncio.run(read())
    return audit_cluster(
        found.items,
        now=SystemClock().time(),
        options=options,
        notes=found.notes,
        unread=found.unread,
        progress=progress,
    )
