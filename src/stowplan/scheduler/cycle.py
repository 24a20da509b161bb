"""The scheduling cycle: a pure function from the table, a pod and a profile to a Decision.

This is kube-scheduler's schedulePod: the order of the extension points, and what follows from each.
How plugins run and what is cached is behind `Profile.feasible` and `Profile.best`.

Everything that could make two runs differ is an argument: the cursor where the search for nodes
begins, the nominated pods, the table. `decide_steps` is a generator because extenders take part in
the middle: it yields requests to them, and the caller, which may do I/O, sends the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import BoolArray, NodeTable
from stowplan.errors import ExtenderError, PluginError, StowplanError
from stowplan.framework.best import Best
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.feasible import Feasible
from stowplan.framework.profile import Profile
from stowplan.framework.selection import chosen_place, drawn_place
from stowplan.framework.status import (
    LABELS,
    SUCCESS,
    Code,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.framework.stopwatch import Stopwatch
from stowplan.framework.what_if import WhatIf
from stowplan.logs import get_logger, kv
from stowplan.queue.nominator import Nominator
from stowplan.scheduler.decision import NO_NODES, Decision
from stowplan.scheduler.extender_requests import (
    EXTENDER,
    Answer,
    Extender,
    Request,
    ask_to_filter,
    ask_to_prioritize,
)
from stowplan.scheduler.making_room import make_room

log = get_logger(__name__)

#: Called when an extension point has run, with its name and the status it ended with.
OnPoint: TypeAlias = Callable[[str, str], None]
Steps: TypeAlias = Generator[Request, Answer, Decision]


def decide(
    table: NodeTable,
    info: PodInfo,
    profile: Profile,
    *,
    cursor: int = 0,
    turn: int = 0,
    nominated: Nominator | None = None,
    on_point: OnPoint | None = None,
) -> Decision:
    """Decide for one pod, without extenders."""
    steps = decide_steps(
        table, info, profile, cursor=cursor, turn=turn, nominated=nominated, on_point=on_point
    )
    try:
        next(steps)
    except StopIteration as finished:
        decision: Decision = finished.value
        return decision
    raise AssertionError("a cycle without extenders must not yield a request")


def decide_steps(
    table: NodeTable,
    info: PodInfo,
    profile: Profile,
    *,
    cursor: int = 0,
    turn: int = 0,
    nominated: Nominator | None = None,
    extenders: Sequence[Extender] = (),
    draw_seed: int = 0,
    on_point: OnPoint | None = None,
    watch: Stopwatch | None = None,
    keeps_verdicts: bool = False,
) -> Steps:
    """Decide for one pod; yields requests to extenders.

    `turn` numbers the decisions where ties are drawn at random: the same turn draws the same.
    `draw_seed` is for ties among nodes that extenders have scored. `watch` times the plugins. With
    `keeps_verdicts` the decision has a diagnosis even if the pod fits somewhere. The table must not
    change between a request and its answer.
    """
    attempt = _Attempt(table, info, profile, cursor, nominated, on_point, turn, draw_seed, watch)
    attempt.keeps_verdicts = keeps_verdicts
    try:
        decision = yield from attempt.schedule(extenders)
    except StowplanError as problem:
        decision = attempt.error(problem)
    return decision


def judge(
    table: NodeTable, info: PodInfo, profile: Profile, *, nominated: Nominator | None = None
) -> Decision:
    """Filter every node for a pod, and score all that it fits on.

    The same filters and scores as in `decide`, without its shortcuts: the search looks at all
    nodes, a single feasible one is scored too, and PostFilter does not run. The decision has a
    diagnosis even if the pod fits somewhere; it is valid until the table changes.
    """
    attempt = _Attempt(table, info, profile, 0, nominated, None)
    try:
        return attempt.judge()
    except StowplanError as problem:
        return attempt.error(problem)


class _Attempt:
    """The working state of one decision."""

    def __init__(
        self,
        table: NodeTable,
        info: PodInfo,
        profile: Profile,
        cursor: int,
        nominated: Nominator | None,
        on_point: OnPoint | None,
        turn: int = 0,
        draw_seed: int = 0,
        watch: Stopwatch | None = None,
    ) -> None:
        self.table = table
        self.profile = profile
        self.cursor = cursor
        self.on_point = on_point
        self.turn = turn
        self.draw_seed = draw_seed
        self.what_if = WhatIf(profile, nominated)
        self.cycle = Cycle(table, info, self.what_if, watch)
        self.node_count = len(table)
        self.diagnosis = Diagnosis(self.cycle, self.node_count)
        self.evaluated = 0
        self.keeps_verdicts = False
        #: The extension point that runs, for the metric if it fails.
        self.running = ""
        #: The row of the nominated node, once it was filtered.
        self.nominated_row: int | None = None

    def schedule(self, extenders: Sequence[Extender]) -> Steps:
        """kube-scheduler's schedulePod, and PostFilter where no node is feasible."""
        if not self.node_count:
            return self._failed(unresolvable(NO_NODES), NO_NODES)
        # Without scores the first feasible node will do, unless an extender is configured (even
        # one that is not interested in this pod).
        wants_one = (
            not self.profile.scores
            and self.profile.tie_break_seed is None
            and not any(extender.filters or extender.prioritizes for extender in extenders)
        )
        extenders = [extender for extender in extenders if extender.is_interested(self.cycle.pod)]

        rejection, narrowed = self._pre_filter()
        if rejection is not None:
            return (yield from self._post_filter(rejection, extenders))

        feasible = None
        if self.cycle.pod.status.nominated_node_name:
            feasible = yield from self._nominated_node(extenders)
        if feasible is None:
            needs_verdicts = bool(extenders) or self.keeps_verdicts
            feasible = self._filter(narrowed, wants_one=wants_one, needs_verdicts=needs_verdicts)
            if extenders:
                feasible.rows = yield from self._filter_by_extenders(extenders, feasible.rows)
        count = len(feasible.rows)
        if not count:
            self.diagnosis.settle()
            return (yield from self._post_filter(unschedulable(), extenders))

        if count == 1:
            return self._scheduled(feasible, None)
        best = self._score(feasible)
        if extenders:
            best = yield from self._score_by_extenders(extenders, best)
        return self._scheduled(feasible, best)

    def judge(self) -> Decision:
        """All nodes, all scores, no PostFilter."""
        if not self.node_count:
            return self._failed(unresolvable(NO_NODES), NO_NODES)
        rejection, narrowed = self._pre_filter()
        if rejection is not None:
            return self._failed(rejection, self.diagnosis.message())
        feasible = self.profile.feasible(
            self.cycle, self.diagnosis, narrowed, limit=self.node_count, needs_verdicts=True
        )
        if feasible.failure is not None:
            raise feasible.failure
        self.evaluated = self.node_count
        if not len(feasible.rows):
            return self._failed(unschedulable(), "")
        decision = self._scheduled(feasible, self._score(feasible))
        decision.diagnosis = self.diagnosis
        return decision

    # PreFilter and Filter

    def _pre_filter(self) -> tuple[Status | None, BoolArray | None]:
        self.running = "PreFilter"
        rejection, narrowed = self.profile.pre_filter(self.cycle, self.diagnosis)
        self._point("PreFilter", rejection.code if rejection else Code.SUCCESS)
        return rejection, narrowed

    def _nominated_node(
        self, extenders: Sequence[Extender]
    ) -> Generator[Request, Answer, Feasible | None]:
        """The node that preemption has made room on, if the pod fits there.

        Failures are logged at most: if they are not limited to this node, the search reports them.
        """
        name = self.cycle.pod.status.nominated_node_name
        row = self.table.live_row(name)
        if row is None:
            return None
        self.running = "Filter"
        try:
            status = self.what_if.objection(self.cycle, row)
        except StowplanError:
            self._point("Filter", Code.ERROR)
            return None
        self._point("Filter")
        self.nominated_row = row
        if status is not None:
            self.diagnosis.overrides[row] = status
            self.diagnosis.reject(status)
            return None
        self.evaluated = 1
        rows = np.array([row], dtype=np.intp)
        try:
            rows = yield from self._filter_by_extenders(extenders, rows)
        except ExtenderError as problem:
            log.error(
                "Evaluation failed on nominated node",
                extra=kv(pod=self.cycle.pod.key, node=name, err=str(problem)),
            )
            return None
        return Feasible(rows, 1) if len(rows) else None

    def _filter(
        self, narrowed: BoolArray | None, *, wants_one: bool, needs_verdicts: bool
    ) -> Feasible:
        """Search for feasible nodes, and move the cursor behind those that were looked at."""
        if narrowed is not None:
            # kube-scheduler lists the plugins that narrowed, and those that refused the nominated
            # node.
            plugins = " ".join(sorted(self.diagnosis.unschedulable_plugins - {EXTENDER}))
            self.diagnosis.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]")
        self.running = "Filter"
        feasible = self.profile.feasible(
            self.cycle,
            self.diagnosis,
            narrowed,
            start=self.cursor,
            limit=1 if wants_one else None,
            needs_verdicts=needs_verdicts,
            refused=self.nominated_row,
        )
        self.evaluated = feasible.searched
        self.cursor = (self.cursor + feasible.searched) % self.node_count
        if feasible.failure is not None:
            raise feasible.failure
        # As upstream: a search that finds no node is a success, too.
        self._point("Filter")
        return feasible

    def _filter_by_extenders(
        self, extenders: Sequence[Extender], rows: Rows
    ) -> Generator[Request, Answer, Rows]:
        return (yield from ask_to_filter(extenders, rows, self.cycle, self.diagnosis))

    # PreScore and Score

    def _score(self, feasible: Feasible) -> Best:
        self.running = "PreScore"
        self.profile.pre_score(self.cycle, feasible.rows)
        self._point("PreScore")
        self.running = "Score"
        best = self.profile.best(self.cycle, feasible, turn=self.turn)
        self._point("Score")
        return best

    def _score_by_extenders(
        self, extenders: Sequence[Extender], best: Best
    ) -> Generator[Request, Answer, Best]:
        sheet = best.scores
        yield from ask_to_prioritize(extenders, sheet, self.cycle)
        seed = self.profile.tie_break_seed
        if seed is None and sheet.drawn is not None:
            place = drawn_place(sheet.totals, sheet.drawn, seed=self.draw_seed, turn=self.turn)
        else:
            place = chosen_place(sheet.totals, seed=seed, turn=self.turn)
        return Best(place, sheet)

    # PostFilter

    def _post_filter(self, rejection: Status, extenders: Sequence[Extender]) -> Steps:
        """Nothing fits: let plugins make room, and report why there is none."""
        plugins = self.profile.at("postFilter")
        result = yield from make_room(plugins, self.cycle, self.diagnosis, extenders)
        if plugins:
            self._point("PostFilter", result.status.code)
        self.diagnosis.post_filter_message = ", ".join(result.status.reasons)
        decision = self._failed(rejection, self.diagnosis.message())
        decision.post_filter = result.status if plugins else None
        decision.nominated_node = result.nominated_node if plugins else ""
        decision.eviction = result.eviction
        decision.effect = result.effect
        return decision

    # Outcomes

    def error(self, problem: StowplanError) -> Decision:
        """A plugin or an extender failed: the attempt fails with its name."""
        if isinstance(problem, PluginError):
            self.cycle.failures.append(problem)
            if self.running:
                self._point(self.running, Code.ERROR)
        decision = self._failed(error(str(problem)), str(problem))
        decision.diagnosis = None
        return decision

    def _failed(self, status: Status, message: str) -> Decision:
        return Decision(
            cycle=self.cycle,
            profile=self.profile.name,
            status=status,
            message=message,
            diagnosis=self.diagnosis,
            evaluated_nodes=self.evaluated,
            cursor=self.cursor,
            table_version=self.table.version,
            nominated_node="",
        )

    def _scheduled(self, feasible: Feasible, best: Best | None) -> Decision:
        """`best` is None where a single node is feasible, which is not scored."""
        place = 0 if best is None else best.place
        return Decision(
            cycle=self.cycle,
            profile=self.profile.name,
            status=SUCCESS,
            diagnosis=self.diagnosis if self.keeps_verdicts else None,
            search=self.diagnosis,
            node=self.table.names[feasible.rows[place]],
            sheet=None if best is None else best.sheet,
            evaluated_nodes=self.evaluated,
            feasible_nodes=len(feasible.rows),
            cursor=self.cursor,
            table_version=self.table.version,
        )

    def _point(self, name: str, code: Code = Code.SUCCESS) -> None:
        self.running = ""
        if self.on_point is not None:
            self.on_point(name, LABELS[code])
