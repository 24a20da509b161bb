// Queue: the pods that wait, by state, and within a state by cause.
import { Placeholder, count, duration, html, plural, podLink } from "./ui.js";
import { useLive, useResource } from "./live.js";

const STATES = {
  active: ["Active", "tried next"],
  backoff: ["Backing off", "tried again after a pause"],
  unschedulable: ["Unschedulable", "tried again when an event may help"],
  gated: ["Gated", "kept out of the queue"],
  permit: ["Waiting on Permit", "placed, but held by a plugin"],
};

export function QueuePage() {
  const { queue } = useLive();
  const loaded = useResource("queue", queue);
  const { data } = loaded;
  const total = data?.states.reduce((sum, each) => sum + each.pods, 0) ?? 0;
  return html`<div class="queue">
    <ul class="tiles">${Object.entries(STATES).map(([state, [label, about]]) => {
      const pods = data?.states.find((each) => each.state === state)?.pods;
      return html`<li key=${state} class=${pods ? state : "none"}><b>${pods == null ? "–" : count(pods)}</b> ${label}<small>${about}</small></li>`;
    })}</ul>
    ${data && !data.live && !data.standby && html`<p class="faint note">Another scheduler serves this cluster: states come from the pods themselves, and only
      ${" "}<code>stowplan run --console</code> knows attempts, backoff and Permit.</p>`}
    ${total === 0
      ? html`<${Placeholder} of=${loaded}>No pod is waiting. Pods that find no node appear here with their cause.<//>`
      : data.states.filter((each) => each.pods).map((each) => html`<${State} key=${each.state} ...${each} />`)}
  </div>`;
}

const State = ({ state, pods, causes, groups }) => html`<section aria-labelledby=${`state-${state}`}>
  <h2 id=${`state-${state}`}>${STATES[state][0]} <small>${plural(pods, "pod")}</small></h2>
  ${groups.map((group, at) => html`<details key=${group.cause} open=${at === 0}>
    <summary><b class="number">${count(group.pods)}</b> <span>${group.cause || "no cause is known yet"}</span>
      ${group.plugins.map((name) => html` <small class="chip">${name}</small>`)}</summary>
    <div class="wide"><table><thead><tr><th scope="col">pod</th><th scope="col" class="number">priority</th>
      <th scope="col" class="number">attempts</th><th scope="col" class="number">waiting for</th></tr></thead>
      <tbody>${group.listed.map((pod) => html`<tr key=${pod.pod}><td><a href=${podLink(pod.pod)}>${pod.pod}</a></td>
        <td class="number">${count(pod.priority)}</td><td class="number">${pod.attempts ?? "–"}</td>
        <td class="number">${duration(pod.since ?? (pod.created ? (Date.now() - Date.parse(pod.created)) / 1000 : null))}</td></tr>`)}
      </tbody></table></div>
    ${group.pods > group.listed.length && html`<p class="faint">and ${count(group.pods - group.listed.length)} more</p>`}
  </details>`)}
  ${causes > groups.length && html`<p class="faint">and ${plural(causes - groups.length, "other cause")}</p>`}
</section>`;
