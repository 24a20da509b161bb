"""How the page of a scenario looks, and the few lines of script that turn its pictures.

What must stay true: every colour is a variable with a value for light and one for dark screens;
nothing is fetched from anywhere; without scripts the last picture is shown and nothing is lost.
"""

from __future__ import annotations

from typing import Final

#: Colours for families of pods, in turn.
FAMILIES: Final = 8

STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --card: #f6f8fa; --ink: #1c2126; --faint: #5f6973;
  --rule: #d5dae0; --good: #1a7f37; --bad: #b00020; --used: #0b7285; --waiting: #b35900;
  --f0: #a5d8ff; --f1: #b2f2bb; --f2: #ffec99; --f3: #ffc9c9; --f4: #d0bfff; --f5: #99e9f2;
  --f6: #ffd8a8; --f7: #eebefa; --chip: #1c2126; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181c; --card: #1c2228; --ink: #e6e8ea;
  --faint: #98a2ad; --rule: #343c44; --good: #57ab5a; --bad: #ff6b6b; --used: #3bc9db;
  --waiting: #ffa94d; --f0: #1c4f7c; --f1: #24592d; --f2: #6b5a14; --f3: #7a2e2e; --f4: #47367d;
  --f5: #175a63; --f6: #71441a; --f7: #5f2c6d; --chip: #f1f3f5; } }
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin-bottom: .2rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
p.about { color: var(--faint); margin-top: 0; }
.verdict { font-weight: 600; } .good { color: var(--good); } .bad { color: var(--bad); }
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
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { text-align: left; padding: .2rem .7rem .2rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
td.at { text-align: right; white-space: nowrap; color: var(--faint);
  font-variant-numeric: tabular-nums; }
tr.step td { font-weight: 600; padding-top: .6rem; } tr.said td + td { font-style: italic; }
tr.detail td + td { padding-left: 1.2rem; } tr.bad td + td { color: var(--bad); }
tr.good td + td { color: var(--good); }
figure.chart { margin: 0; } figure.chart svg { width: 100%; height: 9rem; overflow: visible; }
figure.chart polyline { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; }
figure.chart .key { display: inline-block; width: 1.2rem; border-top: 2px solid;
  margin: 0 .3rem .25em 0; }
figure.chart figcaption, figure.chart .ends { color: var(--faint); font-size: .8rem; }
figure.chart .ends { display: flex; justify-content: space-between; }
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
