"""The live table as text: what it shows, and that it stays inside the terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.demo.chronicle import Happening, NewsKind
from stowplan.demo.screen import ASCII, Paper, frame
from stowplan.demo.view import DemoView, NodePanel, PodPanel, ShownPod
from stowplan.queue.pod import PendingCounts

GIB = 1024**3
SGR = re.compile(r"\x1b\[[0-9;]*m")
WHY = (
    "0/12 nodes are available: 1 node(s) were unschedulable, 3 node(s) had untolerated taint(s), "
    "8 Insufficient cpu, 8 Insufficient memory."
)


def node_view(number: int, *, share: float = 0.5) -> NodePanel:
    name = f"node-{'abc'[number % 3]}{number // 3 + 1}"
    return NodePanel(
        name=name,
        zone=f"zone-{'abc'[number % 3]}",
        cpu_used=round(8000 * share),
        cpu_total=8000,
        memory_used=round(16 * GIB * share),
        memory_total=16 * GIB,
        pods=number,
        arrivals=(
            ShownPod(f"web-{number}", is_news=True),
            ShownPod(f"api-{number}", is_news=False),
        ),
    )


def pod_view(name: str, why: str = WHY, stays_pending: str = "") -> PodPanel:
    return PodPanel(
        f"default/{name}", "", "Pending", 12.4, attempts=3, why=why, stays_pending=stays_pending
    )


def view_of(*pending: PodPanel, nodes: int = 12, happenings: int = 30) -> DemoView:
    return DemoView(
        url="http://127.0.0.1:1234",
        seed=7,
        elapsed_s=75.0,
        nodes=tuple(node_view(number) for number in range(nodes)),
        pending=pending,
        placed=(),
        happenings=tuple(
            Happening(n / 2, NewsKind.PLACED, f"placed default/web-{n} on node-a1")
            for n in range(happenings)
        ),
        placed_total=34,
        finished_total=5,
        rate=2.25,
        queue=PendingCounts(active=1, backoff=2, unschedulable=3, gated=4, in_flight=0),
        kubectl="kubectl --server http://127.0.0.1:1234 get pods -w",
    )


def plain(view: DemoView, width: int = 80, height: int = 24) -> list[str]:
    return frame(view, Paper(width, height, has_color=False))


def test_a_small_terminal_shows_all_that_matters() -> None:
    rows = plain(view_of(pod_view("trainer-2"), pod_view("huge", stays_pending="is too big")))
    text = "\n".join(rows)
    assert len(rows) == 24
    assert rows[0] == " Stowplan demo · 12 nodes · seed 7 · 1:15"
    assert rows[1] == " try: kubectl --server http://127.0.0.1:1234 get pods -w"
    for number in range(12):
        assert sum(node_view(number).name in row for row in rows) == 1
    assert " PENDING 2" in rows
    assert " default/trainer-2  12s  3 attempts" in rows
    assert "expected to stay pending: is too big" in text
    assert "0/12 nodes are available: 1 node(s) were unschedulable" in text
    assert rows[-1] == (
        " Ctrl-C ends · 34 placed, 2.2/s · 1 active, 2 backoff, 3 unschedulable, 4 gated"
    )


def test_a_node_row() -> None:
    busy = replace(
        node_view(0, share=0.25),
        is_cordoned=True,
        taints=("dedicated=batch",),
        extras=("gpu 1/2",),
    )
    (row,) = (r for r in plain(replace(view_of(), nodes=(busy,)), 120) if "node-a1 " in r)
    assert row.split() == [
        *("node-a1", "zone-a", "███░░░░░░░░░", "25%", "███░░░░░░░░░", "25%", "0"),
        *("cordoned", "dedicated=batch", "gpu", "1/2", "web-0", "api-0"),
    ]


@pytest.mark.parametrize(
    ("share", "bar"),
    [
        (0.0, "........   0%"),
        (0.001, "#.......   0%"),
        (1.0, "######## 100%"),
        (1.5, "######## 150%"),
    ],
)
def test_bars_in_ascii(share: float, bar: str) -> None:
    view = replace(view_of(), nodes=(node_view(0, share=share),))
    rows = frame(view, Paper(80, 24, has_color=False, glyphs=ASCII))
    assert f"zone-a  {bar}  {bar}     0  " in "\n".join(rows)
    assert all(row.isascii() for row in rows)


def test_the_address_of_the_console_is_shown() -> None:
    url = "http://127.0.0.1:10270/console/"
    assert plain(replace(view_of(), console=url))[1] == f" console: {url}"


def test_without_kubectl_the_address_is_shown() -> None:
    assert plain(replace(view_of(), kubectl=""))[1] == " API server: http://127.0.0.1:1234"


def test_half_a_name_is_not_shown() -> None:
    many = tuple(ShownPod(f"payments-{n}", is_news=False) for n in range(9))
    view = replace(view_of(), nodes=(replace(node_view(0), arrivals=many),))
    (row,) = (r for r in plain(view) if "node-a1 " in r)
    assert row.rstrip().endswith("payments-1")


def test_a_tall_terminal_shows_what_happened_last() -> None:
    rows = plain(view_of(pod_view("huge")), height=40)
    assert len(rows) == 40
    latest = rows[rows.index(" LATEST") + 1 : -2]
    assert latest[-1] == "   14.5s  placed default/web-29 on node-a1"
    assert latest[0].strip().startswith(f"{(30 - len(latest)) / 2}s")
    assert rows[-2] == ""


def test_nothing_pending() -> None:
    assert " PENDING nothing" in plain(view_of())


def test_pods_with_the_same_reason_are_told_together() -> None:
    pods = [pod_view(f"job-{n}", why="no cpu") for n in range(5)]
    rows = plain(view_of(*pods))
    place = rows.index(" PENDING 5")
    assert rows[place + 1] == (
        " default/job-0  12s  3 attempts  and 4 like it: job-1, job-2, job-3, job-4"
    )
    assert rows[place + 2] == "   no cpu"


def test_what_does_not_fit_is_counted() -> None:
    pods = [pod_view(f"job-{n}", why=f"{n}: {WHY}") for n in range(9)]
    rows = plain(view_of(*pods, nodes=100))
    assert " … and 86 more nodes" in rows
    shown = sum("3 attempts" in row for row in rows)
    assert f" … and {9 - shown} more pending" in rows


def test_a_long_reason_is_cut() -> None:
    rows = plain(view_of(pod_view("huge", why="word " * 500)), height=60)
    assert sum("word" in row for row in rows) == 3
    assert any(row.endswith("…") for row in rows)


def test_a_pod_that_was_not_tried_yet() -> None:
    assert "   not tried yet" in plain(view_of(pod_view("new", why="")))


def test_colors_only_add_to_the_text() -> None:
    view = view_of(pod_view("huge", stays_pending="is too big"))
    colored = frame(view, Paper(100, 40))
    assert any("\x1b[" in row for row in colored)
    assert [SGR.sub("", row) for row in colored] == plain(view, 100, 40)
    assert all(row.count("\x1b[m") * 2 == row.count("\x1b[") for row in colored)


def test_nothing_from_the_cluster_moves_the_cursor() -> None:
    evil = "x\x1b[2J\r\n\u202e漢字"
    node = replace(node_view(0), name=evil, zone=evil, taints=(evil,), extras=(evil,), arrivals=())
    view = replace(
        view_of(replace(pod_view("p", why=evil, stays_pending=evil), name=evil)),
        nodes=(node,),
        happenings=(Happening(1.0, NewsKind.OTHER, evil),),
    )
    rows = plain(view, 200, 50)
    assert sum("x?[2J?????" in row for row in rows) == 4
    assert all(set(row) <= {*map(chr, range(32, 127)), *"█░…·"} for row in rows)


@given(
    width=st.integers(1, 220),
    height=st.integers(1, 70),
    nodes=st.integers(0, 40),
    pending=st.lists(st.sampled_from(["", "no cpu", WHY, "x" * 300, "word " * 90]), max_size=12),
    happenings=st.integers(0, 40),
    has_color=st.booleans(),
)
def test_a_frame_never_leaves_the_terminal(
    width: int, height: int, nodes: int, pending: list[str], happenings: int, has_color: bool
) -> None:
    pods = [pod_view(f"pod-{n}", why=why) for n, why in enumerate(pending)]
    view = view_of(*pods, nodes=nodes, happenings=happenings)
    rows = frame(view, Paper(width, height, has_color=has_color))
    assert len(rows) == height
    assert all(len(SGR.sub("", row)) <= width for row in rows)
    if height >= 3 and width >= 12:
        assert SGR.sub("", rows[-1]).startswith(" Ctrl-C")
