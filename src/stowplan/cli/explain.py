"""`stowplan explain`: why a pod is pending, or why it is where it is."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import click
import msgspec

from stowplan import __version__
from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.cli.options import kubeconfig_options
from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.clock import SystemClock
from stowplan.config.defaults import default_config
from stowplan.config.load import load_config
from stowplan.explain.explanation import Answer
from stowplan.explain.fixes import find_fixes
from stowplan.explain.pending import group_pending, pending_text
from stowplan.explain.reasoning import Explainer
from stowplan.explain.sources import file_text, find_pod, pending_pods, read_file, read_live
from stowplan.explain.text import comparison_text, explanation_text
from stowplan.judge.configuration import Configuration, default_registry
from stowplan.judge.given_cluster import GivenCluster
from stowplan.present.status_line import StatusLine
from stowplan.static.pins import PodName, parse_pod_name

_PROGRESS_AFTER_S: Final = 1.0


@click.command()
@click.argument("pod", required=False)
@click.option(
    "-n",
    "--namespace",
    metavar="NS",
    help="Namespace of the pod. Default: that of the kubeconfig's context.",
)
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    help="Take the cluster from a file that `kubectl get ... -o yaml` wrote; - is standard input.",
)
@click.option(
    "--node", metavar="NAME", help="Show what every plugin says of one node, beside the best node."
)
@click.option(
    "--fix", is_flag=True, help="Also show the smallest changes that would place the pod."
)
@click.option("--pending", is_flag=True, help="Show all pending pods, grouped by cause.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The scheduler's configuration. Default: kube-scheduler's default profile.",
)
@output_option()
@kubeconfig_options
def explain(
    pod: str | None,
    namespace: str | None,
    filename: str | None,
    node: str | None,
    fix: bool,
    pending: bool,
    config_file: str | None,
    output: OutputFormat | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Say why a pod is pending, and what would help.

    \b
      $ stowplan explain web-1
      $ stowplan explain web-1 --fix
      $ stowplan explain web-1 --node worker-3
      $ stowplan explain --pending
      $ kubectl get nodes,pods -A -o yaml | stowplan explain web-1 -f -

    Shows the cause, what the nearest nodes lack, and what leads to another attempt. POD is a name,
    or NAMESPACE/NAME. The cluster is only read. Whatever scheduler serves the pod,
    the answer is what the given configuration decides, by default that of kube-scheduler.
    """
    if pending == (pod is not None):
        raise click.UsageError("Name a POD, or ask for --pending.")
    if node is not None and (pending or fix):
        raise click.UsageError("--node goes with a POD, and without --fix.")
    config = load_config(config_file) if config_file else default_config()
    settings = Configuration(config, default_registry())
    asked: PodName | None
    if filename is not None:
        asked = parse_pod_name(pod, namespace, "default") if pod else None
        cluster = read_file(filename, file_text(filename, sys.stdin.buffer.read))
    else:
        access = load_cluster_config(kubeconfig=kubeconfig, context=context)
        asked = parse_pod_name(pod, namespace, access.namespace) if pod else None
        cluster = asyncio.run(_read(access, settings))
    explainer = Explainer(cluster, settings)
    if asked is None:
        _print_pending(explainer, namespace, output)
        return
    thing = find_pod(cluster, asked.namespace, asked.name)
    if node is not None:
        compared = explainer.compare(thing, node)
        _print(compared, comparison_text(compared), output)
        return
    said = explainer.explain(thing)
    if fix:
        fixes = find_fixes(explainer, thing, SystemClock())
        said = msgspec.structs.replace(said, fixes=fixes)
    _print(said, explanation_text(said), output)


async def _read(access: ClusterConfig, settings: Configuration) -> GivenCluster:
    async with ApiClient(access, user_agent=f"stowplan/{__version__} explain") as client:
        return await read_live(client, settings.looked_up(), _warn)


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


def _print(answer: Answer, text: str, output: OutputFormat | None) -> None:
    if output is None:
        click.echo(text, nl=False)
    else:
        print_object(msgspec.to_builtins(answer), output)


def _print_pending(
    explainer: Explainer, namespace: str | None, output: OutputFormat | None
) -> None:
    things = [
        thing
        for thing in pending_pods(explainer.cluster)
        if namespace is None or thing.namespace == namespace
    ]
    line = StatusLine(sys.stderr, delay_s=_PROGRESS_AFTER_S)
    groups = group_pending(
        explainer, things, lambda number: line.update(f"pod {number + 1} of {len(things)}")
    )
    line.erase()
    if output is None:
        click.echo(pending_text(groups), nl=False)
    else:
        print_object(msgspec.to_builtins(groups), output)
