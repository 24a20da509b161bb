"""The scheduling cycle: a pure function from the table, a pod and a profile to a Decision.

Everything that could make two runs differ is an argument: the cursor where the search for nodes
begins, the nominated pods, the table. Plugins do the judging; here is only kube-scheduler's order
of doing things. `decide_steps` is a generator because extenders are asked in the middle of it:
it yields their requests and is sent the answers by whoever may do I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

import numpy as np

from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import BoolArray, Int32Array, NodeTable
from stowplan.errors import ExtenderError, StowplanError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, RowSet
from stowplan.framework.profile import Profile
from stowplan.framework.shapes import Accepted
from stowplan.framework.status import (
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
from stowplan.scheduler.decision import NO_NODES, Decision, Diagnosis, ScoreSheet
from stowplan.scheduler.extender_requests import (
    EXTENDER,
    Answer,
    Extender,
    Request,
    ask_to_filter,
    ask_to_prioritize,
)
from stowplan.scheduler.making_room import make_room
from stowplan.scheduler.narrowing import pre_filter
from stowplan.scheduler.ranking import find
from stowplan.scheduler.scoring import pre_score, quick_choice, score
from stowplan.scheduler.selection import (
    chosen_place,
    drawn_place,
    first_feasible,
    first_fitting,
    nodes_to_find,
)

log = get_logger(__name__)

#: Told when an extension point has run: its name and the status it ended with.
OnPoint: TypeAlias = Callable[[str, str], None]
Steps: TypeAlias = Generator[Request, Answer, Decision]

_NO_ROWS: Rows = np.empty(0, np.intp)


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
    """Decide for one pod where no extender has a say."""
    steps = decide_steps(
        table, info, profile, cursor=cursor, turn=turn, nominated=nominated, on_point=on_point
    )
    try:
        next(steps)
    except StopIteration as finished:
        decision: Decision = finished.value
        return decision
    raise AssertionError("a cycle without extenders asks nobody")


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
) -> Steps:
    """Decide for one pod; yields what extenders are to be asked.

    `turn` numbers the decisions where ties are drawn at random: the same turn draws the same.
    `draw_seed` is for ties among nodes that extenders have scored. `watch` times the plugins. The
    table must not change between a request and its answer.
    """
    attempt = _Attempt(table, info, profile, cursor, nominated, on_point, turn, draw_seed, watch)
    try:
        decision = yield from attempt.run(extenders)
    except StowplanError as problem:
        decision = attempt.broke(problem)
    return decision


def judge(
    table: NodeTable, info: PodInfo, profile: Profile, *, nominated: Nominator | None = None
) -> Decision:
    """What every node has to say to a pod, and what each that would take it scores.

    The same filters and scores as in `decide`, without what saves a live scheduler time: all nodes
    are looked at, a single one is scored too, and nobody is asked to make room. The diagnosis is
    there even if the pod fits somewhere; it is good until the table changes.
    """
    attempt = _Attempt(table, info, profile, 0, nominated, None)
    try:
        return attempt.judge()
    except StowplanError as problem:
        return attempt.broke(problem)


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
        self.turn = turn
        self.draw_seed = draw_seed
        self.profile = profile
        self.cursor = cursor
        self.nominated = nominated
        self.on_point = on_point
        self.what_if = WhatIf(profile, nominated)
        self.cycle = Cycle(table, info, self.what_if, watch)
        self.diagnosis = Diagnosis(self.cycle, len(table))
        self.evaluated = 0
        #: The nominated node's row, when it was found not to do.
        self.refused: int | None = None
        self.asks_shapes = False
        #: What the shape of the pod says of rows, if it was asked and some are feasible.
        self.accepted: Accepted | None = None

    def run(self, extenders: Sequence[Extender]) -> Steps:
        if not len(self.table):
            return self.fail(unresolvable(NO_NODES), NO_NODES)
        # Whoever is configured may want more than one node, even if not for this pod; so does
        # chance, if it is to choose.
        wants_one = (
            not self.profile.scores
            and self.profile.tie_break_seed is None
            and not any(extender.filters or extender.prioritizes for extender in extenders)
        )
        extenders = [extender for extender in extenders if extender.is_interested(self.cycle.pod)]
        # If extenders leave nothing, what the filters said must be known row by row.
        self.asks_shapes = self.profile.shapes.is_used and not extenders
        rejection, candidates = self._pre_filter()
        if rejection is None:
            feasible = _NO_ROWS
            if self.cycle.pod.status.nominated_node_name:
                feasible = yield from self._ask_about_nominated_node(extenders)
            if not len(feasible):
                feasible = self._filter(candidates, wants_one=wants_one)
                if extenders:
                    feasible = yield from ask_to_filter(
                        extenders, feasible, self.cycle, self.diagnosis
                    )
            if len(feasible):
                return (yield from self._choose(feasible, extenders))
            self.diagnosis.settle()
        return (yield from self._post_filter(rejection or unschedulable(), extenders))

    def judge(self) -> Decision:
        if not len(self.table):
            return self.fail(unresolvable(NO_NODES), NO_NODES)
        rejection, candidates = self._pre_filter()
        if rejection is not None:
            return self.fail(rejection, self.diagnosis.message())
        order = self.table.order
        try:
            alive = self._run_filters(candidates)
        except StowplanError:
            # Of several nodes that break a plugin, the first one speaks.
            for row in order[candidates[order]].tolist():
                self.what_if.objection(self.cycle, row)
            raise
        feasible = order[alive[order]]
        self.evaluated = len(self.table)
        if not len(feasible):
            return self.fail(unschedulable(), "")
        sheet = self._score(feasible)
        decision = self._chosen(feasible, self._best_place(sheet), sheet)
        decision.diagnosis = self.diagnosis
        return decision

    def broke(self, problem: StowplanError) -> Decision:
        """A plugin broke: the pod's attempt fails with its name, everything else goes on."""
        decision = self.fail(error(str(problem)), str(problem))
        decision.diagnosis = None
        return decision

    def fail(self, status: Status, message: str) -> Decision:
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

    def _point(self, name: str, code: Code = Code.SUCCESS) -> None:
        if self.on_point is not None:
            self.on_point(name, code.label)

    # PreFilter and Filter

    def _pre_filter(self) -> tuple[Status | None, BoolArray]:
        rejection, candidates = pre_filter(self.profile, self.cycle, self.diagnosis)
        self._point("PreFilter", rejection.code if rejection else Code.SUCCESS)
        return rejection, candidates

    def _ask_about_nominated_node(
        self, extenders: Sequence[Extender]
    ) -> Generator[Request, Answer, Rows]:
        try:
            return (
                yield from ask_to_filter(
                    extenders, self._nominated_node(), self.cycle, self.diagnosis
                )
            )
        except ExtenderError as problem:
            # As with a plugin that breaks there: if it is not only there, it will be told.
            log.error(
                "Evaluation failed on nominated node",
                extra=kv(
                    pod=self.cycle.pod.key,
                    node=self.cycle.pod.status.nominated_node_name,
                    err=str(problem),
                ),
            )
            return _NO_ROWS

    def _nominated_node(self) -> Rows:
        """The node that preemption has made room on, if the pod fits there."""
        name = self.cycle.pod.status.nominated_node_name
        row = self.table.live_row(name) if name else None
        if row is None:
            return _NO_ROWS
        try:
            status = self.what_if.objection(self.cycle, row)
        except StowplanError:
            # Upstream too goes on as if there were no nomination; if the plugin breaks on other
            # nodes as well, that is told.
            return _NO_ROWS
        self.refused = row
        if status is not None:
            self.diagnosis.overrides[row] = status
            self.diagnosis.reject(status)
            return _NO_ROWS
        self.evaluated = 1
        return np.array([row], dtype=np.intp)

    def _filter(self, candidates: BoolArray, *, wants_one: bool) -> Rows:
        """Feasible rows in the order in which kube-scheduler would have found them."""
        if candidates is not self.table.valid:
            # Upstream's list holds whoever narrowed, and whoever refused the nominated node.
            plugins = " ".join(sorted(self.diagnosis.unschedulable_plugins - {EXTENDER}))
            self.diagnosis.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]")
        order = self.table.order
        ordered = order if candidates is self.table.valid else order[candidates[order]]
        limit = nodes_to_find(len(ordered), self.profile.percentage_of_nodes_to_score)
        if wants_one:
            limit = 1
        problem: StowplanError | None = None
        try:
            feasible, passed = self._search(candidates, ordered, limit)
        except StowplanError as broken:
            # Which nodes come before the one that breaks a plugin, and whether the search gets so
            # far at all, shows only one by one. A signature that breaks has nothing to do with it.
            for step in self.what_if.running(self.cycle):
                step.sign(self.cycle)
            feasible, passed, problem = first_fitting(
                ordered,
                lambda row: self.what_if.objection(self.cycle, row) is None,
                start=self.cursor,
                limit=limit,
            )
            if problem is None and passed == len(ordered):
                passed, problem = 0, broken
        if self.refused is not None:
            # Upstream counts statuses: that of the nominated node counts by itself, unless the
            # search came to the same.
            searched = np.roll(ordered, -self.cursor)[:passed]
            passed += self.refused in feasible or self.refused not in searched
        self.evaluated = passed
        self.cursor = (self.cursor + passed) % len(self.table)
        if problem is not None:
            raise problem
        self._point("Filter", Code.SUCCESS if len(feasible) else Code.UNSCHEDULABLE)
        return feasible

    def _search(self, candidates: BoolArray, ordered: Rows, limit: int) -> tuple[Rows, int]:
        """Feasible rows, and how many the search passed."""
        start = self.cursor % max(len(ordered), 1)
        if self.asks_shapes:
            try:
                return self._search_shape(candidates, ordered, start, limit)
            except StowplanError:
                # Who broke, and on which row, shows only the long way.
                self.accepted = None
                self.diagnosis.columns.clear()
        alive = self._run_filters(candidates)
        return first_feasible(ordered, alive, start=start, limit=limit)

    def _search_shape(
        self, candidates: BoolArray, ordered: Rows, start: int, limit: int
    ) -> tuple[Rows, int]:
        """The short way: what filters say one by one matters only if nothing is feasible."""
        skipped = self.cycle.skip_filter
        steps = [step for step in self.profile.filters if step.name not in skipped]
        accepted, asked = self.profile.shapes.accepted(steps, self.cycle)
        alive = accepted.alive
        if self.nominated is not None or candidates is not self.table.valid:
            alive = alive & candidates
            if self.nominated is not None:
                self._respect_nominees(candidates, alive)
        columns = self.diagnosis.columns
        for step in steps[asked:]:
            verdicts = self._verdicts(step, alive)
            columns.append((step, verdicts))
            if verdicts.any():
                alive = alive & (verdicts == 0)
        if alive is accepted.alive:
            found = find(accepted, ordered, start=start, limit=limit)
        else:
            found = first_feasible(ordered, alive, start=start, limit=limit)
        if len(found[0]):
            self.accepted = accepted
        else:
            columns[:0] = [(step, self._verdicts(step, alive)) for step in steps[:asked]]
            self.diagnosis.candidates = candidates
        return found

    def _run_filters(self, candidates: BoolArray) -> BoolArray:
        """Which of the rows every filter accepts; what the filters say is in the diagnosis."""
        alive = candidates.copy()
        if self.nominated is not None:
            # First, as upstream does: a filter that breaks on a row must not be asked about it if
            # the nominees leave no room there.
            self._respect_nominees(candidates, alive)
        columns = self.diagnosis.columns
        for step in self.profile.filters:
            if step.name in self.cycle.skip_filter:
                continue
            verdicts = self._verdicts(step, alive)
            columns.append((step, verdicts))
            alive &= verdicts == 0
        self.diagnosis.candidates = candidates
        return alive

    def _verdicts(self, step: FilterStep, alive: BoolArray) -> Int32Array:
        if step.is_cached:
            return self.profile.columns.verdicts(step, self.cycle)
        verdicts = np.zeros(self.table.capacity, np.int32)
        rows: RowSet = self.table.used_slots
        if np.count_nonzero(alive) < len(self.table.names):
            rows = np.flatnonzero(alive)
        step.fill(self.cycle, rows, verdicts)
        return verdicts

    def _respect_nominees(self, candidates: BoolArray, alive: BoolArray) -> None:
        """Rows must also pass as if the pods nominated to them stood there already."""
        assert self.nominated is not None
        live = map(self.table.live_row, self.nominated.nodes())
        rows = [row for row in live if row is not None and candidates[row]]
        for row, objection in self.what_if.nominees_object(self.cycle, rows).items():
            alive[row] = False
            self.diagnosis.overrides[row] = objection

    # Score

    def _choose(self, feasible: Rows, extenders: Sequence[Extender]) -> Steps:
        if len(feasible) == 1:
            return self._chosen(feasible, 0, None)
        if self.accepted is not None:
            return self._choose_by_shape(feasible, self.accepted)
        sheet = self._score(feasible)
        yield from ask_to_prioritize(extenders, sheet, self.cycle)
        return self._chosen(feasible, self._best_place(sheet), sheet)

    def _choose_by_shape(self, feasible: Rows, accepted: Accepted) -> Decision:
        self._pre_score(feasible)
        try:
            place, sheet = quick_choice(self.profile, self.cycle, feasible, accepted, self.turn)
        except StowplanError:
            # In which words it fails, and whether it does, shows only the long way.
            scores = score(self.profile, self.cycle, feasible)
            place, sheet = self._best_place(scores), lambda: scores
        self._point("Score")
        return self._chosen(feasible, place, sheet)

    def _best_place(self, sheet: ScoreSheet) -> int:
        seed = self.profile.tie_break_seed
        if seed is None and sheet.drawn is not None:
            return drawn_place(sheet.totals, sheet.drawn, seed=self.draw_seed, turn=self.turn)
        return chosen_place(sheet.totals, seed=seed, turn=self.turn)

    def _chosen(
        self, feasible: Rows, place: int, sheet: ScoreSheet | Callable[[], ScoreSheet] | None
    ) -> Decision:
        return Decision(
            cycle=self.cycle,
            profile=self.profile.name,
            status=SUCCESS,
            node=self.table.names[feasible[place]],
            sheet=sheet,
            evaluated_nodes=self.evaluated,
            feasible_nodes=len(feasible),
            cursor=self.cursor,
            table_version=self.table.version,
        )

    def _score(self, rows: Rows) -> ScoreSheet:
        self._pre_score(rows)
        sheet = score(self.profile, self.cycle, rows)
        self._point("Score")
        return sheet

    def _pre_score(self, rows: Rows) -> None:
        pre_score(self.profile, self.cycle, rows)
        self._point("PreScore")

    # PostFilter

    def _post_filter(self, rejection: Status, extenders: Sequence[Extender]) -> Steps:
        """Nothing fits: let plugins make room, and say why there is none."""
        plugins = self.profile.at("postFilter")
        result = yield from make_room(plugins, self.cycle, self.diagnosis, extenders)
        if plugins:
            self._point("PostFilter", result.status.code)
        self.diagnosis.post_filter_message = ", ".join(result.status.reasons)
        decision = self.fail(rejection, self.diagnosis.message())
        decision.nominated_node = result.nominated_node if plugins else ""
        decision.eviction = result.eviction
        return decision
