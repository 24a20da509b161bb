"""`stowplan move`: pin a pod to another node and evict it, so that it is recreated there."""

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
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--force",
    is_flag=True,
    help="Delete the pod instead of evicting it, ignoring disruption budgets.",
)
@click.option(
    "--grace-period",
    type=click.IntRange(0, 2**31 - 1),
    metavar="SECONDS",
    help="Time the pod gets to shut down. Default: its terminationGracePeriodSeconds. 0 needs "
    "--force.",
)
@click.option("--wait/--no-wait", default=True, help="Wait until the pod is on its new node.")
@click.option(
    "--timeout",
    type=duration,
    default="5m",
    show_default=True,
    help="How long to wait, such as 90s or 5m; a number without a unit is seconds. After that the "
    "exit code is 124.",
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

    Pins the pod to NODE and removes its other pins, then evicts it. Its controller recreates it,
    and the scheduler places it on NODE.

    Before it changes anything, the command shows the plan, asks the API server with a dry run
    whether the pod can be evicted, and asks for confirmation. Without a terminal it needs --yes.
    If a PodDisruptionBudget forbids the eviction the command fails, unless --force is given.

    Works only for pods that are recreated under the same name, such as those of a StatefulSet. A
    pending pod, and a pod that is on NODE already, is only pinned.

    Exit codes: 0 the pod is on NODE (with --no-wait: is evicted), 1 refused or failed, 2 wrong
    usage, 124 timeout.
    """
    if grace_period == 0 and not force:
        raise click.UsageError(
            "--grace-period 0 removes the pod before the kubelet confirms that it stopped; "
            "to do so, add --force"
        )
    if timeout < 0:
        raise click.UsageError("--timeout must not be negative")
    asked = Asked.parse(pod, **typed)
    how = _How(force, grace_period)
    plan = asyncio.run(_prepare(asked, node, how))
    if plan.is_done:
        click.echo(f"{plan.name} is already on {node}, and pinned there: nothing to do")
        return
    # Outside the event loop, which would not handle Ctrl-C at the prompt.
    _ask(yes=yes)
    try:
        asyncio.run(_carry_out(asked, plan, how, timeout_s=timeout if wait else None))
    except _StoppedFollowing:
        click.echo("Stopped waiting; the move continues", err=True)
        raise click.Abort from None


@dataclass(frozen=True)
class _How:
    """How the pod is evicted or deleted."""

    is_forced: bool
    grace_period_s: int | None

    def mover(self, client: ApiClient, plan: MovePlan) -> Mover:
        return Mover(client, plan, is_forced=self.is_forced, grace_period_s=self.grace_period_s)


class _StoppedFollowing(Exception):
    """Ctrl-C after the eviction, while waiting for the pod."""


async def _prepare(asked: Asked, node_name: str, how: _How) -> MovePlan:
    """Show the plan, and check with a dry run that the API server allows it."""
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
            f"there is no pod {asked.pod} to move; to pin a pod before it exists: "
            f"stowplan pin {asked.pod} {node_name} --name {asked.name or 'SCHEDULER'}"
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
    ignored = ", ignored because of --force" if how.is_forced else ""
    return [*lines, *(f"budget  {note}{ignored}" for note in budget_notes)]


def _ask(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise MoveRefused("nothing was changed: cannot ask without a terminal; add --yes")
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
            f"{plan.name} went to {at}, not to {target}: it was not placed by its pin"
        )
    was_on = plan.pod.spec.node_name
    before = f" (was on {was_on})" if was_on and was_on != at else ""
    click.echo(f"{plan.name} is on {at} now{before}")


class _Progress:
    """Show the current step: on a terminal with elapsed seconds, elsewhere one line per step."""

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
