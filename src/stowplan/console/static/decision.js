// Decision: one pod, why it is where it is or nowhere, what every plugin says of the nodes, what would
// place it, and what earlier attempts found.
import { Placeholder, count, duration, html, nodeLink, plural, podLink, useEffect, useRef, useState } from "./ui.js";
import { read, useLive, useResource } from "./live.js";

const WAIT_MS = 150;

export function DecisionPage({ parts: [namespace, name, attempt] }) {
  return html`<div class="decision">
    <${Search} />
    ${namespace && name
      ? html`<${Pod} key=${`${namespace}/${name}`} namespace=${namespace} name=${name} attempt=${attempt} />`
      : html`<p class="state">Pick a pod to see why it is where it is, or why it is pending.</p>`}
  </div>`;
}

function Search() {
  const [text, type] = useState("");
  const [asked, ask] = useState("");
  const { queue } = useLive();
  useEffect(() => {
    const timer = setTimeout(() => ask(text), WAIT_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const found = useResource(`pods?q=${encodeURIComponent(asked)}`, queue);
  const pods = found.data ?? [];
  return html`<form class="search" role="search" onSubmit=${(event) => {
    event.preventDefault();
    if (pods.length) location.hash = podLink(pods[0].pod);
  }}>
    <label>Pod <input type="search" value=${text} placeholder="namespace/name, or a part of it" autocomplete="off" spellcheck=${false}
      onInput=${(event) => type(event.target.value)} /></label>
    <p class="hidden" role="status">${found.data ? `${plural(pods.length, "pod")} found` : ""}</p>
    <ul class="found">${pods.map((each) => html`<li key=${each.pod}><a href=${podLink(each.pod)}>${each.pod}</a>
      <small>${each.node ? `on ${each.node}` : "pending"}</small></li>`)}
      ${found.data && !pods.length ? html`<li class="faint">${asked ? `No pod's name contains “${asked}”.` : "The cluster has no pods."}</li>` : ""}
    </ul>
  </form>`;
}

function Pod({ namespace, name, attempt }) {
  const { queue, layout } = useLive();
  const path = `pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const loaded = useResource(path, queue + layout);
  const { data } = loaded;
  if (!data) return html`<article><h2>${namespace}/${name}</h2>${loaded.status === 404
    ? html`<p class="state" role="alert">There is no such pod now. It may have been deleted.</p>`
    : html`<${Placeholder} of=${loaded} />`}</article>`;
  const { explanation: said, matrix, attempts } = data;
  const reasons = said.reasons ?? [];
  return html`<article>
    <h2>${said.pod} <small class="chip ${said.state}">${said.state}</small></h2>
    <p class="cause">${said.summary}</p>
    ${said.preemption && html`<p>${said.preemption.text}</p>`}
    ${said.advice && html`<p>${said.advice}</p>`}
    ${!said.feasibleNodes && ["Pending", "SchedulingGated", "WaitingForVictims"].includes(said.state) && html`<${Fixes} path=${path} />`}
    <dl class="facts">
      <div><dt>nodes that fit</dt><dd>${count(said.feasibleNodes ?? 0)} of ${count(said.nodes ?? 0)}</dd></div>
      <div><dt>scheduler</dt><dd>${said.scheduler}</dd></div>
      ${said.node && html`<div><dt>${said.state === "Scheduled" ? "node" : "nominated to"}</dt><dd><a href=${nodeLink(said.node)}>${said.node}</a></dd></div>`}
      ${attempts.length > 0 && html`<div><dt>attempts</dt><dd>${count(attempts[0].attempt)}</dd></div>`}
    </dl>
    ${reasons.length > 0 && html`<h3>${said.feasibleNodes ? "Nodes that refuse it" : "Reasons"}</h3><div class="wide" tabindex="0" role="group" aria-label="Reasons"><table>
      <thead><tr><th scope="col" class="number">nodes</th><th scope="col">plugin</th><th scope="col">reason</th><th scope="col">such as</th></tr></thead>
      <tbody>${reasons.map((each) => html`<tr><td class="number">${count(each.nodes)}</td><td>${each.plugin}</td><td>${each.reason}</td>
        <td>${(each.examples ?? []).join(", ")}${each.nodes > (each.examples ?? []).length ? ", …" : ""}</td></tr>`)}</tbody></table></div>`}
    ${matrix && matrix.nodes.length > 0 && html`<${Matrix} matrix=${matrix} own=${said.node} />`}
    ${said.retriedOn && html`<h3>Tried again when</h3><ul>${said.retriedOn.map((each) => html`<li>${each}</li>`)}</ul>`}
    ${attempts.length > 0 && html`<${Attempts} attempts=${attempts} pod=${said.pod} chosen=${attempt} path=${path} />`}
    ${said.lastMessage && html`<details><summary>The scheduler's last message</summary><p>${said.lastMessage}</p></details>`}
  </article>`;
}

/** What would place the pod: searched only when asked for, because it takes the server some work. */
function Fixes({ path }) {
  const [state, set] = useState({});
  const isShown = useRef(true);
  useEffect(() => () => { isShown.current = false; }, []);
  const find = () => {
    set({ busy: true });
    read(`${path}/fixes`).then(
      (data) => isShown.current && set({ data }),
      (error) => isShown.current && set({ error: error.message }),
    );
  };
  const { busy, data, error } = state;
  return html`<section class="fixes" aria-live="polite" aria-busy=${!!busy}>
    <button type="button" class="action" disabled=${busy} onClick=${find}>${busy ? "Searching…" : data ? "Search again" : "Find fixes"}</button>
    ${error && html`<p class="bad">${error}</p>`}
    ${data && data.fixes.length === 0 && html`<p>${data.whole ? "No small change would place it: none of those that were tried helps." : "Nothing was found within the time for a search."}</p>`}
    ${data && data.fixes.length > 0 && html`<h3>Any one of these would place it</h3><ol>${data.fixes.map((fix) => html`<li key=${fix.text}>${fix.text},
      ${" "}then it goes to ${fix.kind === "NewNode" ? "the new node" : html`<a href=${nodeLink(fix.node)}>${fix.node}</a>`}${fix.command && html`<br /><code>${fix.command}</code>`}</li>`)}</ol>
      <p class="faint">Each was tried by the scheduler's own code on the cluster as it is now; nothing was changed.</p>`}
  </section>`;
}

const time = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const took = (seconds) => `${+((seconds ?? 0) * 1000).toFixed(1)} ms`;

const Attempts = ({ attempts, pod, chosen, path }) => html`<h3>Attempts</h3>
  <div class="wide" tabindex="0" role="group" aria-label="Attempts"><table>
    <thead><tr><th scope="col" class="number">attempt</th><th scope="col">time</th><th scope="col">result</th>
      <th scope="col" class="number">took</th><th scope="col">node or message</th></tr></thead>
    <tbody>${attempts.map((each) => html`<tr key=${each.attempt} class=${String(each.attempt) === chosen ? "winner" : ""}>
      <td class="number"><a href=${`${podLink(pod)}/${each.attempt}`} aria-label=${`Open attempt ${each.attempt}`}>${count(each.attempt)}</a></td>
      <td>${time(each.time)}</td><td>${each.result}</td>
      <td class="number">${took(each.seconds)}</td><td>${each.message || each.node}</td></tr>`)}</tbody></table></div>
  ${chosen && html`<${Attempt} key=${chosen} path=${`${path}/attempts/${encodeURIComponent(chosen)}`} close=${podLink(pod)} />`}`;

/** One attempt as the ledger has it. */
function Attempt({ path, close }) {
  const { queue } = useLive();
  const loaded = useResource(path, queue);
  const title = useRef();
  useEffect(() => { title.current?.scrollIntoView({ block: "nearest" }); }, [!!loaded.data]);
  if (!loaded.data) return html`<${Placeholder} of=${loaded} />`;
  const { attempt: said, of } = loaded.data;
  const { reasons = [], scores = [], durations = {}, eviction, isShortened, feasibleNodes = 0, evaluatedNodes = 0 } = said.details ?? {};
  const given = scores.flatMap((each) => Object.entries(each.byPlugin ?? {}).filter(([, points]) => points));
  const plugins = [...new Set(given.map(([name]) => name))];
  return html`<section class="attempt" aria-label=${`Attempt ${said.attempt}`}>
    <h3 ref=${title}>Attempt ${count(said.attempt)} of ${count(of)} <small>${time(said.time)}</small> <a class="close" href=${close}>close</a></h3>
    <p>${said.result}${said.node ? html`: <a href=${nodeLink(said.node)}>${said.node}</a>` : ""}, after ${took(said.seconds)};
      ${" "}${count(feasibleNodes)} of ${plural(evaluatedNodes, "node")} fit.</p>
    ${said.message && html`<p>${said.message}</p>`}
    ${reasons.length > 0 && html`<div class="wide" tabindex="0" role="group" aria-label="Reasons of this attempt"><table>
      <thead><tr><th scope="col" class="number">nodes</th><th scope="col">plugin</th><th scope="col">reason</th><th scope="col">names</th></tr></thead>
      <tbody>${reasons.map((each) => html`<tr><td class="number">${count(each.nodes)}</td><td>${each.plugin}</td><td>${each.reason}</td>
        <td class="names">${each.names === "*" ? "all nodes" : each.names}${each.namesLeftOut ? ` and ${count(each.namesLeftOut)} more` : ""}</td></tr>`)}</tbody></table></div>`}
    ${eviction && html`<p>To make room on <a href=${nodeLink(eviction.node)}>${eviction.node}</a>, evict ${eviction.victims.join(", ")}${eviction.victimsLeftOut ? ` and ${count(eviction.victimsLeftOut)} more` : ""}.</p>`}
    ${scores.length > 0 && html`<div class="wide matrix" tabindex="0" role="group" aria-label="Scores of this attempt"><table>
      <thead><tr><th scope="col">node</th>${plugins.map((name) => html`<th scope="col" key=${name} class="plugin"><span>${name}</span></th>`)}<th scope="col" class="number">total</th></tr></thead>
      <tbody>${scores.map((each) => html`<tr key=${each.node} class=${each.node === said.node ? "winner" : ""}><th scope="row"><a href=${nodeLink(each.node)}>${each.node}</a></th>
        ${plugins.map((name) => html`<td class="number">${count(each.byPlugin?.[name] ?? 0)}</td>`)}<td class="number">${count(each.total)}</td></tr>`)}</tbody></table></div>`}
    ${isShortened && html`<p class="faint">Scores or names of nodes were left out, because there were too many attempts.</p>`}
    ${Object.keys(durations).length > 0 && html`<p class="faint">${Object.entries(durations).map(([name, seconds]) => `${name} ${took(seconds)}`).join(", ")}</p>`}
    ${said.retryBy && html`<p class="faint">${retry(said)}</p>`}
  </section>`;
}

function retry({ retryBy, retriedBy = [] }) {
  const left = retryBy - Date.now() / 1000;
  const event = retriedBy.length ? `, or when something changes that ${retriedBy.join(" or ")} waits for` : "";
  return `${left > 0 ? `Next try within ${duration(left)}` : `The next try was due by ${time(retryBy)}`}${event}.`;
}

/** Nodes by plugins. Plugins that accept every node and give no points are named below it. */
function Matrix({ matrix, own }) {
  const { nodes, winner } = matrix;
  const names = [...new Set([...matrix.filters, ...matrix.scores])];
  const refuses = (node, plugin) => (node.obstacles ?? []).find((each) => each.plugin === plugin);
  const says = (plugin) => nodes.some((node) => refuses(node, plugin) || node.scores?.[plugin]);
  const outside = nodes.flatMap((node) => (node.obstacles ?? []).map((each) => each.plugin)).filter((name) => !names.includes(name));
  const shown = [...new Set([...names.filter(says), ...outside])];
  const silent = names.filter((name) => !shown.includes(name));
  return html`<h3>Nodes and plugins</h3>
    <p class="faint">${winner ? "The best nodes first, then nodes that refuse the pod." : "The nearest nodes first: fewest objections, smallest shortage."}
      ${" "}✗ refuses, ✓ accepts, numbers are weighted scores.</p>
    <div class="wide matrix" tabindex="0" role="group" aria-label="Nodes and plugins"><table>
      <thead><tr><th scope="col">node</th>${shown.map((name) => html`<th scope="col" key=${name} class="plugin"><span>${name}</span></th>`)}
        ${winner && html`<th scope="col" class="number">total</th>`}<th scope="col" class="missing">what is missing</th></tr></thead>
      <tbody>${nodes.map((node) => html`<tr key=${node.node} class=${node.node === winner ? "winner" : ""}>
        <th scope="row"><a href=${nodeLink(node.node)}>${node.node}</a>${node.node === winner && html` <small class="chip best">best</small>`}
          ${own === node.node && html` <small class="chip">here</small>`}</th>
        ${shown.map((name) => html`<${Cell} key=${name} refused=${refuses(node, name)} score=${node.scores?.[name]} />`)}
        ${winner && html`<td class="number">${node.total == null ? "" : count(node.total)}</td>`}
        <td class="missing">${(node.obstacles ?? []).map((each) => each.detail || each.reason).join("; ")}</td></tr>`)}
      </tbody></table></div>
    ${silent.length > 0 && html`<p class="faint">Accept all of these nodes and give no points: ${silent.join(", ")}.</p>`}`;
}

function Cell({ refused, score }) {
  if (refused) return html`<td class="no" title=${refused.detail || refused.reason}><span aria-hidden="true">✗</span><span class="hidden">refuses: ${refused.reason}</span></td>`;
  if (score != null) return html`<td class="number">${count(score)}</td>`;
  return html`<td class="yes"><span aria-hidden="true">✓</span><span class="hidden">accepts</span></td>`;
}
