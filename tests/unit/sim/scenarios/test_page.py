"""The page of a scenario: complete in itself, and nothing from a cluster gets out of hand."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.sim.scenarios.drawing import MOST_PODS, Drawing
from stowplan.sim.scenarios.figures import COURSE, Figures
from stowplan.sim.scenarios.page import page
from stowplan.sim.scenarios.picture import take_picture
from stowplan.sim.scenarios.timeline import Entry, EntryKind, Expectation, Outcome

Json = dict[str, Any]


def node(name: str, *, zone: str = "", ready: bool = True, **spec: Any) -> Json:
    return {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone} if zone else {}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi"},
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def pod(name: str, on: str = "", *, cpu: str = "1", phase: str = "Running", **labels: str) -> Json:
    requests = {"cpu": cpu, "memory": "1Gi"}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": phase},
    }


class Elements(HTMLParser):
    """Every start tag with its attributes, and that all are closed in order."""

    VOID = ("meta", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.found if name in (attrs.get("class") or "").split()]


def a_page(nodes: list[Json], pods: list[Json], **more: Any) -> Elements:
    return Elements(page(Outcome("a story", "virtual", 0, nodes=nodes, pods=pods, **more)))


def test_a_picture_counts_as_the_scheduler_does() -> None:
    taken = take_picture(
        [
            node("b", zone="z2"),
            node(
                "a",
                zone="z1",
                unschedulable=True,
                taints=[
                    {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
                    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                ],
            ),
        ],
        [pod("p", "b", cpu="3"), pod("done", "b", phase="Succeeded"), pod("w"), pod("x", "gone")],
    )
    first, second = taken.nodes
    assert (first.name, first.is_cordoned, first.taints) == ("a", True, ("gpu=yes:NoSchedule",))
    assert [each.key for each in second.pods] == ["default/p"]
    assert (second.cpu_share, second.memory_share) == (0.75, 0.125)
    assert [each.key for each in taken.waiting] == ["default/w", "default/x"]


def test_pods_of_one_family_share_a_colour() -> None:
    taken = take_picture(
        [node("a")], [pod("web-0", "a"), pod("web-12", "a"), pod("x", "a", app="web")]
    )
    assert {each.family for each in taken.nodes[0].pods} == {"web"}


def test_the_page_needs_nothing_else() -> None:
    text = page(played(3))
    assert not re.search(r"@import|url\(|\bsrc=|href=|<link", text)
    used = set(re.findall(r"var\(--([\w-]+)\)", text))
    roots = re.findall(r":root \{(.*?)\}", text, re.S)
    for colours in ("".join(roots[::2]), "".join(roots[1::2])):
        assert used <= set(re.findall(r"--([\w-]+):", colours))


def charts(text: str) -> list[Json]:
    """The data of the charts of a page."""
    found = re.findall(r'<script type="application/json">(.*?)</script></figure>', text)
    return [json.loads(each) for each in found]


def test_names_are_escaped() -> None:
    bad = "<script>alert(1)</script>"
    shown = a_page(
        [node(bad)],
        [pod(bad, bad), pod("w")],
        entries=[Entry(0.0, EntryKind.SAID, "", bad)],
        expectations=[Expectation(bad, False, bad)],
        problem=bad,
    )
    assert [tag for tag, _ in shown.found].count("script") == 3
    assert bad in shown.texts


def test_nodes_show_what_they_hold() -> None:
    shown = a_page(
        [node("a"), node("b", ready=False), node("c", unschedulable=True)],
        [pod("p", "a", cpu="3"), pod("q", "a", cpu="3"), pod("w")],
    )
    looks = [attrs["class"] for attrs in shown.of_class("node")]
    assert looks == ["node", "node lost", "node closed"]
    assert "150%" in shown.texts
    assert len(shown.of_class("over")) == 1
    assert len(shown.of_class("pod")) == 3
    assert "1 without a node" in shown.texts


def test_large_clusters_are_tiles() -> None:
    nodes = [node(f"n{number}") for number in range(200)]
    shown = a_page(nodes, [pod("p", "n0", cpu="2")])
    assert shown.of_class("node") == []
    tiles = shown.of_class("tile")
    assert len(tiles) == 200
    assert tiles[0]["title"] == "n0: 1 pods, 50% CPU, 12% memory"


def played(pods: int, *, nodes: int = 3, faults: int = 0) -> Outcome:
    """An outcome as a run leaves it: each second a pod comes, is bound, and ends 10 s later."""
    drawing, entries = Drawing(), []
    for number in range(nodes):
        drawing.node_created(msgspec.convert(node(f"n{number}"), Node))
        entries.append(Entry(0.0, EntryKind.CREATED, f"node n{number}", "created"))
    entries.append(Entry(0.0, EntryKind.STEP, "step 1", "play"))
    for number in range(pods):
        key, on, at = f"default/p{number}", f"n{number % nodes}", float(number)
        drawing.pod_created(msgspec.convert(pod(f"p{number}"), Pod))
        drawing.scored(key, "score n0 100 = NodeResourcesFit 60 + ImageLocality 40; n1 90")
        entries += [
            Entry(at, EntryKind.CREATED, f"pod {key}", "created"),
            Entry(at, EntryKind.BOUND, f"pod {key}", f"bound to {on}", {"node": on}),
        ]
        if number >= 10:
            entries.append(Entry(at, EntryKind.FINISHED, f"pod default/p{number - 10}", "finished"))
    for number in range(faults):
        entries.append(Entry(number * pods / faults, EntryKind.FAULT, "node n0", "fails"))
    course = {name: [float(min(each, 10)) for each in range(pods)] for name in COURSE}
    course["at"] = [float(each) for each in range(pods)]
    course["waiting"] = [0.0] * pods
    return Outcome(
        "a story",
        "virtual",
        0,
        entries=entries,
        drawing=drawing,
        cluster_s=float(pods),
        figures=Figures(course=course),
        nodes=[node(f"n{number}") for number in range(nodes)],
    )


def test_only_what_was_expected_is_as_expected() -> None:
    def verdict(**more: Any) -> str:
        found = re.search(r'class="verdict [a-z]*">([^<]*)<', page(Outcome("x", "v", 0, **more)))
        assert found is not None
        return found[1]

    assert verdict() == "Nothing was expected"
    assert verdict(expectations=[Expectation("a", True)]) == "All as expected"
    assert verdict(expectations=[Expectation("a", False)]) == "Not as expected"
    assert verdict(problem="a plugin broke") == "Failed"


def test_the_slider_runs_over_time() -> None:
    outcome = played(100)
    shown = Elements(page(outcome))
    slider = next(attrs for _, attrs in shown.found if attrs.get("id") == "at")
    assert (slider["min"], slider["max"], slider["step"]) == ("0", "100.000", "any")
    data = json.loads(next(text for text in shown.texts if text.startswith('{"until"')))
    assert len(data["events"]) == 3 + 100 + 100 + 90
    assert [event[0] for event in data["events"]] == sorted(event[0] for event in data["events"])
    assert data["steps"] == [[len(data["events"]), 100.0, "step 1: play"]]
    assert data["pods"][0][-1].startswith("score n0 100 = ")
    assert "hidden" not in next(attrs for _, attrs in shown.found if attrs.get("data-n") == "0")


def test_legends_tell_the_peak_of_their_own_line() -> None:
    shown = Elements(page(played(2_000)))
    assert "with a node, at most 10" in shown.texts
    assert "waiting, at most 0" in shown.texts


def test_a_peak_survives_where_points_are_left_out() -> None:
    outcome = played(5_000)
    waiting = outcome.figures.course["waiting"]
    assert isinstance(waiting, list)
    waiting[2_345] = 165.0
    text = page(outcome)
    assert "waiting, at most 165" in text
    drawn = charts(text)
    assert all(
        len(each["at"]) == len(line["values"]) < 6_000 for each in drawn for line in each["lines"]
    )
    assert max(drawn[0]["lines"][1]["values"]) == 165
    assert drawn[0]["at"][-1] == 5_000


def test_faults_are_marked_and_bounded() -> None:
    text = page(played(100, faults=3))
    assert [len(each["marks"]) for each in charts(text)] == [3, 3, 3]
    assert charts(text)[0]["marks"][2] == [66.66666666666667, "66.7 s: node n0 fails"]
    assert "Pods; dashed: 3 faults" in Elements(text).texts
    many = charts(page(played(100, faults=5_000)))
    assert all(len(each["marks"]) <= 201 for each in many)
    assert "Pods; dashed: 1 fault" in Elements(page(played(100, faults=1))).texts


def test_an_empty_end_says_when_there_was_most_to_see() -> None:
    outcome = played(100)
    outcome.pods.clear()
    hint = "Most pods (10) had a node at 10.0 s: move the slider there."
    assert any(hint in text for text in Elements(page(outcome)).texts)


def test_ten_thousand_pods_make_a_page_of_bounded_size() -> None:
    text = page(played(10_000, nodes=500))
    assert len(text) < 3_000_000
    assert len(Elements(text).found) < 2_000


def test_more_pods_than_can_be_drawn_are_drawn_at_the_end_only() -> None:
    outcome = played(1)
    assert outcome.drawing is not None
    outcome.drawing.is_cut = True
    shown = Elements(page(outcome))
    assert not any(attrs.get("id") in ("at", "history") for _, attrs in shown.found)
    assert any(f"More than {MOST_PODS:,} pods" in text for text in shown.texts)


def test_a_long_timeline_is_cut_to_what_matters() -> None:
    entries = [Entry(0.1, EntryKind.BOUND, f"pod p{number}", "bound") for number in range(4_000)]
    entries.append(Entry(0.2, EntryKind.STEP, "step 2", "the last"))
    shown = a_page([], [], entries=entries, cluster_s=1.0)
    assert (
        "4,000 entries are not shown; --decisions FILE writes every attempt, eviction and binding."
        in shown.texts
    )
    assert "step 2: the last" in shown.texts
