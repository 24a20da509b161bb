"""How the page of a scenario looks, and the script that draws the cluster at any moment.

Invariants: nothing is fetched; without scripts the cluster is shown as it was at the end; drawing a
moment takes time in proportion to the events before it and to at most 60 pods of each node.
"""

from __future__ import annotations

from typing import Final

#: Colours for families of pods, in turn: `f0` to `f7`.
FAMILIES: Final = 8

STYLE: Final = """
:root { --f0: #a5d8ff; --f1: #b2f2bb; --f2: #ffec99; --f3: #ffc9c9; --f4: #d0bfff; --f5: #99e9f2;
  --f6: #ffd8a8; --f7: #eebefa; }
@media (prefers-color-scheme: dark) { :root { --f0: #1c4f7c; --f1: #24592d; --f2: #6b5a14;
  --f3: #7a2e2e; --f4: #47367d; --f5: #175a63; --f6: #71441a; --f7: #5f2c6d; } }
main { max-width: 70rem; }
header { padding-block: .6rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin-bottom: .2rem; }
p.about { color: var(--faint); margin-top: 0; }
.verdict { font-weight: 600; }
ul.expectations { list-style: none; padding: 0; }
ul.expectations li { margin: .15rem 0; } ul.expectations .found { color: var(--faint); }
/* The slider's thumb is above the same moment of the charts. */
.turn { display: grid; grid-template-columns: 58px minmax(0, 1fr); align-items: center;
  margin: .5rem 24px .5rem 0; }
.turn input { margin: 0 -8px; width: calc(100% + 16px); max-width: none; padding: 0; }
.turn button { font-size: .75rem; padding: .2rem .3rem; margin-right: .2rem;
  border-color: var(--rule); }
td.at { width: 1%; text-align: right; white-space: nowrap; color: var(--faint);
  font-variant-numeric: tabular-nums; }
[hidden], .turn[hidden] { display: none; }
.caption { color: var(--faint); margin: .2rem 0 .7rem; }
.nodes { display: grid; gap: .7rem; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); }
.node { background: var(--raised); border: 1px solid var(--rule); border-radius: 6px;
  padding: .5rem .6rem; }
.node.closed { border-style: dashed; } .node.lost { border-color: var(--bad); }
.node h3 { margin: 0; display: flex; justify-content: space-between; gap: .5rem; }
.node .note { color: var(--faint); font-size: .8rem; }
.meter { display: grid; grid-template-columns: 3.6rem 1fr 3rem; gap: .4rem; align-items: center;
  font-size: .75rem; color: var(--faint); font-variant-numeric: tabular-nums; }
.pods { display: flex; flex-wrap: wrap; gap: .25rem; margin-top: .4rem; }
.pod { border-radius: 4px; padding: 0 .35rem; font-size: .75rem; }
.waiting .pod { outline: 1px dashed var(--warm); }
.tiles { display: flex; flex-wrap: wrap; gap: 2px; }
.tile { width: 12px; height: 12px; border-radius: 2px; background: var(--rule);
  position: relative; }
.tile span { position: absolute; inset: auto 0 0 0; background: var(--line-1);
  border-radius: 2px; }
.tile.lost { outline: 1px solid var(--bad); }
.moment { position: absolute; inset: 0 auto 0 0; border-left: 1px solid var(--ink); }
tr.step td { font-weight: 600; padding-top: .6rem; } tr.said td + td { font-style: italic; }
tr.detail td + td { padding-left: 1.2rem; } tr.bad td + td { color: var(--bad); }
tr.good td + td { color: var(--good); }
"""

SCRIPT: Final = r"""
const source = document.querySelector("#history");
if (source) {
  const data = JSON.parse(source.textContent), { events, steps, until } = data;
  const [slider, caption, waiting, turn] =
    ["#at", ".caption", ".waiting", ".turn"].map(each => document.querySelector(each));
  const cells = [...document.querySelectorAll("[data-n]")];
  const lines = [...document.querySelectorAll(".u-over")].map(plot => {
    const line = document.createElement("div");
    line.className = "moment";
    plot.append(line);
    return line;
  });
  const percent = share => `${(share * 100).toFixed(0)}%`;
  const escaped = text => text.replace(/[&<>"]/g, sign => `&#${sign.charCodeAt()};`);
  let step = steps.length;

  function replay(count) {
    const nodes = data.nodes.map(node => ({ cordoned: node[3], pods: [] })), pods = new Map();
    for (const [, kind, item, detail] of events.slice(0, count)) {
      const node = nodes[item];
      switch (kind) {
        case 0: pods.set(item, { node: -1 }); break;
        case 1: pods.set(item, { node: detail }); break;
        case 2: pods.delete(item); break;
        case 3: pods.set(item, { node: -1, message: data.messages[detail] }); break;
        case 4: node.there = true; break;
        case 5: node.there = false; break;
        case 6: node.cordoned = true; break;
        case 7: node.cordoned = false; break;
        case 8: node.lost = true; break;
        case 9: node.lost = false;
      }
    }
    return [nodes, pods];
  }
  function chip([number, { node, message }]) {
    const [key, family, cpu, memory, priority, scores] = data.pods[number];
    const facts = [key, `${cpu}m CPU`, `${(memory / 1024).toPrecision(2)} GiB`];
    if (priority) facts.push(`priority ${priority}`);
    const why = node < 0 ? message : scores;
    if (why) facts.push(why);
    return `<span class="pod" style="background:var(--f${family})" ` +
      `title="${escaped(facts.join("; "))}">${escaped(key.split("/")[1])}</span>`;
  }
  const chips = pods => pods.slice(0, 60).map(chip).join("") +
    (pods.length > 60 ? `<span>and ${pods.length - 60} more</span>` : "");
  function draw(count, at, title) {
    const [nodes, pods] = replay(count), without = [];
    for (const entry of pods) (nodes[entry[1].node]?.pods ?? without).push(entry);
    cells.forEach((cell, number) => {
      const node = nodes[number], [name, ...offers] = data.nodes[number];
      cell.hidden = !node.there;
      cell.classList.toggle("closed", !!node.cordoned);
      cell.classList.toggle("lost", !!node.lost);
      const shares = [0, 1].map(place => offers[place] &&
        node.pods.reduce((sum, [pod]) => sum + data.pods[pod][place + 2], 0) / offers[place]);
      if (cell.classList.contains("tile")) {
        cell.firstChild.style.height = percent(Math.min(shares[0], 1));
        cell.title = `${name}: ${node.pods.length} pods, ${percent(shares[0])} CPU, ` +
          `${percent(shares[1])} memory`;
        return;
      }
      const note = cell.querySelector(".note");
      note.textContent = [node.lost && "not ready", node.cordoned && "cordoned",
        note.dataset.taints].filter(Boolean).join(", ");
      cell.querySelectorAll(".meter").forEach((meter, place) => {
        const fill = meter.querySelector(".bar span"), share = shares[place];
        fill.style.width = percent(Math.min(share, 1));
        fill.className = share > 1 ? "over" : share >= 0.9 ? "full" : "";
        meter.lastChild.textContent = percent(shares[place]);
      });
      cell.querySelector(".pods").innerHTML = chips(node.pods);
    });
    waiting.hidden = !without.length;
    waiting.querySelector(".count").textContent = `${without.length} without a node`;
    waiting.querySelector(".pods").innerHTML = chips(without);
    const clock = [at / 3600, at / 60 % 60, at % 60].map(Math.floor);
    const told = at < 60 ? "" : ` (${clock.map(each => `${each}`.padStart(2, 0)).join(":")})`;
    caption.textContent = `${at.toFixed(1)} s${told}: ${title}`;
    lines.forEach(line => { line.style.left = `${at / until * 100}%`; });
    slider.value = at;
  }
  function go(to) {
    step = Math.max(0, Math.min(steps.length, to));
    draw(...(steps[step] ?? [events.length, until, "the end"]));
  }
  slider.addEventListener("input", () => {
    const at = +slider.value;
    step = steps.findIndex(each => each[1] > at);
    if (step < 0 || at >= until) return go(steps.length);
    let low = 0, high = events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (events[middle][0] <= at) low = middle + 1; else high = middle;
    }
    draw(low, at, steps[step][2]);
  });
  document.querySelector("#back").addEventListener("click", () => go(step - 1));
  document.querySelector("#on").addEventListener("click", () => go(step + 1));
  turn.hidden = false;
  go(steps.length);
}
"""
