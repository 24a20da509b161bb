"""`run --annotate` on the embedded and on the real API server: what is written into pods."""

from __future__ import annotations

import json
import time
from typing import Any

from stowplan.scheduler.simulator_results import HISTORY, LEFT_OUT, PREFIX
from tests.integration.target import Target
from tests.waiting import wait_for

#: The keys of kube-scheduler-simulator, simulator/scheduler/plugin/annotation.
KEYS = {
    f"{PREFIX}{name}"
    for name in (
        *("prefilter-result-status", "prefilter-result", "filter-result", "postfilter-result"),
        *("prescore-result", "score-result", "finalscore-result", "reserve-result"),
        *("permit-result", "permit-result-timeout", "prebind-result", "bind-result"),
        *("selected-node", "result-history"),
    )
}


def written(target: Target, name: str) -> dict[str, str]:
    return dict(target.pod(name)["metadata"].get("annotations", {}))


def annotated(target: Target, name: str) -> dict[str, Any]:
    """The simulator's annotations of a pod once it has them, decoded, without the prefix."""
    found = wait_for(
        f"annotations of {name}",
        lambda: written(target, name) if HISTORY in written(target, name) else None,
    )
    assert found.keys() >= KEYS
    node = f"{PREFIX}selected-node"
    return {
        key.removeprefix(PREFIX): value if key == node else json.loads(value)
        for key, value in found.items()
        if key.startswith(PREFIX)
    }


def test_a_placed_pod_tells_what_every_plugin_said(target: Target) -> None:
    target.create_nodes("n1", "n2")
    target.create_nodes("small", cpu="1")
    target.start("--annotate")
    target.create_pods("web", cpu="2")
    node = target.wait_bound("web")["web"]
    said = annotated(target, "web")
    assert said["selected-node"] == node
    assert said["filter-result"][node]["NodeResourcesFit"] == "passed"
    assert said["filter-result"]["small"]["NodeResourcesFit"] == "Insufficient cpu"
    assert "TaintToleration" in said["filter-result"]["small"], "those before it passed"
    assert said["prefilter-result-status"]["NodeResourcesFit"] == "success"
    assert said["prefilter-result-status"]["InterPodAffinity"] == "", "it skipped"
    assert said["prefilter-result"] == said["postfilter-result"] == {}
    assert said["prescore-result"]["NodeResourcesFit"] == "success"
    assert said["score-result"].keys() == said["finalscore-result"].keys() == {"n1", "n2"}
    assert said["score-result"][node]["NodeResourcesFit"].isdigit()
    assert said["finalscore-result"][node]["TaintToleration"] == "300"  # 100 by weight 3
    assert said["reserve-result"]["VolumeBinding"] == "success"
    assert said["permit-result"] == said["permit-result-timeout"] == {}
    assert said["prebind-result"]["VolumeBinding"] == "success"
    assert said["bind-result"] == {"DefaultBinder": "success"}
    (first,) = said["result-history"]
    assert first[f"{PREFIX}selected-node"] == node
    assert LEFT_OUT not in written(target, "web")


def test_a_waiting_pod_keeps_its_history_and_is_not_tried_again_because_of_it(
    target: Target,
) -> None:
    target.create_nodes("n1", cpu="1")
    scheduler = target.start("--annotate", "-v=3")
    target.create_pods("big", cpu="2")
    said = annotated(target, "big")
    assert said["selected-node"] == ""
    assert said["filter-result"]["n1"]["NodeResourcesFit"] == "Insufficient cpu"
    assert said["postfilter-result"] == {"n1": {}}
    assert said["score-result"] == said["bind-result"] == {}
    time.sleep(2.5)  # longer than its backoff: an update that moved it would show
    assert scheduler.log.count("Attempting to schedule pod") == 1
    target.create_nodes("n2", cpu="4")
    target.wait_bound("big")
    wait_for("the second attempt", lambda: len(annotated(target, "big")["result-history"]) == 2)
    last = annotated(target, "big")
    assert [each[f"{PREFIX}selected-node"] for each in last["result-history"]] == ["", "n2"]


def test_what_does_not_fit_in_is_counted(target: Target) -> None:
    target.create_nodes(*(f"{'n' * 40}-{number}" for number in range(120)))
    target.start("--annotate")
    target.create_pods("web")
    node = target.wait_bound("web")["web"]
    said = annotated(target, "web")
    left_out = json.loads(written(target, "web")[LEFT_OUT])
    for name in ("filter-result", "score-result", "finalscore-result"):
        assert left_out.get(name, 0) == 120 - len(said[name])
        assert node in said[name], "the chosen one is kept"
    assert left_out["filter-result"] > 0


def test_without_the_flag_nothing_is_written_into_pods(target: Target) -> None:
    target.create_nodes("n1", cpu="1")
    target.start()
    target.create_pods("web")
    target.create_pods("big", cpu="2")
    target.wait_bound("web")
    target.wait_condition("big", "False")
    target.wait_event("web", "Scheduled")
    assert written(target, "web") == written(target, "big") == {}
