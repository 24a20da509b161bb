"""Purity: equal inputs give equal results, and a call changes nothing.

Each call is repeated, directly and after other calls. Pods, nodes, the table, the catalog and the
calls of the handle are compared before and after.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from stowplan.api.objects import Pod
from stowplan.testing.plugin_checks.asking import Asker, PluginAnswers, in_words
from stowplan.testing.plugin_checks.cases import Case
from stowplan.testing.plugin_checks.subject import CaseCluster, CheckFailed, Subject

_encode = msgspec.json.Encoder(order="deterministic").encode


def check_same_question(subject: Subject) -> None:
    """The same question twice has the same answer."""
    for case in subject.cases:
        cluster, plugin = subject.on(case)
        asker = Asker(plugin, cluster)
        first = [_asked(asker, pod) for pod in case.askers]
        # Backwards: a plugin that remembers the previous pod now has another one.
        again = [_asked(asker, pod) for pod in reversed(case.askers)][::-1]
        for pod, before, after in zip(case.askers, first, again, strict=True):
            told = before.difference(after, "when asked first", "when asked again")
            if told:
                raise CheckFailed(
                    f"{subject.name} answers the same question differently: {in_words(pod)}, {told}"
                    f" (cluster {case.seed}).",
                    "answer from the pod and the node alone. What is computed for one attempt"
                    " belongs in the cycle (cycle.write), not onto the plugin; randomness comes"
                    " from handle.rng and time from handle.clock, or not at all.",
                )


def _asked(asker: Asker, pod: Pod) -> PluginAnswers:
    # handle.rng is an input: the same question finds it in the same state.
    asker.cluster.rng.setstate(Random(7).getstate())
    return asker.ask(pod)


def check_changes_nothing(subject: Subject) -> None:
    """Asking changes neither pods nor nodes, nor anything by way of the handle."""
    for case in subject.cases:
        cluster, plugin = subject.on(case)
        asker = Asker(plugin, cluster)
        for pod in case.askers:
            before = _picture(cluster, case, pod)
            asker.ask(pod)
            _compare(subject, before, _picture(cluster, case, pod), pod)
            if cluster.used:
                raise CheckFailed(
                    f"{subject.name} used {cluster.used[0]} while it judged {in_words(pod)}.",
                    "filters and scores only answer. Effects belong in reserve, permit and the"
                    " binding points, which run once a node is chosen.",
                )


def _picture(cluster: CaseCluster, case: Case, pod: Pod) -> dict[str, Any]:
    table = cluster.table
    rows = table.used_slots
    picture: dict[str, Any] = {f"the pod {pod.key}, which is asked about": _encode(pod)}
    for node in case.nodes:
        picture[f"node {node.name}"] = _encode(node)
    for standing in case.standing:
        picture[f"the pod {standing.key}, which stands on a node"] = _encode(standing)
    picture["the node table"] = (
        table.version,
        list(table.names),
        table.valid[rows].tolist(),
        table.pod_count[rows].tolist(),
        table.allowed_pods[rows].tolist(),
        table.unschedulable[rows].tolist(),
        table.taint_class[rows].tolist(),
        # More resources may have got a row meanwhile; those that had one hold what they held.
        table.allocatable[:3, rows].tolist(),
        table.requested[:3, rows].tolist(),
        table.non_zero[:, rows].tolist(),
        [sorted(pods) for pods in table.pods],
    )
    return picture


def _compare(subject: Subject, before: dict[str, Any], after: dict[str, Any], pod: Pod) -> None:
    for what, was in before.items():
        if after[what] != was:
            raise CheckFailed(
                f"{subject.name} changed {what} while it judged {in_words(pod)}.",
                "treat pods, nodes and the table as read only: they are shared by all plugins and"
                " by the attempts to come. Notes for later points belong in cycle.write(...).",
            )
