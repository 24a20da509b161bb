"""An attempt as kube-scheduler-simulator's annotations show it: what plugins said of each node.

Keys, words and shapes are the simulator's (simulator/scheduler/plugin), so that its web page and
other tools read them. It has no limit but the API server's; here every annotation has one, and
`LEFT_OUT` counts the nodes beyond it. The chosen node, the best ones and the first refused ones are
kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec
import numpy as np

from stowplan.framework.profile import Profile
from stowplan.framework.status import Status
from stowplan.loader.json_text import load_json
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.extender_requests import EXTENDER
from stowplan.scheduler.outcome import Failure, Placement

PREFIX: Final = "kube-scheduler-simulator.sigs.k8s.io/"
HISTORY: Final = f"{PREFIX}result-history"
SELECTED_NODE: Final = f"{PREFIX}selected-node"
#: Nodes that the annotations leave out, by annotation; absent if they have all.
LEFT_OUT: Final = "stowplan.io/annotations-left-out"
#: What the API server allows all annotations of an object together.
MOST_IN_ALL: Final = 256 * 1024
#: What all of ours take at most: every scheduler and kubelet keeps them in memory.
MOST_OURS: Final = 128 * 1024
#: What one annotation takes at most; three of them list nodes by plugin.
_MOST_EACH: Final = 16 * 1024
#: Nodes that are looked at for an annotation; more would not fit in.
_MOST_NODES: Final = 200

_SUCCESS: Final = "success"
_ByNode: TypeAlias = dict[str, dict[str, str]]

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(slots=True)
class Results:
    """The annotations of one attempt, complete once it has ended."""

    values: dict[str, str]
    left_out: dict[str, int] = field(default_factory=dict)


def decided(decision: Decision, profile: Profile) -> Results:
    """What PreFilter, Filter, PostFilter, PreScore and Score said, while the table is the same.

    The decision must have been made with `keeps_verdicts`.
    """
    results = Results({})
    statuses, narrowed = _pre_filter(decision, profile)
    _put(results, "prefilter-result-status", statuses)
    _put_nodes(results, "prefilter-result", narrowed)
    rows = _rows(decision)
    filtered = _filter(decision, rows)
    total = decision.evaluated_nodes if filtered else 0
    _put_nodes(results, "filter-result", filtered, total)
    _put_nodes(results, "postfilter-result", _post_filter(decision, profile, filtered))
    pre_score, raw, final = _score(decision, profile, rows)
    _put(results, "prescore-result", pre_score)
    scored = decision.feasible_nodes if final else 0
    _put_nodes(results, "score-result", raw, scored)
    _put_nodes(results, "finalscore-result", final, scored)
    for point in ("reserve", "permit", "prebind", "bind"):
        _put(results, f"{point}-result", {})
    _put(results, "permit-result-timeout", {})
    results.values[SELECTED_NODE] = decision.node or ""
    return results


def bound(results: Results, placement: Placement) -> None:
    """Add what the points up to Bind said: nothing but success."""
    profile = placement.profile
    waited = placement.waiting.timeouts if placement.waiting is not None else {}
    for point in ("reserve", "permit", "preBind", "bind"):
        said = {plugin.name: _SUCCESS for plugin in profile.at(point)}
        if point == "permit":
            said |= dict.fromkeys(waited, "wait")
            timeouts = dict.fromkeys(said, "0s")
            timeouts |= {name: f"{seconds:g}s" for name, seconds in waited.items()}
            _put(results, "permit-result-timeout", timeouts)
        _put(results, f"{point.lower()}-result", said)


def failed(results: Results, failure: Failure, profile: Profile) -> None:
    """Add what a point after Score said, if one of those failed."""
    status, text = failure.status, failure.status.message
    if failure.decision is not None or not results.values[SELECTED_NODE]:
        return  # no node was chosen
    for point in ("reserve", "permit", "preBind", "bind"):
        spoken = point[0].upper() + point[1:]
        names = [plugin.name for plugin in profile.at(point)]
        blamed = next((name for name in names if _blames(status, text, spoken, name)), "")
        ran = names[: names.index(blamed)] if blamed else names
        said = dict.fromkeys(ran, _SUCCESS) | ({blamed: text} if blamed else {})
        _put(results, f"{point.lower()}-result", said)
        if blamed:
            return


def annotated(results: Results, current: Mapping[str, str]) -> dict[str, str]:
    """All annotations of an attempt, with the history of those before, within the limits.

    `current` are those that the pod has.
    """
    wanted = dict(results.values)
    if results.left_out:
        wanted[LEFT_OUT] = _encode(results.left_out).decode()
    ours = (*wanted, HISTORY, LEFT_OUT)
    others = _size({key: text for key, text in current.items() if key not in ours})
    room = min(MOST_OURS, MOST_IN_ALL - others)
    while _size(wanted) > room and wanted:  # the pod's own take nearly all of it
        del wanted[max(wanted, key=lambda key: len(wanted[key]))]
    history = [*_history(current.get(HISTORY, "")), results.values]
    while history:
        text = _encode(history).decode()
        if _size({**wanted, HISTORY: text}) <= room:
            wanted[HISTORY] = text
            break
        del history[0]  # the newest are likely more important
    return wanted


# Inside


def _put(results: Results, name: str, said: Mapping[str, str]) -> None:
    results.values[PREFIX + name] = _encode(said).decode("utf-8", "replace")


def _put_nodes(
    results: Results,
    name: str,
    said: Mapping[str, dict[str, str]] | Mapping[str, list[str]],
    total: int = 0,
) -> None:
    """Keep as many entries as fit in; those that do not, and nodes of `total`, are counted."""
    kept: dict[str, object] = {}
    room = _MOST_EACH
    for key, value in said.items():
        room -= len(_encode(value)) + len(key) + 4
        if room < 0:
            break
        kept[key] = value
    results.values[PREFIX + name] = _encode(kept).decode("utf-8", "replace")
    missing = max(total, len(said)) - len(kept)
    if missing > 0:
        results.left_out[name] = missing


def _rows(decision: Decision) -> list[int]:
    """The rows to tell of: the chosen node, the best ones, then refused ones."""
    table, diagnosis, sheet = decision.cycle.table, decision.diagnosis, decision.scores
    chosen = [table.row_of[decision.node]] if decision.node is not None else []
    best: list[int] = []
    if sheet is not None:
        best = sheet.rows[np.argsort(-sheet.totals, kind="stable")[:_MOST_NODES]].tolist()
    refused: list[int] = []
    if diagnosis is not None and diagnosis.candidates is not None:
        for _, rows in diagnosis.groups():
            refused += rows[:_MOST_NODES].tolist()
            if len(refused) > _MOST_NODES:
                break
    return list(dict.fromkeys([*chosen, *best[: _MOST_NODES // 2], *refused, *best]))[:_MOST_NODES]


def _pre_filter(
    decision: Decision, profile: Profile
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Every plugin's status; the nodes that those name which name any."""
    diagnosis, skipped = decision.diagnosis, decision.cycle.skip_filter
    rejected = diagnosis is not None and diagnosis.candidates is None
    blamed = diagnosis.absent.plugin if diagnosis is not None and rejected else ""
    said: dict[str, str] = {}
    for name, _ in profile.pre_filters:
        # The simulator shows the message of a status that is no success, and a skip has none.
        said[name] = "" if name in skipped else _SUCCESS
        if name == blamed and diagnosis is not None:
            said[name] = diagnosis.pre_filter_message
            break
    narrowed: dict[str, list[str]] = {}
    if diagnosis is not None and diagnosis.candidates is not None and diagnosis.absent_count():
        table = decision.cycle.table
        left = [table.names[row] for row in np.flatnonzero(diagnosis.candidates)[:_MOST_NODES]]
        refusing = {step.name for step in profile.filters if step.name not in skipped}
        named = diagnosis.absent.message
        narrowed = {name: left for name, _ in profile.pre_filters if _names(named, name, refusing)}
    return said, narrowed


def _names(message: str, name: str, known: Iterable[str]) -> bool:
    """Whether `node(s) didn't satisfy plugin(s) [A B]` names a plugin."""
    return name in known and name in message.partition("[")[2].rstrip("]").split()


def _filter(decision: Decision, rows: list[int]) -> _ByNode:
    """What each filter said of a node, up to the one that refused it."""
    diagnosis, table = decision.diagnosis, decision.cycle.table
    if diagnosis is None or diagnosis.candidates is None:
        return {}
    said: _ByNode = {}
    for row in rows:
        if row in diagnosis.overrides:
            status = diagnosis.overrides[row]
            if status.plugin and status.plugin != EXTENDER:
                said[table.names[row]] = {status.plugin: status.message}
            continue
        if not diagnosis.candidates[row]:
            continue
        of_node = said[table.names[row]] = {}
        for step, verdicts in diagnosis.columns:
            verdict = int(verdicts[row])
            if verdict:
                of_node[step.name] = step.status(decision.cycle, verdict).message
                break
            of_node[step.name] = "passed"
    return said


def _post_filter(decision: Decision, profile: Profile, filtered: _ByNode) -> _ByNode:
    plugins = profile.at("postFilter")
    if decision.node is not None or not plugins:
        return {}
    said: _ByNode = {name: {} for name in filtered}
    if decision.nominated_node:
        chosen = {plugins[0].name: "preemption victim"}
        said = {decision.nominated_node: chosen} | {
            name: {} for name in filtered if name != decision.nominated_node
        }
    return said


def _score(
    decision: Decision, profile: Profile, rows: list[int]
) -> tuple[dict[str, str], _ByNode, _ByNode]:
    """PreScore's statuses, raw scores and weighted scores."""
    sheet, cycle = decision.scores, decision.cycle
    if sheet is None:
        return {}, {}, {}
    pre = {name: "" if name in cycle.skip_score else _SUCCESS for name, _ in profile.pre_scores}
    places = {row: place for place, row in enumerate(sheet.rows.tolist())}
    scored = [row for row in rows if row in places]
    names = cycle.table.names
    raw: _ByNode = {names[row]: {} for row in scored}
    final: _ByNode = {names[row]: {} for row in scored}
    for step in profile.scores:
        if step.name in cycle.skip_score:
            continue
        if step.is_cached:
            column = profile.columns.scores(step, cycle)
        else:
            column = np.zeros(cycle.table.capacity, np.int64)
            step.fill(cycle, np.array(scored, np.intp), column)
        for row in scored:
            raw[names[row]][step.name] = str(int(column[row]))
    for name, weighted in sheet.by_plugin:
        for row in scored:
            final[names[row]][name] = str(int(weighted[places[row]]))
    return pre, raw, final


def _blames(status: Status, text: str, point: str, name: str) -> bool:
    if status.plugin:
        return status.plugin == name
    return f'{point} plugin "{name}"' in text


def _history(text: str) -> list[dict[str, str]]:
    """The results of earlier attempts; none if it is not what a scheduler writes."""
    try:
        return load_json(text or "[]", list[dict[str, str]])
    except ValueError:
        return []


def _size(texts: Mapping[str, str]) -> int:
    """As the API server counts: keys and values."""
    return sum(len(key.encode()) + len(text.encode()) for key, text in texts.items())
