"""Makes both forms of Filter and Score look alike to the cycle.

`FilterStep` and `ScoreStep` wrap one plugin of one profile. They run its column form, or its
per-node form row by row; they turn exceptions and forbidden answers into `PluginError`. What a
user's function may return (True, False, a text, a Status) becomes a Status here and nowhere else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster.journal import Rows
from stowplan.cluster.table import Int32Array, Int64Array, NodeTable
from stowplan.cluster.views import NodeView, Overlay
from stowplan.errors import PluginError, StatusError
from stowplan.framework.cycle import Cycle
from stowplan.framework.integers import MAX_NODE_SCORE, MIN_NODE_SCORE
from stowplan.framework.plugin import NOT_KEPT, Plugin, Reads
from stowplan.framework.status import SUCCESS, Code, Status, unschedulable
from stowplan.plugin_failures import defined_at, describe

#: Rows of the table: an index array, or a slice when all of them are meant. Plugins get the array,
#: unless they declare `takes_slices`.
RowSet: TypeAlias = "Rows | slice"
#: Up to so many rows, a per-node plugin beats a dozen numpy calls.
FEW_ROWS = 4
_JOURNAL_COUNT = {Reads.NODE: 1, Reads.POD_SPECS: 2, Reads.PODS: 3, Reads.ANYTHING: 0}
_RowAnswer: TypeAlias = Callable[[Cycle, NodeView], Any]
_Signature: TypeAlias = Callable[[Cycle], "Hashable | None"]
_Method = TypeVar("_Method", bound=Callable[..., None])
_TAKES_SLICES = "_stowplan_takes_slices"


def takes_slices(method: _Method) -> _Method:
    """Declare that a `filter_columns` or `score_columns` also takes a slice as `rows`.

    A slice saves numpy the copy of every column that an index array costs. It stands for all slots
    of the table, so it can include slots without a node; what is written there is not read. The
    declaration holds for this method, not for one that overrides it.
    """
    setattr(method, _TAKES_SLICES, True)
    return method


class FilterStep:
    """One plugin at the Filter point; with `failure`, it fails on every row it is asked about."""

    def __init__(self, plugin: Plugin, failure: str = "") -> None:
        self.plugin = plugin
        self.name = plugin.name
        self._columns = _column_form(plugin, "filter_columns")
        self._row = _row_form(plugin, "filter")
        self.reads = plugin.reads
        if failure:
            self._columns, self.reads = None, Reads.ANYTHING
            self._row = _failing(self.name, "Filter", failure)
        #: How many of `NodeTable.journals` its columns follow.
        self.journal_count = _JOURNAL_COUNT[self.reads]
        #: Whether they depend on pods that stand on the node, and on every field of those.
        self.reads_pods = self.reads in (Reads.POD_SPECS, Reads.PODS)
        self.reads_details = self.reads is Reads.PODS
        self.has_row_form = self._row is not None
        self.is_costly = plugin.is_costly and not failure
        #: Whether its columns may be kept from one attempt to the next.
        self.is_cached = self._columns is not None and self.reads is not Reads.ANYTHING
        surroundings = _surroundings_of(plugin)
        #: Whether a row's verdict follows from its node and the pod alone.
        self.is_about_nodes = self.reads is Reads.NODE and surroundings is None
        #: Whether it follows from the row, its pods and what is read of the pod.
        self.follows_rows = self.is_cached and surroundings is None
        #: The plugin's `sign`, unchecked: it may be unhashable. Use `sign` for a cache key.
        self.signature: _Signature = _signature_of(plugin, "Filter", surroundings)

    def sign(self, cycle: Cycle) -> Hashable | None:
        """What the plugin reads of the pod, as a cache key; None: its columns are not cached."""
        signature = self.signature(cycle)
        _check_hash(signature, self.plugin, "Filter")
        return signature

    def fill(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None = None
    ) -> None:
        """Write a verdict id for each of `rows` into `out`; 0 means the pod fits."""
        watch = cycle.watch
        if self._columns is not None:
            try:
                if watch is None:
                    self._columns(cycle, rows, out, overlay)
                else:
                    watch.run(self.name, "Filter", self._columns, cycle, rows, out, overlay)
            except PluginError:
                raise
            except Exception as problem:
                raise PluginError(self.name, "Filter", describe(problem)) from problem
        elif watch is None:
            self._fill_rows(cycle, rows, out, overlay)
        else:
            watch.run(self.name, "Filter", self._fill_rows, cycle, rows, out, overlay)

    def _fill_rows(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        for row in _each(cycle, rows):
            status = self.status_of_row(cycle, row, overlay)
            out[row] = 0 if status.is_success else self._remember(cycle, status)

    def status_of_row(self, cycle: Cycle, row: int, overlay: Overlay | None = None) -> Status:
        """The plugin's answer for one row, which may be hypothetical."""
        if self._row is None:
            verdicts = np.zeros(cycle.table.capacity, np.int32)
            self.fill(cycle, np.array([row], dtype=np.intp), verdicts, overlay)
            verdict_id = int(verdicts[row])
            return self.status(cycle, verdict_id) if verdict_id else SUCCESS
        try:
            answer = self._row(cycle, NodeView(cycle.table, row, overlay))
        except PluginError:
            raise
        except Exception as problem:
            raise PluginError(self.name, "Filter", describe(problem)) from problem
        status = _filter_status(answer, self.plugin)
        if status.is_success:
            return SUCCESS
        if not status.is_rejected:
            raise failure_of(self.name, "Filter", status)
        return status.by(self.name)

    def accepts(self, cycle: Cycle, row: int) -> bool:
        """Whether the pod fits on a row as it is."""
        return self.status_of_row(cycle, row) is SUCCESS

    def status(self, cycle: Cycle, verdict_id: int) -> Status:
        """What a verdict id in this attempt's column means."""
        remembered: list[Status] | None = cycle.notes.get(self)
        if remembered is not None:
            return remembered[verdict_id - 1]
        plugin = self.plugin
        if type(plugin).verdict is Plugin.verdict and not 0 < verdict_id <= len(plugin.verdicts):
            count = len(plugin.verdicts)
            told = "filter_columns writes ids, but nothing says what they mean"
            if count:
                told = f"filter_columns wrote {verdict_id}, but `verdicts` has {count}"
            fix = "list the statuses in `verdicts`, or have a method verdict(cycle, verdict_id)"
            where = defined_at(getattr(plugin, "filter_columns", None))
            raise PluginError(self.name, "Filter", f"{told}. Fix: {fix}{where}")
        try:
            return self.plugin.verdict(cycle, verdict_id).by(self.name)
        except Exception as problem:
            raise PluginError(self.name, "Filter", describe(problem)) from problem

    def _remember(self, cycle: Cycle, status: Status) -> int:
        """Number the distinct answers of a per-node plugin within one attempt."""
        remembered: list[Status] = cycle.notes.setdefault(self, [])
        for number, known in enumerate(remembered, start=1):
            if known == status:
                return number
        remembered.append(status)
        return len(remembered)


class ScoreStep:
    """One plugin at the Score point, with its weight; with `failure`, it fails on every row."""

    def __init__(self, plugin: Plugin, weight: int, failure: str = "") -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.weight = weight
        self._columns = _column_form(plugin, "score_columns")
        self._row = _row_form(plugin, "score")
        self.reads = plugin.score_reads or plugin.reads
        if failure:
            self._columns, self.reads = None, Reads.ANYTHING
            self._row = _failing(self.name, "Score", failure)
        #: How many of `NodeTable.journals` its columns follow.
        self.journal_count = _JOURNAL_COUNT[self.reads]
        #: Whether they depend on pods that stand on the node, and on every field of those.
        self.reads_pods = self.reads in (Reads.POD_SPECS, Reads.PODS)
        self.reads_details = self.reads is Reads.PODS
        self.has_row_form = self._row is not None
        self._normalize: Callable[..., Any] | None = getattr(plugin, "normalize", None)
        #: The method that a wrong score comes from, for messages.
        self._source = (
            self._normalize
            or getattr(plugin, "score_columns", None)
            or getattr(plugin, "score", None)
        )
        self.normalizes = self._normalize is not None
        self.keeps_zeros = plugin.keeps_zeros
        #: Whether its columns may be kept from one attempt to the next.
        self.is_cached = self._columns is not None and self.reads is not Reads.ANYTHING
        #: Whether they may be added up with others' (`shapes`): a row that changes must not change
        #: the scores of others.
        self.is_summed = self.is_cached and not (self.normalizes and self.reads_pods)
        #: The plugin's `sign`, unchecked: it may be unhashable. Use `sign` for a cache key.
        self.signature: _Signature = _signature_of(plugin, "Score", _surroundings_of(plugin))

    def sign(self, cycle: Cycle) -> Hashable | None:
        """What the plugin reads of the pod, as a cache key; None: its columns are not cached."""
        signature = self.signature(cycle)
        _check_hash(signature, self.plugin, "Score")
        return signature

    def fill(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        """Write the raw score of each of `rows` into `out`."""
        fill = self._columns or self._fill_rows
        try:
            if cycle.watch is None:
                fill(cycle, rows, out)
            else:
                cycle.watch.run(self.name, "Score", fill, cycle, rows, out)
        except PluginError:
            raise
        except Exception as problem:
            raise PluginError(self.name, "Score", describe(problem)) from problem

    def _fill_rows(self, cycle: Cycle, rows: RowSet, out: Int64Array) -> None:
        ask, table = self._row, cycle.table
        assert ask is not None
        for row in _each(cycle, rows):
            score = ask(cycle, NodeView(table, row))
            out[row] = score if type(score) is int else self._whole(score, cycle, row)

    def refresh(self, cycle: Cycle, rows: Rows, out: Int64Array) -> None:
        """`fill` for rows that changed since: a few are quicker one by one than as columns."""
        if self._row is None or len(rows) > FEW_ROWS:
            self.fill(cycle, rows, out)
            return
        table = cycle.table
        for row in rows.tolist():
            if table.valid[row]:
                out[row] = self.score_of_row(cycle, row)

    def score_of_row(self, cycle: Cycle, row: int) -> int:
        """The plugin's raw score of one row, by its per-node form."""
        assert self._row is not None
        try:
            score = self._row(cycle, NodeView(cycle.table, row))
        except PluginError:
            raise
        except Exception as problem:
            raise PluginError(self.name, "Score", describe(problem)) from problem
        return score if type(score) is int else self._whole(score, cycle, row)

    def _whole(self, score: Any, cycle: Cycle, row: int) -> int:
        """A score that is not an `int` itself; fractions are refused, not cut off."""
        if isinstance(score, int | np.integer) and not isinstance(score, bool):
            return int(score)
        told = f"answered {score!r} for node {cycle.table.names[row]}; expected an integer"
        raise PluginError(self.name, "Score", told + defined_at(self._source))

    def finish(self, cycle: Cycle, raw: Int64Array) -> Int64Array:
        """Normalise the feasible rows' scores and check their range."""
        return self.checked(self.normalize(cycle, raw))

    def normalize(self, cycle: Cycle, raw: Int64Array) -> Int64Array:
        """The feasible rows' scores after the plugin has seen all of them."""
        if self._normalize is None:
            return raw
        try:
            if cycle.watch is None:
                scores = self._normalize(cycle, raw)
            else:
                scores = cycle.watch.run(
                    self.name, "ScoreExtensionNormalize", self._normalize, cycle, raw
                )
        except Exception as problem:
            raise PluginError(self.name, "Normalize", describe(problem)) from problem
        if not isinstance(scores, np.ndarray) or scores.shape != raw.shape:
            told = f"normalize must answer an array of {len(raw)} scores"
        elif scores.dtype.kind not in "iu":
            told = f"answered an array of {scores.dtype}; expected int64"
        else:
            return scores
        raise PluginError(self.name, "Normalize", told + defined_at(self._normalize))

    def checked(self, scores: Int64Array) -> Int64Array:
        """Scores that are in range; PluginError tells of the first that is not."""
        if int(scores.min()) < MIN_NODE_SCORE or int(scores.max()) > MAX_NODE_SCORE:
            wrong = scores[(scores < MIN_NODE_SCORE) | (scores > MAX_NODE_SCORE)]
            told = (
                f"returns an invalid score {wrong[0]}, it should in the range of "
                f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
            )
            raise PluginError(self.name, "Weigh", told + defined_at(self._source))
        return scores


def call(method: Callable[..., Any], name: str, point: str, *args: object) -> Any:
    """Run a plugin's method; whatever it raises becomes a PluginError with its name."""
    try:
        return method(*args)
    except PluginError:
        raise
    except Exception as problem:
        raise PluginError(name, point, describe(problem)) from problem


def failure_of(plugin: str, point: str, status: Status) -> PluginError:
    """What to raise for an answer that ends the attempt.

    Only a code that the point does not allow is a defect of the plugin; an error is not.
    """
    kind = StatusError if status.code is Code.ERROR else PluginError
    return kind(plugin, point, status.message or status.code.label)


def as_status(answer: object, plugin: str, point: str, method: object = None) -> Status:
    """The answer of a plugin's `method` as a Status, at any point but Filter and Score.

    None is success.
    """
    if answer is None:
        return SUCCESS
    if isinstance(answer, Status):
        return answer
    told = f"answered {answer!r}; expected None or a Status{defined_at(method)}"
    raise PluginError(plugin, point, told)


def _signature_of(
    plugin: Plugin, point: str, surroundings: Callable[[Cycle], Hashable] | None
) -> _Signature:
    sign = plugin.sign

    def alone(cycle: Cycle) -> Hashable | None:
        try:
            return sign(cycle.info)
        except Exception as problem:
            raise PluginError(plugin.name, point, describe(problem)) from problem

    if surroundings is None:
        return alone

    def in_surroundings(cycle: Cycle) -> Hashable | None:
        signature = alone(cycle)
        if signature is None:
            return None
        met = call(surroundings, plugin.name, point, cycle)
        return None if met is NOT_KEPT else (signature, met)

    return in_surroundings


def _check_hash(signature: Hashable | None, plugin: Plugin, point: str) -> None:
    try:
        hash(signature)
    except Exception as problem:
        raise PluginError(plugin.name, point, describe(problem)) from problem


def _surroundings_of(plugin: Plugin) -> Callable[[Cycle], Hashable] | None:
    """The plugin's `surroundings`; None if it does not override them."""
    if type(plugin).surroundings is Plugin.surroundings:
        return None
    return plugin.surroundings


def _filter_status(answer: object, plugin: Plugin) -> Status:
    if answer is None or answer is True:
        return SUCCESS
    if isinstance(answer, Status):
        return answer
    if isinstance(answer, str):
        return unschedulable(answer)
    if answer is False or isinstance(answer, np.bool_):
        return SUCCESS if answer else unschedulable(f"node(s) didn't satisfy plugin {plugin.name}")
    told = f"answered {answer!r}; expected True, False, a reason or a Status"
    raise PluginError(plugin.name, "Filter", told + defined_at(getattr(plugin, "filter", None)))


def row_set(table: NodeTable, rows: Rows) -> RowSet:
    """The rows for `fill`: all of them are faster as a slice than in search order."""
    return table.used_slots if len(rows) == len(table.names) else rows


def _column_form(plugin: Plugin, method: str) -> Callable[..., None] | None:
    """The column method as a call of (cycle, rows, out, ...) with any RowSet."""
    function: Callable[..., None] | None = getattr(plugin, method, None)
    if function is None or getattr(function, _TAKES_SLICES, False):
        return function
    columns = function

    def on_nodes(cycle: Cycle, rows: RowSet, out: NDArray[Any], *overlay: Any) -> None:
        """Rows of nodes only: what a plugin looks up of a ghost row does not exist."""
        table = cycle.table
        nodes = table.live_rows if isinstance(rows, slice) else rows[table.valid[rows]]
        if not len(nodes):
            return
        column = out.view(WholeNumbers)
        answer: object = columns(cycle, nodes, column, *overlay)
        if answer is not None and answer is not column:
            told = f"{method} returned {type(answer).__name__}. Fix: write to out[rows] instead"
            point = "Filter" if method == "filter_columns" else "Score"
            raise PluginError(plugin.name, point, told + defined_at(columns))

    return on_nodes


class WholeNumbers(np.ndarray[Any, Any]):
    """An array that refuses fractions, which numpy would cut off without a word."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(value) is not int and np.asarray(value).dtype.kind not in "iub":
            kind = np.asarray(value).dtype
            raise TypeError(f"columns are whole numbers, and this is {kind}; use // instead of /")
        super().__setitem__(key, value)


def _row_form(plugin: Plugin, method: str) -> _RowAnswer | None:
    """The per-node method as a call of (cycle, node), whether or not it wants the cycle."""
    function = getattr(plugin, method, None)
    if function is None:
        return None
    if _positional_count(function) >= 3:
        return lambda cycle, node: function(cycle.pod, node, cycle)
    return lambda cycle, node: function(cycle.pod, node)


def _failing(plugin: str, point: str, failure: str) -> _RowAnswer:
    def fail(cycle: Cycle, node: NodeView) -> None:
        raise StatusError(plugin, point, failure)

    return fail


def _positional_count(function: Callable[..., Any]) -> int:
    plain = getattr(function, "__func__", None)
    return _count(function) if plain is None else _count(plain) - 1


@lru_cache(maxsize=1024)
def _count(function: Callable[..., Any]) -> int:
    return sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in inspect.signature(function).parameters.values()
    )


def _each(cycle: Cycle, rows: RowSet) -> list[int]:
    chosen: list[int] = (cycle.table.live_rows if isinstance(rows, slice) else rows).tolist()
    return chosen
