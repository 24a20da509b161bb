// Decision: one pod, why it is where it is or nowhere, and what every plugin says of the nodes.
import { Placeholder, count, html, nodeLink, plural, podLink, useEffect, useState } from "./ui.js";
import { useLive, useResource } from "./live.js";

const WAIT_MS = 150;

export function DecisionPage({ parts: [namespace, name] }) {
  return html`<div class="decision">
    <${Search} />
    ${namespace && name
      ? html`<${Pod} key=${`${namespace}/${name}`} namespace=${namespace} name=${name} />`
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

function Pod({ namespace, name }) {
  const { queue, layout } = useLive();
  const loaded = useResource(`pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, queue + layout);
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
    ${said.state === "Pending" && !said.feasibleNodes && html`<p class="faint">What would place it: <code>stowplan explain ${name} -n ${namespace} --fix</code></p>`}
    ${attempts.length > 0 && html`<${Attempts} attempts=${attempts} />`}
    ${said.lastMessage && html`<details><summary>The scheduler's last message</summary><p>${said.lastMessage}</p></details>`}
  </article>`;
}

const Attempts = ({ attempts }) => html`<h3>Attempts</h3>
  <div class="wide" tabindex="0" role="group" aria-label="Attempts"><table>
    <thead><tr><th scope="col" class="number">attempt</th><th scope="col">time</th><th scope="col">result</th>
      <th scope="col" class="number">took</th><th scope="col">node or message</th></tr></thead>
    <tbody>${attempts.map((each) => html`<tr key=${each.attempt}><td class="number">${count(each.attempt)}</td>
      <td>${new Date(each.time * 1000).toLocaleTimeString("en-GB")}</td><td>${each.result}</td>
      <td class="number">${+((each.seconds ?? 0) * 1000).toFixed(1)} ms</td><td>${each.message || each.node}</td></tr>`)}</tbody></table></div>`;

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
        ${winner && html`<th scope="col" class="number">total</th>`}<th scope="col">what is missing</th></tr></thead>
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
