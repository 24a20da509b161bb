"""The page of a scenario: complete in itself, and nothing from a cluster gets out of hand."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from stowplan.sim.scenarios.page import page, pods_over_time
from stowplan.sim.scenarios.picture import Album, Picture, take_picture
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


def picture(nodes: list[Json], pods: list[Json]) -> Picture:
    return take_picture(1.0, "now", nodes, pods)


def a_page(pictures: list[Picture], **more: Any) -> Elements:
    return Elements(page(Outcome("a story", "virtual", 0, **more), pictures))


def test_a_picture_counts_as_the_scheduler_does() -> None:
    taken = picture(
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
    taken = picture([node("a")], [pod("web-0", "a"), pod("web-12", "a"), pod("x", "a", app="web")])
    assert {each.family for each in taken.nodes[0].pods} == {"web"}


def test_an_album_ends_before_it_is_too_thick() -> None:
    album = Album()
    large = picture([node(f"n{number}") for number in range(9_000)], [])
    for _ in range(5):
        if album.has_room:
            album.add(large)
    assert len(album.pictures) == 2


def test_the_page_needs_nothing_else() -> None:
    text = page(Outcome("a story", "virtual", 0), [picture([node("a")], [])])
    assert not re.search(r"https?://|//[a-z]|@import|url\(|src=|href=", text)
    used = set(re.findall(r"var\(--([\w-]+)\)", text))
    light, dark = re.findall(r":root \{(.*?)\}", text)
    for colours in (light, dark):
        assert used <= set(re.findall(r"--([\w-]+):", colours))


def test_names_are_escaped() -> None:
    bad = "<script>alert(1)</script>"
    shown = a_page(
        [picture([node(bad)], [pod(bad, bad), pod("w")])],
        entries=[Entry(0.0, EntryKind.SAID, "", bad)],
        expectations=[Expectation(bad, False, bad)],
        problem=bad,
    )
    assert [tag for tag, _ in shown.found].count("script") == 1
    assert bad in shown.texts


def test_every_picture_is_there_and_the_last_is_shown() -> None:
    shown = a_page([picture([node("a")], []), picture([node("a")], [pod("p", "a")])])
    first, last = shown.of_class("picture")
    assert "hidden" in first
    assert "hidden" not in last
    slider = next(attrs for _, attrs in shown.found if attrs.get("id") == "at")
    assert (slider["max"], slider["value"]) == ("1", "1")


def test_nodes_show_what_they_hold() -> None:
    shown = a_page(
        [
            picture(
                [node("a"), node("b", ready=False), node("c", unschedulable=True)],
                [pod("p", "a", cpu="3"), pod("q", "a", cpu="3"), pod("w")],
            )
        ]
    )
    looks = [attrs["class"] for attrs in shown.of_class("node")]
    assert looks == ["node", "node lost", "node closed"]
    assert "150%" in shown.texts
    assert len(shown.of_class("over")) == 1
    assert len(shown.of_class("pod")) == 3
    assert "1 without a node" in shown.texts


def test_large_clusters_are_tiles() -> None:
    nodes = [node(f"n{number}") for number in range(200)]
    shown = a_page([picture(nodes, [pod("p", "n0", cpu="2")])])
    assert shown.of_class("node") == []
    tiles = shown.of_class("tile")
    assert len(tiles) == 200
    assert tiles[0]["title"] == "n0: 1 pods, 50% CPU, 12% memory"


def test_pods_over_time() -> None:
    def at(when: float, kind: EntryKind, name: str) -> Entry:
        return Entry(when, kind, f"pod {name}", "")

    points = pods_over_time(
        [
            at(1.0, EntryKind.CREATED, "a"),
            at(1.0, EntryKind.CREATED, "b"),
            at(2.0, EntryKind.BOUND, "a"),
            at(3.0, EntryKind.FINISHED, "a"),
            at(3.0, EntryKind.DELETED, "b"),
            Entry(4.0, EntryKind.CREATED, "node n", ""),
        ]
    )
    assert points == [(0.0, 0, 0), (1.0, 0, 2), (2.0, 1, 1), (3.0, 0, 0)]


def test_a_long_timeline_is_cut_to_what_matters() -> None:
    entries = [Entry(0.1, EntryKind.BOUND, f"pod p{number}", "bound") for number in range(4_000)]
    entries.append(Entry(0.2, EntryKind.STEP, "step 2", "the last"))
    shown = a_page([], entries=entries, cluster_s=1.0)
    assert "4,000 entries are not shown." in shown.texts
    assert "step 2: the last" in shown.texts
    assert len(shown.of_class("lines")) == 1
