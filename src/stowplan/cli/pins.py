"""`stowplan pin`, `unpin` and `pins`: node labels that say which pod belongs on which node.

`stowplan move` (cli/move.py) shares the options and the first steps. `Asked` holds the checked
arguments and the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from stowplan import __version__
from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.api.objects import Node, Pod
from stowplan.api.pod_names import PodName, check_namespace, parse_pod_name
from stowplan.api.resources import PODS
from stowplan.cli.options import kubeconfig_options
from stowplan.cli.tables import print_object, print_table
from stowplan.errors import ConfigError, Forbidden
from stowplan.plugins.static_placement.labels import (
    DEFAULT_PREFIX,
    Form,
    Pin,
    PinLabels,
    name_problem,
)
from stowplan.static.pin_table import PinRow, pin_rows
from stowplan.static.pinning import apply_wish, find_pod, read_nodes
from stowplan.static.pins import (
    CLUSTERS_OWN_SCHEDULER,
    NodeEdit,
    Wish,
    chosen_scheduler,
    joined,
    named_node,
    nodes_with_pins,
    scheduler_of,
    schedulers_with_keys,
    wishes_for_only,
)

F = TypeVar("F", bound=Callable[..., Any])

EXIT_DRIFT: Final = 1
_ANY_NAMESPACE: Final = "*"


def naming_options(command: F) -> F:
    """Add `-n`, `--name`, `--prefix` and the kubeconfig options."""
    command = kubeconfig_options(command)
    command = click.option(
        "--prefix",
        default=DEFAULT_PREFIX,
        show_default=True,
        help="Prefix of pin labels, as in the arguments of the StaticPlacement plugin.",
    )(command)
    command = click.option(
        "--name",
        envvar="SCHED_NAME",
        metavar="NAME",
        help="Name of the scheduler that reads the pins. Default: $SCHED_NAME, else the pod's "
        "schedulerName.",
    )(command)
    return click.option(
        "-n",
        "--namespace",
        metavar="NS",
        help="Namespace of the pod. Default: that of the kubeconfig's context.",
    )(command)


@dataclass(frozen=True)
class Sight:
    """The result of a lookup: the pod, or None if it does not exist or access is denied."""

    pod: Pod | None
    is_allowed: bool = True


@dataclass(frozen=True)
class Asked:
    """The checked arguments about a pod, and the cluster."""

    pod: PodName
    cluster: ClusterConfig
    name: str | None
    prefix: str

    @classmethod
    def parse(
        cls,
        pod: str,
        *,
        namespace: str | None,
        name: str | None,
        prefix: str,
        kubeconfig: str | None,
        context: str | None,
    ) -> Asked:
        """Check all arguments before any request is sent."""
        check_naming(name, prefix)
        cluster = load_cluster_config(kubeconfig=kubeconfig, context=context)
        found = parse_pod_name(pod, namespace, cluster.namespace)
        return cls(found, cluster, name, prefix)

    async def look(self, client: ApiClient) -> Sight:
        """Look up the pod. Without --name it must be readable: its spec names the scheduler."""
        try:
            return Sight(await find_pod(client, self.pod))
        except Forbidden as problem:
            if self.name is None:
                raise Forbidden(
                    f"{problem}\nFix: give the name of the pod's scheduler with --name"
                ) from None
            return Sight(None, is_allowed=False)

    def labels(self, pod: Pod | None) -> PinLabels:
        scheduler = chosen_scheduler(self.name, pod)
        check_naming(scheduler, self.prefix)
        return PinLabels(scheduler, self.prefix)


def check_naming(name: str | None, prefix: str) -> None:
    """Check a scheduler name and a prefix; with `name` None, only the prefix."""
    problem = name_problem("x" if name is None else name, prefix)
    if problem:
        raise ConfigError(problem)


def client_for(cluster: ClusterConfig) -> ApiClient:
    return ApiClient(cluster, user_agent=f"stowplan/{__version__}")


def warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)


@click.command()
@click.argument("pod")
@click.argument("node")
@click.option("--only", is_flag=True, help="Remove the pod's pins from all other nodes.")
@naming_options
def pin(pod: str, node: str, only: bool, **typed: Any) -> None:
    """Pin a pod to a node.

    POD is a name or namespace/name; the pod need not exist yet. The pin is a label on the node or,
    if the pod's name is too long for a label, an entry in a node annotation. A pin takes effect
    when the pod is next scheduled; `stowplan move` moves the pod now.

    The pod can go to any node that has a pin for it. Pins on other nodes stay, with a warning. With
    --only they are removed, and so are labels of the older form, which name no namespace.
    """
    asyncio.run(_pin(Asked.parse(pod, **typed), node, only=only))


async def _pin(asked: Asked, node_name: str, *, only: bool) -> None:
    pod = asked.pod
    async with client_for(asked.cluster) as client:
        nodes = await read_nodes(client)
        node = named_node(nodes, node_name)
        sight = await asked.look(client)
        labels = asked.labels(sight.pod)
        wishes = wishes_for_only(nodes, node) if only else [(node, Wish.PINNED)]
        edits = [
            edit
            for each, wish in wishes
            if (edit := await apply_wish(client, each, labels, pod, wish)) is not None
        ]
    if not any(edit.added for edit in edits):
        present = nodes_with_pins([node], labels, pod)[node.name]
        click.echo(f"{pod} is already pinned to {node.name} ({described(present)})")
    tell_edits(pod, edits)
    others = [name for name in nodes_with_pins(nodes, labels, pod) if name != node.name]
    if others and not only:
        warn(f"{pod} is also pinned to {joined(others)} and can go there; --only removes that pin")
    _tell_of_pod(asked, sight, labels, node)


def tell_edits(pod: PodName, edits: Iterable[NodeEdit]) -> None:
    """Print one line per node and kind of change."""
    for edit in edits:
        if edit.added:
            click.echo(f"{pod} pinned to {edit.node} ({described(edit.added)})")
        if edit.removed:
            click.echo(f"{pod} no longer pinned to {edit.node} ({described(edit.removed)})")
        older = [pin.key for pin in edit.removed if pin.form is Form.OLD_LABEL]
        if older:
            warn(f"{older[0]} on {edit.node} pinned every pod called {pod.name}, in all namespaces")


def described(pins: Sequence[Pin]) -> str:
    return joined([f"{pin.form.value} {pin.key}" for pin in pins])


def _tell_of_pod(asked: Asked, sight: Sight, labels: PinLabels, node: Node) -> None:
    """Warn about everything that keeps the pod from its node."""
    pod = sight.pod
    if not sight.is_allowed:
        warn(f"no access to pod {asked.pod}: cannot check whether it exists and uses the pin")
        return
    if pod is None:
        guessed = ""
        if asked.name is None:
            guessed = f" The pin is for scheduler {labels.scheduler}; --name sets another."
        warn(f"pod {asked.pod} does not exist yet.{guessed}")
        return
    used = scheduler_of(pod)
    if used != labels.scheduler:
        warn(
            f"pod {asked.pod} uses scheduler {used}, not {labels.scheduler}: this pin has no effect"
        )
    elif used == CLUSTERS_OWN_SCHEDULER and asked.name is None:
        warn(
            f"pod {asked.pod} uses the cluster's own scheduler, {used}, which normally reads no "
            "pins: then this pin has no effect"
        )
    at = pod.spec.node_name
    if at and at != node.name and not pod.is_finished:
        warn(
            f"pod {asked.pod} runs on {at}, and a pin does not move it; to move it: "
            f"stowplan move {asked.pod} {node.name}"
        )
    if node.spec.unschedulable:
        warn(f"node {node.name} is cordoned; only strict placement ignores that")


@click.command()
@click.argument("pod")
@click.argument("node", required=False)
@naming_options
def unpin(pod: str, node: str | None, **typed: Any) -> None:
    """Remove a pod's pins from a node, or from all nodes.

    Removes all forms: the label, the annotation entry, and the older label, which pins pods of that
    name in every namespace. A running pod keeps running. Without a pin to remove, the command
    prints a note and exits with code 0.
    """
    asyncio.run(_unpin(Asked.parse(pod, **typed), node))


async def _unpin(asked: Asked, node_name: str | None) -> None:
    pod = asked.pod
    async with client_for(asked.cluster) as client:
        nodes = await read_nodes(client)
        where = nodes if node_name is None else [named_node(nodes, node_name)]
        labels = asked.labels((await asked.look(client)).pod)
        edits = [
            edit
            for node in where
            if (edit := await apply_wish(client, node, labels, pod, Wish.UNPINNED)) is not None
        ]
    tell_edits(pod, edits)
    if edits:
        return
    text = f"{pod} is not pinned to {node_name or 'any node'} (scheduler {labels.scheduler})"
    left = nodes_with_pins(nodes, labels, pod)
    click.echo(f"{text}, but to {joined(list(left))}" if left else text)
    for other in sorted(schedulers_with_keys(nodes, {labels.scheduler}, asked.prefix)):
        if other == labels.scheduler:
            continue
        left = nodes_with_pins(nodes, PinLabels(other, asked.prefix), pod)
        if left:
            warn(f"scheduler {other} has a pin for it on {joined(list(left))}: --name {other}")


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Show pods of all namespaces.")
@click.option("--node", metavar="NODE", help="Show only pods that are pinned to this node.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["wide", "json", "yaml"]),
    help="Print a table with more columns, JSON or YAML.",
)
@click.option("--check", is_flag=True, help="Exit with code 1 if there is drift.")
@naming_options
def pins(
    all_namespaces: bool,
    node: str | None,
    output: str | None,
    check: bool,
    namespace: str | None,
    name: str | None,
    prefix: str,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """List pins, where their pods run, and any drift.

    A row shows a pod, the nodes it is pinned to, its phase ("absent" if it does not exist) and its
    drift:

    \b
      - the pod runs on another node
      - several nodes have a pin for it
      - a node is cordoned or gone
      - the label has the older form
      - the pod uses another scheduler
      - the pod uses a scheduler that reads pins, but has no pin

    Without --name, the schedulers that read pins are rfcustom and all that have a pin on some node.
    If no node has any pin, --check therefore needs --name, and exits with code 1 without it.
    """
    if all_namespaces and namespace is not None:
        raise click.UsageError("--all-namespaces and --namespace exclude each other")
    check_naming(name, prefix)
    cluster = load_cluster_config(kubeconfig=kubeconfig, context=context)
    within = "" if all_namespaces else namespace or cluster.namespace
    if within:
        check_namespace(within)
    nodes, pods = asyncio.run(_read(cluster, within))
    rows = pin_rows(nodes, pods, scheduler=name, namespace=within, prefix=prefix)
    is_blind = check and name is None and not schedulers_with_keys(nodes, set(), prefix)
    if node is not None:
        chosen = named_node(nodes, node).name
        rows = [row for row in rows if chosen in row.nodes]
    if output in ("json", "yaml"):
        print_object(
            {"pins": [row.as_object() for row in rows]}, "json" if output == "json" else "yaml"
        )
    elif rows:
        _print_rows(rows, is_wide=output == "wide")
    elif not is_blind:
        click.echo(f"No pins found{f' in namespace {within}' if within else ''}.", err=True)
    if is_blind:
        click.echo("Error: no pins at all; name the scheduler with --name", err=True)
    return EXIT_DRIFT if is_blind or (check and any(row.drift for row in rows)) else 0


async def _read(cluster: ClusterConfig, namespace: str) -> tuple[list[Node], list[Pod]]:
    async with client_for(cluster) as client:
        nodes = await read_nodes(client)
        listed = await client.list_all(PODS, namespace=namespace)
    return nodes, listed.items


def _print_rows(rows: Sequence[PinRow], *, is_wide: bool) -> None:
    headers = ["pod", "namespace", "nodes", "form", "state", "drift"]
    table: list[list[str]] = []
    for row in rows:
        cells = [
            row.pod,
            row.namespace or _ANY_NAMESPACE,
            ",".join(row.nodes),
            ",".join(row.forms),
            row.state,
            "; ".join(each.message for each in row.drift),
        ]
        if is_wide:
            keys = dict.fromkeys(pin.key for _, pin in row.pins)
            cells += [row.runs_on, row.scheduler, ",".join(keys)]
        table.append(cells)
    print_table([*headers, "runs on", "scheduler", "key"] if is_wide else headers, table)
