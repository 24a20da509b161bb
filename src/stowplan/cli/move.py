"""`stowplan move`: pin a pod to another node and have it created again there."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from stowplan.api.client import ApiClient
from stowplan.cli.options import duration
from stowplan.cli.pins import Asked, client_for, described, naming_options, tell_edits
from stowplan.config.durations import Duration
from stowplan.demo.terminal import is_drawable
from stowplan.errors import NotFound, StowplanError
from stowplan.present.status_line import StatusLine
from stowplan.present.tables import printable
from stowplan.static.moving import (
    MoveEffect,
    MovePlan,
    Mover,
    MoveRefused,
    plan_move,
    read_budget_notes,
)
from stowplan.static.pinning import find_pod, read_nodes
from stowplan.static.pins import named_node

_REDRAW_S: Final = 0.2


@click.command()
@click.argument("pod")
@click.argument("node")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--force",
    is_flag=True,
    help="Delete the pod instead of evicting it, whatever disruption budgets say.",
)
@click.option(
    "--grace-period",
    type=click.IntRange(0, 2**31 - 1),
    metavar="SECONDS",
    help="How long the pod may take to shut down. Without it: as long as it says itself. 0 needs "
    "--force.",
)
@click.option("--wait/--no-wait", default=True, help="Follow until the pod has its new node.")
@click.option(
    "--timeout",
    type=duration,
    default="5m",
    show_default=True,
    help="How long to follow; then the exit code is 124.",
)
@naming_options
def move(
    pod: str,
    node: str,
    yes: bool,
    force: bool,
    grace_period: int | None,
    wait: bool,
    timeout: Duration,
    **typed: Any,
) -> None:
    """Move a pod to another node.

    Pins the pod to the node and to no other, then evicts it, so that its controller creates it
    again and the scheduler puts it there. What will happen is shown first, and asked about; where
    there is nobody to ask, --yes must be given. Nothing is changed unless the API server says
    beforehand that the pod may be evicted: if a PodDisruptionBudget forbids it, so does this
    command, unless with --force.

    Only for pods that come back under the same name, as those of a StatefulSet do. One that waits
    for a node is only pinned; one that is there already stays.

    Exit codes: 0 it is there (with --no-wait: on its way), 1 refused or failed, 2 wrong usage, 124
    not there in time.
    """
    if grace_period == 0 and not force:
        raise click.UsageError(
            "--grace-period 0 kills without waiting for the kubelet's word: say --force too"
        )
    if timeout < 0:
        raise click.UsageError("--timeout must not be negative")
    asked = Asked.parse(pod, **typed)
    how = _How(force, grace_period)
    plan = asyncio.run(_prepare(asked, node, how))
    if plan.is_done:
        click.echo(f"{plan.name} is already on {node}, and pinned there: nothing to do")
        return
    # Not in the event loop, which would not hear a Ctrl-C at the prompt.
    _ask(yes=yes)
    try:
        asyncio.run(_carry_out(asked, plan, how, timeout_s=timeout if wait else None))
    except _StoppedFollowing:
        click.echo("No longer following; the pod goes on", err=True)
        raise click.Abort from None


@dataclass(frozen=True)
class _How:
    """How the pod is made to leave."""

    is_forced: bool
    grace_period_s: int | None

    def mover(self, client: ApiClient, plan: MovePlan) -> Mover:
        return Mover(client, plan, is_forced=self.is_forced, grace_period_s=self.grace_period_s)


class _StoppedFollowing(Exception):
    """Ctrl-C when everything is done but the waiting."""


async def _prepare(asked: Asked, node_name: str, how: _How) -> MovePlan:
    """Show what will happen, and see that it may."""
    async with client_for(asked.cluster) as client:
        plan = await _plan(client, asked, node_name)
        if not plan.is_done:
            notes = []
            if plan.course is MoveEffect.IS_SENT_AWAY:
                notes = await read_budget_notes(client, plan.pod)
            click.echo("\n".join(_described(plan, how, notes)))
            await how.mover(client, plan).check()
    return plan


async def _carry_out(asked: Asked, plan: MovePlan, how: _How, *, timeout_s: float | None) -> None:
    async with client_for(asked.cluster) as client:
        mover = how.mover(client, plan)
        tell_edits(plan.name, await mover.pin())
        await mover.send_away()
        if plan.course is MoveEffect.IS_SENT_AWAY:
            click.echo(f"{plan.name} {'deleted' if how.is_forced else 'evicted'}")
        if plan.course is MoveEffect.STAYS or timeout_s is None:
            return
        try:
            await _follow(mover, plan, timeout_s)
        except asyncio.CancelledError:
            raise _StoppedFollowing from None


async def _plan(client: ApiClient, asked: Asked, node_name: str) -> MovePlan:
    nodes = await read_nodes(client)
    target = named_node(nodes, node_name)
    pod = await find_pod(client, asked.pod)
    if pod is None:
        raise NotFound(
            f"there is no pod {asked.pod} to move; to pin one that is still to come: "
            f"stowplan pin {asked.pod} {node_name}"
        )
    labels = asked.labels(pod)
    return plan_move(pod, labels, target, nodes, is_name_given=asked.name is not None)


def _described(plan: MovePlan, how: _How, budget_notes: Sequence[str]) -> list[str]:
    pod, owner = plan.pod, plan.owner
    lines = [f"pod     {plan.name}, scheduler {plan.labels.scheduler}"]
    if owner is not None:
        lines.append(f"owner   {owner.kind} {owner.name}")
    lines.append(f"from    {pod.spec.node_name or 'no node'}")
    cordoned = " (cordoned)" if plan.target.spec.unschedulable else ""
    lines.append(f"to      {plan.target.name}{cordoned}")
    for edit in plan.edits:
        if edit.added:
            lines.append(f"pin     on {edit.node}: {described(edit.added)}")
        if edit.removed:
            lines.append(f"unpin   on {edit.node}: {described(edit.removed)}")
    if plan.course is not MoveEffect.IS_SENT_AWAY:
        return [*lines, f"note    {plan.course.value}: only its pins change"]
    grace_s = how.grace_period_s
    if grace_s is None:
        grace_s = pod.spec.termination_grace_period_seconds
    within = f", with {grace_s} s to shut down" if grace_s is not None else ""
    lines.append(f"{'delete' if how.is_forced else 'evict':<8}{plan.name}{within}")
    ignored = ", but --force does not ask" if how.is_forced else ""
    return [*lines, *(f"budget  {note}{ignored}" for note in budget_notes)]


def _ask(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise MoveRefused("nothing was changed: there is nobody to ask here, so say --yes")
    if not click.confirm("Do it?"):
        raise MoveRefused("nothing was changed")


async def _follow(mover: Mover, plan: MovePlan, timeout_s: float) -> None:
    progress = _Progress()
    drawing = asyncio.create_task(progress.run())
    try:
        pod = await mover.follow(progress.say, timeout_s)
    finally:
        drawing.cancel()
        progress.end()
    at, target = pod.spec.node_name, plan.target.name
    if at != target:
        raise StowplanError(
            f"{plan.name} went to {at}, not to {target}: something else than its pin placed it"
        )
    was_on = plan.pod.spec.node_name
    before = f" (was on {was_on})" if was_on and was_on != at else ""
    click.echo(f"{plan.name} is on {at} now{before}")


class _Progress:
    """The step that is waited for: on a terminal with its seconds, elsewhere a line for each."""

    def __init__(self) -> None:
        self._line = StatusLine(sys.stdout, is_live=is_drawable(sys.stdout, os.environ))
        self._since = time.monotonic()
        self._text = ""

    def say(self, text: str) -> None:
        self._text = printable(text)
        if not self._line.is_live:
            self._line.say(self._text)

    async def run(self) -> None:
        while self._line.is_live:
            if self._text:
                self._line.draw(f"{int(time.monotonic() - self._since)} s: {self._text}")
            await asyncio.sleep(_REDRAW_S)

    def end(self) -> None:
        self._line.erase()
