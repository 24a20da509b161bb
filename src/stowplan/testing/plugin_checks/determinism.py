"""Determinism: another instance, node order or process gives the same results.

Python orders sets of texts differently in every process. The cases are repeated in a second process
with another hash seed (`python -m stowplan.testing.plugin_checks.determinism`), which prints a
digest of each case's answers.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from random import Random
from typing import Any

from stowplan.loader.json_text import load_json
from stowplan.testing.plugin_checks.asking import Asker, PluginAnswers, in_words
from stowplan.testing.plugin_checks.cases import Case
from stowplan.testing.plugin_checks.subject import CheckFailed, NotApplicable, Subject, load_subject

_HASH_SEED = "1"
_PATIENCE_S = 120.0


def check_instances(subject: Subject) -> None:
    """Two instances give the same answers, and so does one that knew the nodes in another order."""
    for case in subject.cases:
        here, draws = _ask_all(subject, case)
        there, _ = _ask_all(subject, case)
        _compare(subject, case, here, there, "in one instance", "in another")
        if not draws:
            # A plugin that draws from handle.rng per node may depend on their order.
            turned, _ = _ask_all(subject, case, reversed_nodes=True)
            _compare(subject, case, here, turned, "as it is", "with the nodes in reverse order")


def _ask_all(
    subject: Subject, case: Case, *, reversed_nodes: bool = False
) -> tuple[list[PluginAnswers], bool]:
    cluster, plugin = subject.on(case, reversed_nodes=reversed_nodes)
    asker = Asker(plugin, cluster)
    said = []
    draws = False
    for pod in case.askers:
        cluster.rng.setstate(Random(7).getstate())
        before = cluster.rng.getstate()
        said.append(asker.ask(pod))
        draws = draws or cluster.rng.getstate() != before
    return said, draws


def _compare(
    subject: Subject,
    case: Case,
    one: list[PluginAnswers],
    two: list[PluginAnswers],
    here: str,
    there: str,
) -> None:
    for pod, mine, theirs in zip(case.askers, one, two, strict=True):
        if mine.problem and theirs.problem:
            continue  # check_answers tells; which node is named may depend on their order
        told = mine.difference(theirs, here, there)
        if told:
            raise CheckFailed(
                f"{subject.name} is not deterministic: {in_words(pod)}, {told}"
                f" (cluster {case.seed}).",
                "let nothing count but the pod, the node and the arguments: no class attributes"
                " that change, no id(), no counters, no positions of nodes.",
            )


def check_processes(subject: Subject) -> None:
    """A process with another hash seed gives the same answers."""
    mine = digests(subject)
    theirs = _digests_elsewhere(subject)
    for case, here, there in zip(subject.cases, mine, theirs, strict=True):
        if here != there:
            raise CheckFailed(
                f"{subject.name} answers differently in another process (cluster {case.seed}):"
                " its answers depend on the order of a set or on hash().",
                "sort before you choose: iterate over sorted(...) instead of a set, use"
                " hashlib instead of hash() and id().",
            )


def digests(subject: Subject) -> list[str]:
    """The answers of each case, in a form that can be printed."""
    return [
        hashlib.sha256(repr(_ask_all(subject, case)[0]).encode()).hexdigest()[:16]
        for case in subject.cases
    ]


def _digests_elsewhere(subject: Subject) -> list[str]:
    asked = {"spec": subject.spec, "args": subject.args, "cases": subject.count}
    environment = {
        **os.environ,
        "PYTHONHASHSEED": _HASH_SEED,
        "PYTHONPATH": os.pathsep.join(place or "." for place in sys.path),
    }
    finished = subprocess.run(  # noqa: S603 - our own interpreter, with our own module
        [sys.executable, "-m", __spec__.name, json.dumps(asked)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    if finished.returncode:
        last = (finished.stderr.strip() or "no message").splitlines()[-1]
        raise NotApplicable(f"another process cannot load it: {last}")
    found: list[str] = load_json(finished.stdout.splitlines()[-1])
    return found


def main(asked: Mapping[str, Any]) -> None:
    """What the second process does."""
    subject = load_subject(asked["spec"], asked["args"], cases=asked["cases"])
    sys.stdout.write(json.dumps(digests(subject)) + "\n")


if __name__ == "__main__":
    main(load_json(sys.argv[1]))
