"""Draws where forty pods go without the plugin and with it: python picture.py FILE.svg"""

import sys
from collections import Counter
from pathlib import Path

from fullest_first import FullestFirst

from stowplan.testing import MemoryCluster

FOLDER = Path(__file__).parent
NODES, ROOM, PODS = 12, 8, 40
WIDE, HIGH, STEP, TOP, PANEL = 36, 11, 46, 34, 160
STYLE = """
text { font: 12px sans-serif; fill: #333; }
.free { fill: #e4e7eb; } .pod { fill: #3b6fb6; }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd; } .free { fill: #3a3f46; } .pod { fill: #7fb0f0; }
}
"""


def place(cluster: MemoryCluster) -> Counter[str]:
    """How many pods each node gets."""
    with cluster:
        for number in range(NODES):
            cluster.add_node(f"node{number}", cpu=ROOM, memory="32Gi")
        cluster.add_pods(PODS, "web-", cpu="1", memory="1Gi")
        return Counter(cluster.placements.values())


def panel(title: str, counts: Counter[str], top: int) -> list[str]:
    empty = sum(not counts[f"node{number}"] for number in range(NODES))
    drawn = [f'<text x="10" y="{top + 16}">{title}: {empty} of {NODES} nodes are empty</text>']
    for number in range(NODES):
        left = 10 + number * STEP
        for slot in range(ROOM):
            kind = "pod" if slot < counts[f"node{number}"] else "free"
            below = top + TOP + (ROOM - 1 - slot) * (HIGH + 1)
            drawn.append(
                f'<rect class="{kind}" x="{left}" y="{below}" width="{WIDE}" height="{HIGH}"/>'
            )
        under = top + TOP + ROOM * (HIGH + 1) + 14
        drawn.append(
            f'<text x="{left + WIDE / 2}" y="{under}" text-anchor="middle">{number}</text>'
        )
    return drawn


def main(file: str) -> None:
    without = place(MemoryCluster())
    packed = place(MemoryCluster(FullestFirst, config=FOLDER / "config.yaml"))
    parts = panel("The default profile", without, 0) + panel("With FullestFirst", packed, PANEL)
    size = f'viewBox="0 0 {20 + NODES * STEP} {2 * PANEL}"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>'
    Path(file).write_text("\n".join([svg, *parts, "</svg>", ""]))


if __name__ == "__main__":
    main(sys.argv[1])
