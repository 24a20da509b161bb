"""Extenders in the configuration: kube-scheduler and Stowplan ask them alike, and heed them alike.

The extenders are alpha and beta, both the small one in Go; beta may be ignored.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from tests.controlplane_fixtures import require_binaries
from tests.e2e.extender_scenarios import (
    GADGET,
    OTHER,
    asking_our_own,
    filtering,
    managing,
    preempting,
    scoring,
    troubled,
    waiting,
    waking,
)
from tests.e2e.extender_stage import COUNTED, CPUS, Json, Play, Seen, Stage, budget, configuration
from tests.e2e.go_extender import GoExtender, go_extender
from tests.e2e.scheduler_play import node_of
from tests.e2e.schedulers import stowplan
from tests.integration.extender_kit import extender
from tests.unit.api.tls_kit import Authority

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ALL = sorted(CPUS)
VERBS = {
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "weight": 1,
}
BINDER = "algorithms: [tests.e2e.extender_algorithms:Binder]\nalgorithm: !Binder\n"
SERVER_NAME = "extender.example.com"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    require_binaries("etcd", "kube-apiserver", "kube-scheduler", "extender")
    directory = tmp_path_factory.mktemp("extenders")
    with (
        ControlPlane() as plane,
        go_extender("alpha", directory, plane.kubeconfig) as alpha,
        go_extender("beta", directory, plane.kubeconfig) as beta,
    ):
        yield Stage(plane, alpha, beta)


@pytest.mark.parametrize("form", ["names", "whole"])
def test_two_in_a_row(stage: Stage, form: str) -> None:
    alpha, beta = stage.extenders
    nodes = {"nodeCacheCapable": form == "names"}
    config = configuration(
        [
            # One that may be ignored is asked after all others.
            {**VERBS, **nodes, "urlPrefix": f"{beta.url}/b/", "weight": 3, "ignorable": True},
            {**VERBS, **nodes, "urlPrefix": alpha.url},
        ]
    )

    def scenario(play: Play) -> None:
        waking(play)
        filtering(play, form)
        scoring(play, form)
        with budget(stage, "guard", app="guarded"):
            preempting(play)
        for asked in stage.extenders:
            connections, requests = play.connections(asked)
            assert connections * 5 < requests, "connections are kept"

    seen = stage.compared(config, scenario, before=waiting)

    assert seen["free"].asked("alpha", "filter") == [ALL]
    assert seen["free"].asked("beta", "prioritize") == [ALL]
    assert seen["narrowed"].asked("beta", "filter") == [["a-1", "a-2", "b-1"]]
    assert seen["narrowed"].asked("alpha", "prioritize") == [["a-1", "a-2"]]
    assert seen["single"].asked("alpha", "prioritize") == [], "there is nothing to choose"
    assert seen["nowhere"].asked("beta", "filter") == [["b-1", "b-2"]]
    assert seen["never"].requests["beta"] == [], "nothing is left to ask about"
    assert seen["selecting"].asked("alpha", "filter") == [["a-1", "a-2"]]
    paths = {line["path"] for line in seen["free"].requests["beta"]}
    assert paths == {"/b/filter", "/b/prioritize"}
    _arrived_intact(stage, seen["rich"], form)
    _victims_were_offered(seen, form)


def _arrived_intact(stage: Stage, seen: Seen, form: str) -> None:
    for verb in ("filter", "prioritize"):
        body = seen.body("alpha", verb)
        assert body.keys() == {"Pod", "Nodes", "NodeNames"}
        spec = {key: value for key, value in seen.pod["spec"].items() if key != "nodeName"}
        assert body["Pod"]["spec"] == spec
        assert body["Pod"]["metadata"] == seen.pod["metadata"]
        assert body["NodeNames"] == (ALL if form == "names" else None)
        assert body["Nodes"] == ({"items": stage.nodes()} if form == "whole" else None)


def _victims_were_offered(seen: dict[str, Seen], form: str) -> None:
    field, other = "NodeNameToMetaVictims", "NodeNameToVictims"
    if form == "whole":
        field, other = other, field
    asked = {name: seen["urgent-elsewhere"].body(name, "preempt") for name in ("alpha", "beta")}
    assert asked["alpha"][other] is None
    assert sorted(asked["alpha"][field]) == ALL
    assert sorted(asked["beta"][field]) == ["a-2", "b-1", "b-2"]
    guarded, free = (asked["alpha"][field][node] for node in ("a-1", "b-1"))
    assert (guarded["NumPDBViolations"], free["NumPDBViolations"]) == (1, 0)
    if form == "names":
        assert guarded["Pods"] == [{"UID": "full-a-1"}]
    else:
        (victim,) = guarded["Pods"]
        assert victim["metadata"]["name"] == "full-a-1"
        assert victim["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    told = [["Normal", "Preempted", "Preempted by pod urgent on node a-2"]]
    assert seen["evicted by urgent"].events == told


def test_resources_that_an_extender_manages_and_pods_that_it_binds(stage: Stage) -> None:
    alpha, _ = stage.extenders
    settings = {
        **VERBS,
        "urlPrefix": alpha.url,
        "bindVerb": "bind",
        "httpTimeout": "2s",
        "nodeCacheCapable": True,
        "managedResources": [{"name": GADGET, "ignoredByScheduler": True}, {"name": COUNTED}],
    }
    seen = stage.compared(configuration([settings], ignored=[OTHER]), managing)

    def binder(name: str) -> Any:
        return seen[name].pod["metadata"].get("annotations", {}).get("bound-by")

    assert seen["plain"].requests["alpha"] == []
    assert binder("plain") is None
    assert seen["counted"].asked("alpha", "filter") == [["a-2", "b-1"]]
    for name in ("gadget", "starter", "counted"):
        assert binder(name) == "alpha"
    body = {"PodName": "gadget", "PodNamespace": "default", "PodUID": "gadget", "Node": "a-1"}
    assert seen["gadget"].body("alpha", "bind") == body
    conditions = seen["unbound-error"].pod["status"]["conditions"]
    assert [condition["reason"] for condition in conditions] == ["SchedulerError"]


def test_extenders_that_fail(stage: Stage) -> None:
    alpha, beta = stage.extenders
    gone = f"127.0.0.1:{free_port()}"

    def one(resource: str, url: str, **more: Any) -> Json:
        managed = {"name": f"example.com/{resource}", "ignoredByScheduler": True}
        return {"urlPrefix": url, "filterVerb": "filter", "managedResources": [managed], **more}

    scored = {"prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True}
    config = configuration(
        [
            one("needed", alpha.url, **scored),
            one("optional", beta.url, bindVerb="bind", ignorable=True),
            one("slow", alpha.url, httpTimeout="1s", **scored),
            one("slow-optional", beta.url, httpTimeout="1s", ignorable=True),
            one("gone", f"http://{gone}/"),
            one("gone-optional", f"http://{gone}", ignorable=True),
        ]
    )
    seen = stage.compared(config, lambda play: troubled(play, gone))
    for name in ("bound-anyway-error", "bound-anyway-500"):
        assert seen[name].asked("beta", "bind") == [["b-2"]]
        assert "bound-by" not in seen[name].pod["metadata"]["annotations"]


def test_an_extender_that_comes_and_goes(stage: Stage, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"

    def gamma() -> AbstractContextManager[GoExtender]:
        return go_extender("gamma", tmp_path, stage.plane.kubeconfig, address=address)

    verbs = {"filterVerb": "filter", "bindVerb": "bind", "nodeCacheCapable": True}
    config = configuration([{**verbs, "urlPrefix": f"http://{address}"}])
    rules = {"gamma.refuse": "b-2=too old"}

    def scenario(play: Play) -> None:
        nobody = f'Post "http://{address}/filter": dial tcp {address}: connect: connection refused'
        play.pod("early", nobody, rules=rules, keep=True)
        with gamma():
            play.becomes("early", "b-1", until=node_of)
            play.remove("early")
            play.pod("first", "b-1", rules=rules)
        with gamma():
            # The connection that was kept is of no use any more.
            play.pod("second", "b-1", rules=rules)

    seen = stage.compared(config, scenario)
    for name in ("first", "second"):
        assert [event[1] for event in seen[name].events] == ["Scheduled"]
        assert seen[name].pod["metadata"]["annotations"]["bound-by"] == "gamma"


def test_https(stage: Stage, tmp_path: Path) -> None:
    """One server that demands a client's certificate, in six ways of being asked."""
    server, clients = Authority("a-server-authority"), Authority("a-client-authority")
    contents = {"server-ca": server.cert, "client-ca": clients.cert}
    for name, pair in {
        "server": server.server(SERVER_NAME),
        "client": clients.client("a-scheduler"),
    }.items():
        contents |= {name: pair.cert, f"{name}-key": pair.key}
    files = {name: tmp_path / f"{name}.pem" for name in contents}
    for name, content in contents.items():
        files[name].write_bytes(content)
    data = {name: base64.b64encode(content).decode() for name, content in contents.items()}
    certified = {"certFile": str(files["client"]), "keyFile": str(files["client-key"])}
    named = {"serverName": SERVER_NAME}
    trusting = {"caFile": str(files["server-ca"]), **named}
    ways: dict[str, Json] = {
        "files": {**trusting, **certified},
        "data": {
            "caData": data["server-ca"],
            "certData": data["client"],
            "keyData": data["client-key"],
            **named,
        },
        "insecure": {"insecure": True, **certified},
        "no-authority": certified,
        "another-authority": {"caFile": str(files["client-ca"]), **named, **certified},
        "another-name": {"caFile": str(files["server-ca"]), **certified},
        "anonymous": trusting,
    }
    flags = {"cert": files["server"], "key": files["server-key"], "client_ca": files["client-ca"]}
    with go_extender("gamma", tmp_path, **flags) as gamma:
        config = configuration(
            [
                {
                    "urlPrefix": gamma.url,
                    "filterVerb": "filter",
                    "enableHTTPS": True,
                    "tlsConfig": way,
                    "nodeCacheCapable": True,
                    "managedResources": [
                        {"name": f"example.com/{name}", "ignoredByScheduler": True}
                    ],
                }
                for name, way in ways.items()
            ]
        )

        def scenario(play: Play) -> None:
            rules = {"gamma.refuse": "b-2=too old"}
            for name in ways:
                is_served = name in ("files", "data", "insecure", "no-authority")
                post = 'Post "<gamma>/filter": '
                then, vague = ("b-1", "") if is_served else (f"{post}...", f"(?<={post}).+")
                play.pod(name, then, vague=vague, resource=f"example.com/{name}", rules=rules)

        seen = stage.compared(config, scenario, [gamma])
        for name in ("files", "data", "insecure", "no-authority"):
            assert {line["client"] for line in seen[name].requests["gamma"]} == {"a-scheduler"}
        for name in ("another-authority", "another-name", "anonymous"):
            assert seen[name].requests["gamma"] == []


@pytest.mark.parametrize("form", ["names", "whole"])
def test_stowplan_asks_its_own_extender(stage: Stage, tmp_path: Path, form: str) -> None:
    plane = stage.plane
    env = {
        "BINDER_SERVER": plane.url,
        "BINDER_TOKEN": plane.admin_token,
        "BINDER_CA": str(plane.certificate_authority),
    }
    play = Play(plane, ())
    with extender(tmp_path, BINDER, env=env) as ours:
        settings = {
            **VERBS,
            "urlPrefix": ours.url,
            "bindVerb": "bind",
            "nodeCacheCapable": form == "names",
        }
        with stowplan(plane, configuration([settings])):
            stage.perform(play, asking_our_own)
    assert play.outcomes() == play.expected
    assert play.seen["only"].pod["metadata"]["annotations"]["bound-by"] == "extender"
