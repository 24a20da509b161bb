"""`stowplan pin`, `unpin` and `pins`: which pod belongs on which node, said by labels on nodes.

`stowplan move` (cli/move.py) shares the options and the first steps: `Asked` is what was typed,
checked, and the cluster it is about.
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
    PodName,
    Wish,
    check_namespace,
    chosen_scheduler,
    joined,
    named_node,
    nodes_with_pins,
    parse_pod_name,
    scheduler_of,
    schedulers_with_keys,
    wishes_for_only,
)

F = TypeVar("F", bound=Callable[..., Any])

EXIT_DRIFT: Final = 1
_ANY_NAMESPACE: Final = "*"


def naming_options(command: F) -> F:
    """`-n`, `--name`, `--prefix`, and where the cluster is."""
    command = kubeconfig_options(command)
    command = click.option(
        "--prefix",
        default=DEFAULT_PREFIX,
        show_default=True,
        help="What labels of pins begin with; as in the arguments of the StaticPlacement plugin.",
    )(command)
    command = click.option(
        "--name",
        envvar="SCHED_NAME",
        metavar="NAME",
        help="The scheduler that reads the pins (or $SCHED_NAME). Without it: the pod's "
        "schedulerName.",
    )(command)
    return click.option(
        "-n",
        "--namespace",
        metavar="NS",
        help="Namespace of the pod. Without it: that of the kubeconfig's context.",
    )(command)


@dataclass(frozen=True)
class Sight:
    """What can be seen of a pod: None, and it does not exist, or may not be looked at."""

    pod: Pod | None
    is_allowed: bool = True


@dataclass(frozen=True)
class Asked:
    """What was typed about a pod, and the cluster."""

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
        """Everything that can be wrong with it is told before any request is sent."""
        check_naming(name, prefix)
        cluster = load_cluster_config(kubeconfig=kubeconfig, context=context)
        found = parse_pod_name(pod, namespace, cluster.namespace)
        return cls(found, cluster, name, prefix)

    async def look(self, client: ApiClient) -> Sight:
        """The pod, as far as it may be seen; without --name it must be, for its scheduler."""
        try:
            return Sight(await find_pod(client, self.pod))
        except Forbidden as problem:
            if self.name is None:
                raise Forbidden(
                    f"{problem}\nSay the name of the pod's scheduler with --name instead"
                ) from None
            return Sight(None, is_allowed=False)

    def labels(self, pod: Pod | None) -> PinLabels:
        scheduler = chosen_scheduler(self.name, pod)
        check_naming(scheduler, self.prefix)
        return PinLabels(scheduler, self.prefix)


def check_naming(name: str | None, prefix: str) -> None:
    """`name` None: only the prefix."""
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

    POD is a name or namespace/name, and need not exist yet. The pin is a label on the node, or, if
    the pod's name is too long for one, an entry in an annotation there. It says where the pod will
    go when it is scheduled the next time; `stowplan move` makes it go there now.

    Pins on other nodes stay, and are told: the pod may go to any node that has one. With --only
    they are removed, and so are labels of the older form, which name no namespace.
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
        warn(f"{pod} is pinned to {joined(others)} too, and may go there; --only removes that")
    _tell_of_pod(asked, sight, labels, node)


def tell_edits(pod: PodName, edits: Iterable[NodeEdit]) -> None:
    """One line a node and kind of change."""
    for edit in edits:
        if edit.added:
            click.echo(f"{pod} pinned to {edit.node} ({described(edit.added)})")
        if edit.removed:
            click.echo(f"{pod} no longer pinned to {edit.node} ({described(edit.removed)})")
        older = [pin.key for pin in edit.removed if pin.form is Form.OLD_LABEL]
        if older:
            warn(
                f"{older[0]} on {edit.node} was the pin of every pod called {pod.name}, "
                "whatever its namespace"
            )


def described(pins: Sequence[Pin]) -> str:
    return joined([f"{pin.form.value} {pin.key}" for pin in pins])


def _tell_of_pod(asked: Asked, sight: Sight, labels: PinLabels, node: Node) -> None:
    """What stands between the pod and its node."""
    pod = sight.pod
    if not sight.is_allowed:
        warn(f"pod {asked.pod} may not be looked at, so nobody knows whether it needs the pin")
        return
    if pod is None:
        guessed = ""
        if asked.name is None:
            guessed = f" The pin is for scheduler {labels.scheduler}; --name says another."
        warn(f"pod {asked.pod} does not exist yet.{guessed}")
        return
    used = scheduler_of(pod)
    if used != labels.scheduler:
        warn(
            f"pod {asked.pod} uses scheduler {used}, not {labels.scheduler}: nothing will place it "
            "by this pin"
        )
    elif used == CLUSTERS_OWN_SCHEDULER and asked.name is None:
        warn(
            f"pod {asked.pod} uses the cluster's own scheduler, {used}, which as a rule reads no "
            "pins: then nothing will place it by this one"
        )
    at = pod.spec.node_name
    if at and at != node.name and not pod.is_finished:
        warn(
            f"pod {asked.pod} runs on {at}, and a pin alone moves nothing: "
            f"stowplan move {asked.pod} {node.name}"
        )
    if node.spec.unschedulable:
        warn(f"node {node.name} is cordoned, which schedulers other than strict ones respect")


@click.command()
@click.argument("pod")
@click.argument("node", required=False)
@naming_options
def unpin(pod: str, node: str | None, **typed: Any) -> None:
    """Remove a pod's pins from a node, or from all nodes.

    All forms are removed: the label, the older label, which is about pods of that name in every
    namespace, and the entry in the annotation. A pod that runs goes on running. If there is no pin
    to remove it says so, and the exit code is 0 all the same: what was asked for is the case.
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
@click.option("-A", "--all-namespaces", is_flag=True, help="Pods of every namespace.")
@click.option("--node", metavar="NODE", help="Only pods that are pinned to this node.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["wide", "json", "yaml"]),
    help="A table with more columns, or JSON or YAML.",
)
@click.option("--check", is_flag=True, help="End with exit code 1 if anything has drifted.")
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
    """Show pins, where the pods are, and what has drifted.

    A row is a pod with all nodes that are pinned for it, its phase ("absent": it does not exist),
    and what is not as it should be: the pod runs elsewhere, several nodes have a pin, a node is
    cordoned or gone, the label has the older form, the pod uses another scheduler, or it uses a
    scheduler that reads pins and has none. Without --name these are all schedulers of which some
    node has a pin, and rfcustom.

    With --check the exit code is 1 if there is drift in any row, for use in scripts.
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
    if node is not None:
        chosen = named_node(nodes, node).name
        rows = [row for row in rows if chosen in row.nodes]
    if output in ("json", "yaml"):
        print_object(
            {"pins": [row.as_object() for row in rows]}, "json" if output == "json" else "yaml"
        )
    elif rows:
        _print_rows(rows, is_wide=output == "wide")
    else:
        click.echo(f"No pins found{f' in namespace {within}' if within else ''}.", err=True)
    return EXIT_DRIFT if check and any(row.drift for row in rows) else 0


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
