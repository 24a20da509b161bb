"""`stowplan decide` with StaticPlacement in the profile: the verdicts of pinned pods."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml

from stowplan.cli.main import main
from stowplan.testing import as_manifest, node, pod
from tests.unit.plugins.static_placement.placement_kit import RESPECTFUL, STRICT

WEB_0, OLD = "rf.scheduler.test.default/web-0", "rf.scheduler.test/web-0"
POD = as_manifest(pod("web-0", scheduler_name="test", uid="p"))
NODES = [
    as_manifest(node("bare")),
    as_manifest(node("pinned", labels={WEB_0: ""})),
    as_manifest(node("cordoned", labels={WEB_0: "x"}, unschedulable=True)),
    as_manifest(node("listed", annotations={"rf.scheduler.test.default/pods": "web-1 web-0"})),
    as_manifest(node("older", labels={OLD: ""})),
]
EXCLUDED, SUCCESS = {"code": "ExcludedByPreFilter"}, {"code": "Success"}


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    def asked(config: str, objects: list[dict[str, Any]], **args: Any) -> dict[str, Any]:
        tree = yaml.safe_load(config)
        if args:
            tree["profiles"][0]["pluginConfig"] = [{"name": "StaticPlacement", "args": args}]
        line = json.dumps({"config": tree, "objects": objects, "pod": POD})
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
        with pytest.raises(SystemExit):
            main(["decide"])
        out, err = capfd.readouterr()
        # Nothing is bound, so nothing is warned of.
        assert err == ""
        answer: dict[str, Any] = json.loads(out)
        return answer

    return asked


@pytest.mark.parametrize("config", [STRICT, RESPECTFUL])
def test_a_pod_without_a_pin(ask: Any, config: str) -> None:
    assert ask(config, NODES[:1]) == {
        "id": 1,
        "prefilter": {
            "code": "UnschedulableAndUnresolvable",
            "plugin": "StaticPlacement",
            "reasons": [
                "the pod is pinned to no node, pin it with "
                "`kubectl label node NODE rf.scheduler.test.default/web-0=`"
            ],
        },
        "nodes": {},
    }


def test_strictly_every_pinned_node_will_do(ask: Any) -> None:
    answer = ask(STRICT, NODES)
    assert answer["nodes"] == {
        "bare": EXCLUDED,
        "pinned": SUCCESS,
        "cordoned": SUCCESS,
        "listed": SUCCESS,
        "older": SUCCESS,
    }
    assert answer["best"] == ["cordoned", "listed", "older", "pinned"]


def test_with_the_default_plugins_pinned_nodes_must_be_fit(ask: Any) -> None:
    answer = ask(RESPECTFUL, NODES, olderLabels=False)
    assert answer["nodes"] == {
        "bare": EXCLUDED,
        "pinned": SUCCESS,
        "cordoned": {
            "code": "UnschedulableAndUnresolvable",
            "plugin": "NodeUnschedulable",
            "reasons": ["node(s) were unschedulable"],
        },
        "listed": SUCCESS,
        "older": EXCLUDED,
    }
    assert answer["best"] == ["listed", "pinned"]


def test_arguments_that_are_refused(ask: Any) -> None:
    assert ask(STRICT, NODES, prefix="Rf") == {
        "id": 1,
        "error": "config: profiles[0].pluginConfig[0].args.prefix: Invalid value: \"Rf\": 'Rf' "
        "cannot begin a node label: the prefix must be lower case letters, digits, '-' and '.', "
        "each part between dots beginning and ending with a letter or digit",
    }
