"""`stowplan explain`: why a pod is pending, or why it is where it is."""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import msgspec

from stowplan import __version__
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.api.pod_names import PodName, parse_pod_name
from stowplan.cli.cluster_names import complete_namespaces, complete_nodes, complete_pods
from stowplan.cli.options import kubeconfig_options
from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.clock import SystemClock
from stowplan.errors import KubeconfigError
from stowplan.explain.explanation import Comparison, Explanation, State
from stowplan.explain.facts import Answer
from stowplan.explain.pending import Pending, PendingGroup, group_pending, pending_text
from stowplan.explain.recorded import AttemptAnswer, attempt_text, chosen_attempt
from stowplan.explain.text import comparison_text, explanation_text
from stowplan.loader.files import read_input
from stowplan.loader.malformed import LARGE

if TYPE_CHECKING:
    from stowplan.explain.reasoning import Explainer
    from stowplan.judge.configuration import Configuration
    from stowplan.judge.given_cluster import GivenCluster

_PROGRESS_AFTER_S: Final = 1.0
_USER_AGENT: Final = f"stowplan/{__version__} explain"


@click.command()
@click.argument("pod", required=False, shell_complete=complete_pods)
@click.option(
    "-n",
    "--namespace",
    metavar="NS",
    shell_complete=complete_namespaces,
    help="Namespace of the pod. Default: that of the kubeconfig's context.",
)
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    help="Take the cluster from a file that `kubectl get ... -o yaml` wrote; - is standard input.",
)
@click.option(
    "--node",
    metavar="NAME",
    shell_complete=complete_nodes,
    help="Show what every plugin says of one node, beside the best node.",
)
@click.option(
    "--fix", is_flag=True, help="Also show the smallest changes that would place the pod."
)
@click.option("--pending", is_flag=True, help="Show all pending pods, grouped by cause.")
@click.option(
    "--at",
    type=click.IntRange(min=1),
    metavar="ATTEMPT",
    help="Show a recorded attempt of the pod, by its number. Needs --server or --ledger.",
)
@click.option("--ledger", metavar="FILE", help="Read the attempt from the file of run --ledger.")
@click.option(
    "--server",
    metavar="URL",
    envvar="STOWPLAN_SERVER",
    show_envvar=True,
    help="Ask the running Stowplan scheduler at this address, such as https://127.0.0.1:10259.",
)
@click.option(
    "--token",
    metavar="TOKEN",
    default="",
    envvar="STOWPLAN_TOKEN",
    show_envvar=True,
    help="Bearer token for --server. Default: the credentials of the kubeconfig's user.",
)
@click.option(
    "--certificate-authority",
    metavar="FILE",
    default="",
    help="CA of the certificate of --server. Default: that of the cluster.",
)
@click.option(
    "--insecure-skip-tls-verify",
    is_flag=True,
    help="Do not check the certificate of --server. Use it on loopback only.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The scheduler's configuration. Default: kube-scheduler's default profile.",
)
@output_option()
@kubeconfig_options
@click.pass_context
def explain(
    ctx: click.Context,
    pod: str | None,
    namespace: str | None,
    filename: str | None,
    node: str | None,
    fix: bool,
    pending: bool,
    at: int | None,
    ledger: str | None,
    server: str | None,
    token: str,
    certificate_authority: str,
    insecure_skip_tls_verify: bool,
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
      $ stowplan explain web-1 --server https://127.0.0.1:10259
      $ stowplan explain web-1 --at 3 --ledger ledger.db
      $ kubectl get nodes,pods,ns,pvc,pv,sc,csinodes -A -o yaml | stowplan explain web-1 -f -

    Shows the cause, what the nearest nodes lack, and what leads to another attempt. POD is a name,
    or NAMESPACE/NAME. The cluster is only read. Whatever scheduler serves the pod,
    the answer is what the given configuration decides, by default that of kube-scheduler. With
    --server it is the running scheduler's own answer.
    """
    if pending and (pod is not None or fix):
        raise click.UsageError("--pending goes without a POD and without --fix.")
    if not pending and not pod:
        raise click.UsageError("Name a POD, or ask for --pending.")
    for prefix in ("pod/", "pods/", "po/"):  # as kubectl writes it
        pod = pod.removeprefix(prefix) if pod else pod
    if pod and "/" in pod and namespace is not None:
        pod = _without_owner(pod, namespace)
    if node is not None and (pending or fix):
        raise click.UsageError("--node goes with a POD, and without --fix.")
    if at is not None and (pending or fix or node is not None or filename is not None):
        raise click.UsageError("--at goes with a POD, and without --node, --fix and --filename.")
    if (ledger is not None) and at is None:
        raise click.UsageError("--ledger goes with --at ATTEMPT.")
    if server and (fix or filename is not None or config_file or ledger is not None):
        if ctx.get_parameter_source("server") is not click.core.ParameterSource.ENVIRONMENT:
            raise click.UsageError(
                "--server goes without --fix, --filename, --config and --ledger: those decide on"
                " a copy of the cluster, or read a file."
            )
        server = None
    if at is not None and not (server or ledger):
        raise click.UsageError("--at needs --server URL or --ledger FILE.")
    if server:
        user = _user(kubeconfig, context, token)
        asked = parse_pod_name(pod, namespace, user.namespace) if pod else None
        options = _given(kubeconfig=kubeconfig, context=context)
        question = _Question(asked, namespace, node, at, options)
        _explain_remotely(
            question, output, server, user, token, certificate_authority, insecure_skip_tls_verify
        )
    elif ledger is not None:
        assert pod is not None
        _print_recorded(ledger, _named(pod, namespace, kubeconfig, context), at or 1, output)
    else:
        _explain_cold(
            pod, namespace, filename, node, config_file, output, kubeconfig, context, fix=fix
        )


# A running scheduler and its ledger


class _Question(NamedTuple):
    """What to ask a scheduler; without a pod, all that are pending."""

    pod: PodName | None
    namespace: str | None
    node: str | None
    at: int | None
    #: For a command that asks about the same cluster without the scheduler.
    options: tuple[str, ...]


def _given(**options: str | None) -> tuple[str, ...]:
    """The options that have a value, as on a command line."""
    return tuple(word for name, value in options.items() if value for word in (f"--{name}", value))


def _user(kubeconfig: str | None, context: str | None, token: str) -> ClusterConfig:
    """The kubeconfig's user; with a token there need not be one."""
    try:
        return load_cluster_config(kubeconfig=kubeconfig, context=context)
    except KubeconfigError:
        if token and not (kubeconfig or context):
            return ClusterConfig(server="")
        raise


def _without_owner(pod: str, namespace: str) -> str:
    """`web` of `deployment/web`: the answer then names the pods of that name."""
    from stowplan.explain.sources import OWNERS  # slow to import

    kind, _, name = pod.rpartition("/")
    return name if kind in OWNERS and kind != namespace else pod


def _named(pod: str, namespace: str | None, kubeconfig: str | None, context: str | None) -> PodName:
    """A pod of a file, for which no cluster is needed."""
    default = "default"
    if "/" not in pod and namespace is None:
        try:
            default = load_cluster_config(kubeconfig=kubeconfig, context=context).namespace
        except KubeconfigError:
            if kubeconfig or context:
                raise
    return parse_pod_name(pod, namespace, default)


def _explain_remotely(
    question: _Question,
    output: OutputFormat | None,
    server: str,
    user: ClusterConfig,
    token: str,
    ca_file: str,
    insecure: bool,
) -> None:
    from stowplan.explain import remote

    ask = partial(remote.ask, user_agent=_USER_AGENT)
    config = remote.scheduler_config(server, user, token=token, ca_file=ca_file, insecure=insecure)
    pod, namespace, node, at, options = question
    if pod is None:
        params = {"namespace": namespace} if namespace else None
        queue = asyncio.run(ask(config, Pending, "pending", params=params))
        _print_groups(queue.groups, output)
    elif at is not None:
        place = ("attempts", pod.namespace, pod.name, str(at))
        recorded = asyncio.run(ask(config, AttemptAnswer, *place))
        _print(recorded, attempt_text(recorded, SystemClock().time()), output)
    elif node is not None:
        path = ("explain", pod.namespace, pod.name)
        compared = asyncio.run(ask(config, Comparison, *path, params={"node": node}))
        _print(compared, comparison_text(compared, _columns()), output)
    else:
        said = asyncio.run(ask(config, Explanation, "explain", pod.namespace, pod.name))
        _print(said, explanation_text(said, _columns(), options), output)


def _print_recorded(file: str, pod: PodName, at: int, output: OutputFormat | None) -> None:
    from stowplan.scheduler.ledger_file import read_attempts

    recorded = chosen_attempt(str(pod), read_attempts(file, str(pod)), at)
    _print(recorded, attempt_text(recorded, SystemClock().time()), output)


# The cluster, read for this one answer


def _explain_cold(
    pod: str | None,
    namespace: str | None,
    filename: str | None,
    node: str | None,
    config_file: str | None,
    output: OutputFormat | None,
    kubeconfig: str | None,
    context: str | None,
    *,
    fix: bool,
) -> None:
    from stowplan.config.defaults import default_config
    from stowplan.config.load import load_config
    from stowplan.explain.reasoning import Explainer
    from stowplan.explain.sources import check_namespace, find_pod, read_file
    from stowplan.judge.configuration import Configuration, default_registry

    config = load_config(config_file) if config_file else default_config()
    settings = Configuration(config, default_registry())
    if filename is not None:
        default = "default"
        asked = parse_pod_name(pod, namespace, default) if pod else None
        cluster = read_file(filename, read_input(filename, limit=LARGE.size))
    else:
        access = load_cluster_config(kubeconfig=kubeconfig, context=context)
        default = access.namespace
        asked = parse_pod_name(pod, namespace, default) if pod else None
        cluster = asyncio.run(_read(access, settings))
    explainer = Explainer(cluster, settings)
    if asked is None:
        if namespace is not None:
            check_namespace(cluster, namespace)
        _print_pending(explainer, namespace, output)
        return
    thing = find_pod(cluster, asked.namespace, asked.name, default)
    if node is not None:
        compared = explainer.compare(thing, node)
        _print(compared, comparison_text(compared, _columns()), output)
        return
    said = explainer.explain(thing)
    if fix and said.state in (State.SCHEDULED, State.FINISHED, State.TERMINATING):
        said = msgspec.structs.replace(said, fixes=())
    elif fix:
        from stowplan.explain.fixes import find_fixes  # loaded only if it is used

        fixes = find_fixes(explainer, thing, SystemClock())
        said = msgspec.structs.replace(said, fixes=fixes)
    options = _given(filename=filename, config=config_file, kubeconfig=kubeconfig, context=context)
    _print(said, explanation_text(said, _columns(), options), output)


async def _read(access: ClusterConfig, settings: Configuration) -> GivenCluster:
    from stowplan.api.client import ApiClient
    from stowplan.explain.sources import read_live

    # All that is read stays, and there is nothing to collect: an eighth of the CPU time.
    gc.disable()
    try:
        async with ApiClient(access, user_agent=_USER_AGENT) as client:
            return await read_live(client, settings.looked_up(), _warn)
    finally:
        gc.freeze()
        gc.enable()


def _columns() -> int:
    """The width of the terminal; 0 if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


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
    from stowplan.explain.sources import pending_pods
    from stowplan.present.status_line import StatusLine

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
    _print_groups(groups, output)


def _print_groups(groups: Sequence[PendingGroup], output: OutputFormat | None) -> None:
    if output is None:
        click.echo(pending_text(groups, _columns()), nl=False)
    else:
        print_object(msgspec.to_builtins(groups), output)
