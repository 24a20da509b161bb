"""What the log says about a decision: kube-scheduler's messages, bounded per decision.

The engine calls `log_verdicts` at -v 10 only, the loop `log_failure` after every failed attempt.

DIVERGES: kube-scheduler's -v 10 has a line per plugin and feasible node, thousands in a large
cluster. Here it has those of the best nodes, and for every filter how many nodes it rejected.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection

import numpy as np

from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.status import Code
from stowplan.logs import V2, V5, V10, Plain, get_logger, kv
from stowplan.scheduler.decision import NO_NODES, Decision
from stowplan.scheduler.outcome import Failure

log = get_logger(__name__)

#: Nodes whose scores are written, and reasons of one filter.
MOST_NODES = 5
MOST_REASONS = 5


def log_failure(failure: Failure) -> None:
    """Say why a pod waits: it fits nowhere, or something broke."""
    pod = failure.pod.key
    said = None if failure.decision is None else failure.decision.post_filter
    level = logging.ERROR if said is not None and said.code is Code.ERROR else V5
    if said is not None and log.isEnabledFor(level):
        text = "Status after running PostFilter plugins for pod"
        log.log(level, text, extra=kv(pod=pod, status=said.message))
    if not failure.status.is_rejected:
        log.error("Error scheduling pod; retrying", extra=kv(pod=pod, err=failure.message))
    elif failure.message == NO_NODES:
        text = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
        log.log(V2, text, extra=kv(pod=pod))
    elif log.isEnabledFor(V2):
        text = "Unable to schedule pod; no fit; waiting"
        log.log(V2, text, extra=kv(pod=pod, err=failure.message))


def log_verdicts(decision: Decision, extenders: Collection[str] = ()) -> None:
    """Write each filter's count of rejected nodes, and the scores of the best nodes.

    `extenders` are the names of those that may have scored nodes, too.

    Must be called before the table changes.
    """
    pod = decision.pod.key
    if decision.diagnosis is not None:
        _log_filters(decision.diagnosis, pod)
    sheet = decision.scores
    if sheet is None:
        return
    best = sheet.top(MOST_NODES)
    for scored in best:
        for name, score in scored.by_plugin.items():
            node = Plain(scored.node)
            if name in extenders:
                fields = kv(pod=pod, extender=name, node=node, score=score)
                log.log(V10, "Extender scored node for pod", extra=fields)
            else:
                fields = kv(pod=pod, plugin=name, node=node, score=score)
                log.log(V10, "Plugin scored node for pod", extra=fields)
    for scored in best:
        fields = kv(pod=pod, node=Plain(scored.node), score=scored.total)
        log.log(V10, "Calculated node's final score for pod", extra=fields)
    if len(sheet.rows) > len(best):
        fields = kv(pod=pod, scoredNodes=len(sheet.rows), shownNodes=len(best))
        log.log(V10, "Left out the scores of other nodes", extra=fields)


def _log_filters(diagnosis: Diagnosis, pod: str) -> None:
    """Count a node at the first filter that rejects it, as the search does."""
    if diagnosis.candidates is None:
        return
    rejected: Counter[str] = Counter({step.name: 0 for step, _ in diagnosis.columns})
    reasons: dict[str, Counter[str]] = {}
    for status, rows in diagnosis.groups():
        rejected[status.plugin] += len(rows)
        counts = reasons.setdefault(status.plugin, Counter())
        for reason in status.reasons:
            counts[reason] += len(rows)
    evaluated = int(np.count_nonzero(diagnosis.candidates))
    for plugin, count in rejected.items():
        top = dict(reasons.get(plugin, Counter()).most_common(MOST_REASONS))
        fields = kv(pod=pod, plugin=plugin, nodes=evaluated, rejected=count, reasons=top)
        log.log(V10, "Plugin filtered nodes for pod", extra=fields)
        evaluated -= count
