"""How the page of a scenario looks, and the few lines of script that turn its pictures.

Invariants: nothing is fetched; without scripts the last picture is shown and nothing is lost.
"""

from __future__ import annotations

from typing import Final

from stowplan.present.html import Colours

#: Colours for families of pods, in turn: `f0` to `f7`.
FAMILIES: Final = 8

COLOURS: Final[Colours] = {
    "card": ("#f6f8fa", "#1c2228"),
    "used": ("#0b7285", "#3bc9db"),
    "waiting": ("#b35900", "#ffa94d"),
    "chip": ("#1c2126", "#f1f3f5"),
    "f0": ("#a5d8ff", "#1c4f7c"),
    "f1": ("#b2f2bb", "#24592d"),
    "f2": ("#ffec99", "#6b5a14"),
    "f3": ("#ffc9c9", "#7a2e2e"),
    "f4": ("#d0bfff", "#47367d"),
    "f5": ("#99e9f2", "#175a63"),
    "f6": ("#ffd8a8", "#71441a"),
    "f7": ("#eebefa", "#5f2c6d"),
}

STYLE: Final = """
body { max-width: 68rem; }
h1 { margin-bottom: .2rem; }
p.about { margin-top: 0; }
.verdict { font-weight: 600; }
ul.expectations { list-style: none; padding: 0; }
ul.expectations li { margin: .15rem 0; } ul.expectations .found { color: var(--faint); }
.turn { display: flex; gap: .6rem; align-items: center; margin: .5rem 0; }
.turn[hidden] { display: none; }
.turn input { flex: 1; max-width: 30rem; } .turn button { font: inherit; padding: 0 .6rem; }
.picture[hidden] { display: none; }
.caption { color: var(--faint); margin: .2rem 0 .7rem; }
.nodes { display: grid; gap: .7rem; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); }
.node { background: var(--card); border: 1px solid var(--rule); border-radius: 6px;
  padding: .5rem .6rem; }
.node.closed { border-style: dashed; } .node.lost { border-color: var(--bad); }
.node h3 { margin: 0; font-size: .95rem; display: flex; justify-content: space-between;
  gap: .5rem; }
.node h3 small, .node .note { color: var(--faint); font-weight: 400; font-size: .8rem; }
.meter { display: grid; grid-template-columns: 3.6rem 1fr 3rem; gap: .4rem; align-items: center;
  font-size: .75rem; color: var(--faint); font-variant-numeric: tabular-nums; }
.meter .track { background: var(--rule); border-radius: 3px; height: .5rem; overflow: hidden; }
.meter .fill { background: var(--used); height: 100%; }
.meter .fill.over { background: var(--bad); }
.pods { display: flex; flex-wrap: wrap; gap: .25rem; margin-top: .4rem; }
.pod { border-radius: 4px; padding: 0 .35rem; font-size: .75rem; color: var(--chip); }
.waiting .pod { outline: 1px dashed var(--waiting); }
.tiles { display: flex; flex-wrap: wrap; gap: 2px; }
.tile { width: 12px; height: 12px; border-radius: 2px; background: var(--rule);
  position: relative; }
.tile span { position: absolute; inset: auto 0 0 0; background: var(--used); border-radius: 2px; }
.tile.lost { outline: 1px solid var(--bad); }
table { width: 100%; }
td { padding: .2rem .7rem .2rem 0; vertical-align: top; }
td.at { text-align: right; white-space: nowrap; color: var(--faint);
  font-variant-numeric: tabular-nums; }
tr.step td { font-weight: 600; padding-top: .6rem; } tr.said td + td { font-style: italic; }
tr.detail td + td { padding-left: 1.2rem; } tr.bad td + td { color: var(--bad); }
tr.good td + td { color: var(--good); }
"""

SCRIPT: Final = """
const pictures = [...document.querySelectorAll(".picture")], slider = document.querySelector("#at");
function show(number) {
  number = Math.max(0, Math.min(pictures.length - 1, number));
  pictures.forEach((picture, place) => { picture.hidden = place !== number; });
  slider.value = number;
}
if (slider) {
  slider.addEventListener("input", () => show(+slider.value));
  document.querySelector("#back").addEventListener("click", () => show(+slider.value - 1));
  document.querySelector("#on").addEventListener("click", () => show(+slider.value + 1));
  document.querySelector(".turn").hidden = false;
}
"""
