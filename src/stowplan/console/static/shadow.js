// Shadow: what the configuration of `stowplan shadow` would have decided, beside what was decided.
import { Placeholder, count, html, nodeLink, plural, podLink } from "./ui.js";
import { useLive, useResource } from "./live.js";
import { Chart } from "./flow.js";

const VERDICTS = {
  other: ["Other node", "another node has a higher score here"],
  rejected: ["Rejected", "a filter rejects the node here"],
  pending: ["No node", "no node fits here"],
  failed: ["Failed", "a plugin failed here"],
};
const share = (part) => `${(part * 100).toFixed(part < 1 && part > 0.99 ? 2 : 1)}%`;
const signed = (number) => (number > 0 ? `+${number}` : `${number}`);
const clock = (time) => new Date(time * 1000).toLocaleTimeString("en-GB");

export function ShadowPage() {
  const { shadow } = useLive();
  const loaded = useResource("shadow", shadow);
  const { data } = loaded;
  if (!data) return html`<${Placeholder} of=${loaded} />`;
  if (!data.decisions) return html`<${Placeholder} of=${loaded}>No pod was bound since the shadow began. Every binding is judged about a second after it happens.<//>`;
  const plugins = Object.entries(data.plugins);
  return html`<div class="queue shadow">
    <ul class="tiles">
      <li><b>${share(data.agreement)}</b> Agreement<small>the chosen node is among the best here, too</small></li>
      <li><b>${count(data.decisions)}</b> Decisions<small>bindings since the shadow began</small></li>
      ${Object.entries(VERDICTS).map(([name, [label, about]]) => {
        const number = data.verdicts[name] ?? 0;
        if (name === "failed" && !number) return null;
        return html`<li key=${name} class=${number ? "unschedulable" : "none"}><b>${count(number)}</b> ${label}<small>${about}</small></li>`;
      })}
    </ul>
    <div class="flow"><${Chart} title="Agreement" unit="percent, per ten seconds" of=${100} tick=${data.decisions} time=${[data.time[0] - 10, ...data.time]}
      lines=${[["agreement", [null, ...data.share.map((part) => part * 100)]]]} /></div>
    <section aria-labelledby="differences"><h2 id="differences">Differences <small>${plural(data.decisions - data.agreed, "decision")}</small></h2>
      ${plugins.length > 0 && html`<p class="faint">Scores that made the difference: ${plugins.map(([name, number]) => html`<small class="chip" key=${name}>${name} ${count(number)}</small> `)}</p>`}
      ${data.differences.length ? html`<${Differences} of=${data.differences} />` : html`<p class="state">This configuration agrees with every decision so far.</p>`}
    </section>
  </div>`;
}

const Differences = ({ of }) => html`<div class="wide" tabindex="0" role="region" aria-labelledby="differences"><table>
  <thead><tr><th scope="col">pod</th><th scope="col">chosen</th><th scope="col">best here</th><th scope="col">because</th><th scope="col">time</th></tr></thead>
  <tbody>${of.map((each) => html`<tr key=${`${each.time} ${each.pod}`}>
    <td><a href=${podLink(each.pod)}>${each.pod}</a></td><td><a href=${nodeLink(each.node)}>${each.node}</a></td>
    <td>${each.best.length ? each.best.map((node) => html`<a key=${node} href=${nodeLink(node)}>${node}</a> `) : "none"}
      ${each.bestCount > each.best.length && html`<small class="faint">and ${count(each.bestCount - each.best.length)} more</small>`}</td>
    <td>${each.note || html`${Object.entries(each.lead).map(([plugin, lead]) => html`<small class="chip" key=${plugin}>${plugin} ${signed(lead)}</small> `)}
      <b>${signed(Object.values(each.lead).reduce((sum, lead) => sum + lead, 0))}</b> in all`}</td>
    <td>${clock(each.time)}</td></tr>`)}</tbody></table></div>`;
