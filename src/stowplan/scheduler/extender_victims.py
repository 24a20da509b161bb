"""Extenders' part in preemption: they narrow the candidate nodes and their victims.

Part of the pure cycle; `making_room` calls it for plugins that ask (`framework.candidates`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import NodeTable
from stowplan.errors import ExtenderError
from stowplan.framework.candidates import Candidates, Victims
from stowplan.framework.cycle import Cycle
from stowplan.framework.status import Status, error
from stowplan.logs import V2, get_logger, kv
from stowplan.scheduler.extender_requests import (
    Answer,
    Extender,
    Failed,
    PreemptAnswer,
    PreemptRequest,
    Request,
)

log = get_logger(__name__)


def ask_about_victims(
    extenders: Sequence[Extender], candidates: Candidates, cycle: Cycle
) -> Generator[Request, Answer, Candidates | Status]:
    """Ask the extenders in turn, each about the candidates that the previous ones left.

    Returns an error status if an extender fails that is not ignorable.
    """
    for extender in extenders:
        if not extender.preempts or not candidates:
            continue
        answer = yield PreemptRequest(extender, cycle.pod, candidates)
        try:
            candidates = _left(extender, answer, cycle.table)
        except ExtenderError as problem:
            if not extender.is_ignorable:
                return error(str(problem))
            log.log(
                V2,
                "Skipped extender as it returned error and has ignorable flag set",
                extra=kv(extender=extender.name, err=str(problem)),
            )
    return candidates


def _left(extender: Extender, answer: Answer, table: NodeTable) -> Candidates:
    if isinstance(answer, Failed):
        raise ExtenderError(answer.message)
    assert isinstance(answer, PreemptAnswer)
    left: dict[str, Victims] = {}
    for node, (uids, violations) in answer.victims.items():
        row = table.live_row(node)
        if row is None:
            raise ExtenderError(f'nodeinfo not found for node name "{node}"')
        left[node] = Victims(
            tuple(_victim(extender, table, row, node, uid) for uid in uids), violations
        )
    for node in [node for node, victims in left.items() if not victims.pods]:
        if not extender.is_ignorable:
            raise ExtenderError(f'expected at least one victim pod on node "{node}"')
        log.log(
            V2,
            "Ignored node for which the extender didn't report victims",
            extra=kv(node=node, extender=extender.name),
        )
        del left[node]
    return left


def _victim(extender: Extender, table: NodeTable, row: int, node: str, uid: str) -> PodInfo:
    info = table.pods[row].get(uid)
    if info is None:
        raise ExtenderError(
            f"extender: {extender.name} claims to preempt pod (UID: &{{{uid}}}) on node: {node},"
            " but the pod is not found on that node"
        )
    return info
