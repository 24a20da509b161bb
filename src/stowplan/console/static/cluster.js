// Cluster: all nodes as a map, coloured by how much of a resource is requested.
import { Bar, Placeholder, amount, count, duration, html, nodeLink, percent, plural, podLink, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./ui.js";
import { useEvents, useLive, useResource } from "./live.js";
import { HeatMap } from "./heatmap.js";

const BELOW_MAP = 24;
const LONGEST_S = 600;

/** Shares of a resource by node; `pods` counts pods. */
function sharesOf(data, resource) {
  const used = resource === "pods" ? data.pods : data.used[data.resources.indexOf(resource)] ?? [];
  return data.names.map((_, at) => {
    const offered = data.shapes[data.shape[at]][resource];
    return offered ? used[at] / offered : 0;
  });
}

function totals(data, resource, members) {
  const used = resource === "pods" ? data.pods : data.used[data.resources.indexOf(resource)];
  let held = 0, offered = 0;
  for (const at of members) {
    held += used[at];
    offered += data.shapes[data.shape[at]][resource];
  }
  return { held, offered, share: offered ? held / offered : 0 };
}

function groupsOf(data, resource) {
  const members = data.group.values.map(() => []);
  data.group.of.forEach((group, at) => members[group].push(at));
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  return data.group.values
    .map((value, group) => ({ label: value || `without ${data.group.key}`, members: members[group].sort((a, b) => compare(data.names[a], data.names[b])) }))
    .sort((a, b) => compare(a.label, b.label))
    .map((group) => ({ ...group, note: `${plural(group.members.length, "node")}, ${percent(totals(data, resource, group.members).share)} of ${resource}` }));
}

/** All nodes, kept up to date; `tick` grows with every change of their numbers. */
export function useNodes(key = "") {
  const [tick, again] = useState(0);
  const { layout } = useLive();
  const loaded = useResource(`cluster?group=${encodeURIComponent(key)}`, layout);
  const { data } = loaded;
  useEvents("nodes", (change) => {
    if (!data || change.layout !== data.layout) return;
    change.rows.forEach((row, place) => {
      data.pods[row] = change.pods[place];
      data.used.forEach((column, at) => { column[row] = change.used[at][place]; });
    });
    again((n) => n + 1);
  });
  return { loaded, data, tick, layout };
}

export function ClusterPage({ parts: [chosen] }) {
  const [resource, colourBy] = useState("cpu");
  const [key, groupBy] = useState("");
  const [find, look] = useState("");
  const { loaded, data, tick, layout } = useNodes(key);
  const [ago, goBack] = useState(0);
  const then = useResource(ago && data ? `cluster/past?ago=${ago}` : null, layout);
  const isPast = ago > 0 && then.data?.layout === data?.layout;
  const pictured = isPast ? { ...data, pods: then.data.pods, used: then.data.used } : data;
  const selected = data && chosen ? data.names.indexOf(chosen) : -1;
  const select = (index) => { location.hash = index == null ? "#/cluster" : nodeLink(data.names[index]); };
  const shown = data && data.names.length > 0;
  const everything = shown ? data.names.map((_, at) => at) : [];
  return html`<div class="cluster">
    <form class="controls" onSubmit=${(event) => {
      event.preventDefault();
      const at = data?.names.findIndex((name) => find && name.includes(find)) ?? -1;
      if (at >= 0) select(at);
    }}>
      <label>Colour by
        <select value=${resource} onChange=${(event) => colourBy(event.target.value)}>
          ${[...(data?.resources ?? ["cpu", "memory"]), "pods"].map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
        </select>
      </label>
      <label>Group by
        <select value=${key || data?.group.key} onChange=${(event) => groupBy(event.target.value)}>
          ${(data?.labels.length ? data.labels : ["topology.kubernetes.io/zone"]).map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
        </select>
      </label>
      <label>Find <input type="search" value=${find} placeholder="node name" autocomplete="off" spellcheck=${false}
        onInput=${(event) => look(event.target.value)} /></label>
    </form>
    <p class="summary">${shown ? html`${plural(data.names.length, "node")}, ${plural(pictured.pods.reduce((a, b) => a + b, 0), "pod")}; requested:
      ${" "}${["cpu", "memory"].map((each) => `${each} ${percent(totals(pictured, each, everything).share)}`).join(", ")}` : " "}</p>
    <div class="split">
      <section aria-label="Map of nodes" class="map-area">
        ${shown
          ? html`<${NodeMap} ...${{ data: pictured, resource, find, selected, select, tick: isPast ? then.data.time : tick }} />
            <${Slider} ago=${ago} goBack=${goBack} time=${isPast ? then.data.time : null} />`
          : html`<${Placeholder} of=${loaded}>${data?.synced === false ? "Reading the cluster…" : "The cluster has no nodes yet. They appear here as they join."}<//>`}
      </section>
      <aside aria-label="Node">
        <p class="hidden" role="status">${chosen ? `${chosen} is selected` : ""}</p>
        ${chosen
          ? html`<${NodePanel} name=${chosen} version=${tick + layout} close=${() => select(null)} />`
          : html`<p class="state">Pick a node: click it, or use the arrow keys on the map.</p>`}
      </aside>
    </div>
  </div>`;
}

export function NodeMap({ data, resource, find, selected, select, tick, height }) {
  const area = useRef(), canvas = useRef(), map = useRef();
  const [hovered, hover] = useState(null);
  const [width, resize] = useState(0);
  const shares = useMemo(() => sharesOf(data, resource), [data, resource, tick]);
  const groups = useMemo(() => groupsOf(data, resource), [data, resource, tick]);
  const dimmed = useMemo(() => find && data.names.map((name) => !name.includes(find)), [data, find]);
  useLayoutEffect(() => {
    map.current = new HeatMap(canvas.current);
    const observer = new ResizeObserver(() => resize(area.current?.clientWidth ?? 0));
    observer.observe(area.current);
    const repaint = () => resize((old) => old + 0.001); // the scheme's colours changed
    map.current.scheme.addEventListener("change", repaint);
    return () => {
      observer.disconnect();
      map.current.scheme.removeEventListener("change", repaint);
    };
  }, []);
  useLayoutEffect(() => {
    if (!width) return;
    const top = area.current.getBoundingClientRect().top + scrollY;
    map.current.place(groups, Math.floor(width), height ?? Math.max(240, innerHeight - top - BELOW_MAP - 95));
  }, [groups, width, height]);
  useLayoutEffect(() => {
    if (width) map.current.draw({ shares, flags: data.flags, dimmed, selected, hovered });
  });
  const at = (event) => map.current.at(event.offsetX, event.offsetY);
  const about = (index) => {
    const { held, offered, share } = totals(data, resource, [index]);
    const unit = resource === "pods" ? "" : data.units[data.resources.indexOf(resource)];
    return `${resource} ${amount(held, unit)} of ${amount(offered, unit)} (${percent(share)}), ${plural(data.pods[index], "pod")}`;
  };
  const box = hovered != null && map.current?.box(hovered);
  return html`<div class="map" ref=${area}>
    <canvas ref=${canvas} tabindex="0" role="application" aria-roledescription="map"
      aria-label=${`${plural(data.names.length, "node")} by ${data.group.key}, coloured by ${resource}. Arrow keys select a node.${selected >= 0 ? ` Selected: ${data.names[selected]}, ${about(selected)}.` : ""}`}
      onMouseMove=${(event) => hover(at(event))}
      onMouseLeave=${() => hover(null)}
      onClick=${(event) => { const index = at(event); if (index != null) select(index); }}
      onKeyDown=${(event) => {
        if (event.key === "Escape") return select(null);
        const next = map.current.neighbour(selected, event.key);
        if (next == null || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        select(next);
      }}></canvas>
    ${box && html`<div class="tip" style=${{ left: `${Math.min(box.x, Math.max(0, width - 230))}px`, top: `${box.y + box.size + 6}px` }}>
      <b>${data.names[hovered]}</b><br />${about(hovered)}</div>`}
    <${Legend} map=${map.current} resource=${resource} />
  </div>`;
}

/** Back to where pods were some minutes ago; the server keeps ten. */
const Slider = ({ ago, goBack, time }) => html`<label class="slider">Time
  <input type="range" min=${-LONGEST_S} max="0" step="5" value=${-ago} onInput=${(event) => goBack(-event.target.value)}
    aria-valuetext=${ago ? `${duration(ago)} ago` : "now"} />
  <output>${ago ? (time ? `as at ${new Date(time * 1000).toLocaleTimeString("en-GB")}` : "loading…") : "now"}</output></label>`;

const Legend = ({ map, resource }) => html`<p class="legend" aria-hidden="true">
  0% <span>${map?.legend().filter((_, at) => at % 4 === 0).map((colour) => html`<i style=${{ background: colour }}></i>`)}</span> 100% of ${resource}
  <span class="marks"><i class="cordoned"></i> cordoned <i class="tainted"></i> tainted <i class="not-ready"></i> not ready</span>
</p>`;

function NodePanel({ name, version, close }) {
  const loaded = useResource(`nodes/${encodeURIComponent(name)}`, version);
  const { data } = loaded;
  const head = html`<div class="panel-head"><h2>${name}</h2><button type="button" onClick=${close} aria-label="Close the panel">×</button></div>`;
  if (!data) return html`${head}<${Placeholder} of=${loaded} />`;
  const states = [data.cordoned && "cordoned", data.ready === false && "not ready"].filter(Boolean);
  return html`${head}
    ${states.length > 0 && html`<p class="bad">${states.join(", ")}</p>`}
    <table class="usage"><caption class="hidden">Requested of what the node offers</caption><tbody>
      <tr><th scope="row">pods</th><td>${count(data.podCount)} of ${count(data.allowedPods)}</td><td><${Bar} share=${data.podCount / (data.allowedPods || 1)} /></td></tr>
      ${data.usage.map((each) => html`<tr key=${each.resource}><th scope="row">${each.resource}</th>
        <td>${each.used} of ${each.of}</td><td><${Bar} share=${each.share} /></td></tr>`)}
    </tbody></table>
    <h3>Taints</h3>
    ${data.taints.length ? html`<ul class="chips">${data.taints.map((each) => html`<li>${each}</li>`)}</ul>` : html`<p class="faint">none</p>`}
    <h3>Pods</h3>
    ${data.pods.length ? html`<ul class="pods">${data.pods.map((each) => html`<li key=${each.pod}>
      <a href=${podLink(each.pod)}>${each.pod}</a>
      <small>${Object.entries(each.requests).map(([resource, text]) => `${resource} ${text}`).join(", ") || "no requests"}</small></li>`)}</ul>`
      : html`<p class="faint">none</p>`}
    <details><summary>${plural(Object.keys(data.labels).length, "label")}</summary>
      <ul class="chips">${Object.entries(data.labels).map(([key, value]) => html`<li key=${key}>${key}=${value}</li>`)}</ul></details>`;
}
