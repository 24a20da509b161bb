"""kube-scheduler and Stowplan write the same Event on the Lease when they begin to lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.e2e.schedulers import kube_scheduler, stowplan
from tests.waiting import wait_for

pytestmark = pytest.mark.e2e

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: shared}
profiles: [{schedulerName: first}, {schedulerName: second}]
clientConnection: {kubeconfig: "{kubeconfig}"}
"""
EVENTS = "/namespaces/kube-system/events?fieldSelector=reason=LeaderElection"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/shared"
#: What must differ from run to run: names, times, who leads.
VARIABLE = re.compile(
    r"uid|resourceVersion|creationTimestamp|time|manager|name$|Timestamp$|message|note"
)


@pytest.fixture(scope="module")
def events() -> Iterator[dict[str, list[Any]]]:
    """By group: the event of kube-scheduler, then that of Stowplan."""
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    groups = {"core": f"/api/v1{EVENTS}", "events.k8s.io": f"/apis/events.k8s.io/v1{EVENTS}"}
    with ControlPlane() as plane:

        def written(count: int) -> dict[str, list[Any]] | None:
            found = {group: plane.api.get(path)["items"] for group, path in groups.items()}
            for items in found.values():
                items.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
            return found if len(found["core"]) == count else None

        with kube_scheduler(plane, CONFIG, "--leader-elect=true"):
            wait_for("kube-scheduler's event", lambda: written(1))
        leader = plane.api.get(LEASE)["spec"]["holderIdentity"]
        assert leader == "", "it gave the lease back"
        with stowplan(plane, CONFIG):
            found = wait_for("Stowplan's event", lambda: written(2))
            lease = plane.api.get(LEASE)
            last = found["core"][-1]
            assert last["message"] == f"{lease['spec']['holderIdentity']} became leader"
            assert last["involvedObject"]["uid"] == lease["metadata"]["uid"]
            yield found


def fixed(value: Any) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        return {
            key: type(inner) if VARIABLE.search(key) else fixed(inner)
            for key, inner in value.items()
            if key != "managedFields"
        }
    return value


@pytest.mark.parametrize("group", ["core", "events.k8s.io"])
def test_both_programs_write_the_same_event(group: str, events: dict[str, list[Any]]) -> None:
    upstream, ours = events[group]
    assert fixed(ours) == fixed(upstream)


def test_names_texts_and_times_have_the_same_form(events: dict[str, list[Any]]) -> None:
    for event in events["core"]:
        assert re.fullmatch(r"shared\.[0-9a-f]{16}", event["metadata"]["name"])
        assert re.fullmatch(r"\S+ became leader", event["message"])
        assert event["firstTimestamp"] == event["lastTimestamp"]
        assert event["involvedObject"]["name"] == "shared"
        assert event["source"] == {"component": "first"}


def test_both_were_written_with_the_same_fields(events: dict[str, list[Any]]) -> None:
    upstream, ours = (event["metadata"]["managedFields"] for event in events["core"])
    assert [(each["apiVersion"], each["fieldsV1"]) for each in ours] == [
        (each["apiVersion"], each["fieldsV1"]) for each in upstream
    ]
