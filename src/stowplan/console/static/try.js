// Try: change the cluster of a demo or a simulation, and watch what the scheduler makes of it.
import { Placeholder, count, html, nodeLink, plural, podLink, useEffect, useState } from "./ui.js";
import { useLive, useResource } from "./live.js";
import { NodeMap, useNodes } from "./cluster.js";
import { TEMPLATES } from "./try_templates.js";

const MAP_HEIGHT = 300, TOLD = 6;
const ACTIONS = {
  Node: { cordon: "", uncordon: "", taint: "key=value:NoSchedule, or key- to remove", label: "key=value, or key- to remove", delete: "" },
  Pod: { label: "key=value, or key- to remove", delete: "" },
};

async function write(action, body) {
  const response = await fetch(`api/try/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    referrerPolicy: "same-origin",
    body: JSON.stringify(body),
  }).catch(() => { throw new Error("The server cannot be reached."); });
  const said = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(said.Error ?? `The server answered ${response.status}.`);
  return said;
}

export function TryPage() {
  const [said, tell] = useState(null);
  const [isBusy, work] = useState(false);
  const [target, choose] = useState({ kind: "Node", name: "" });
  const [round, again] = useState(0);
  useEffect(() => { if (said) document.querySelector(".result").scrollIntoView({ block: "nearest" }); }, [said]);
  const nodes = useNodes();
  const send = async (action, body) => {
    work(true);
    try {
      tell(await write(action, body));
    } catch (error) {
      tell({ done: [], problems: [error.message] });
    }
    work(false);
    again((n) => n + 1);
  };
  return html`<div class="try">
    <div>
      <${Create} send=${send} isBusy=${isBusy} />
      <${Change} send=${send} isBusy=${isBusy} target=${target} choose=${choose} names=${nodes.data?.names ?? []} />
      <${Snapshots} send=${send} isBusy=${isBusy} tell=${tell} round=${round} />
    </div>
    <div>
      <${Result} said=${said} isBusy=${isBusy} />
      <${Nodes} nodes=${nodes} target=${target} choose=${choose} />
      <${Pods} tick=${nodes.tick + round} choose=${choose} />
    </div>
  </div>`;
}

function Create({ send, isBusy }) {
  const [template, pick] = useState("pod");
  const [text, type] = useState(TEMPLATES.pod[1]);
  const [copies, repeat] = useState(1);
  return html`<section><h2>Create</h2>
    <form onSubmit=${(event) => { event.preventDefault(); send("create", { text, copies: +copies }); }}>
      <label>Template <select value=${template} onChange=${({ target: { value } }) => { pick(value); type(TEMPLATES[value][1]); }}>
        ${Object.entries(TEMPLATES).map(([name, [label]]) => html`<option key=${name} value=${name}>${label}</option>`)}</select></label>
      <label class="tall">Objects in YAML or JSON
        <textarea rows="14" wrap="off" spellcheck=${false} autocapitalize="off" value=${text} onInput=${(event) => type(event.target.value)}
          onKeyDown=${(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit(); }}></textarea></label>
      <div class="row"><label>Copies <input type="number" min="1" max="500" required value=${copies} onInput=${(event) => repeat(event.target.value)} /></label>
        <button class="do" disabled=${isBusy}>Create</button></div>
    </form></section>`;
}

function Change({ send, isBusy, target, choose, names }) {
  const [action, act] = useState("cordon");
  const [value, type] = useState("");
  const { kind, name } = target;
  const { queue } = useLive();
  const found = useResource(kind === "Pod" ? `pods?q=${encodeURIComponent(name)}` : null, queue);
  const listed = kind === "Pod" ? (found.data ?? []).map((each) => each.pod) : names.slice(0, 500);
  const allowed = ACTIONS[kind];
  const chosen = action in allowed ? action : "delete";
  return html`<section><h2>Change</h2>
    <form onSubmit=${(event) => {
      event.preventDefault();
      const [namespace, own] = kind === "Pod" && name.includes("/") ? name.split("/") : ["", name];
      send("change", { kind, namespace, name: own, action: chosen, value: allowed[chosen] ? value : "" });
    }}>
      <div class="row">
        <label>Kind <select value=${kind} onChange=${(event) => choose({ kind: event.target.value, name: "" })}>
          ${Object.keys(ACTIONS).map((each) => html`<option key=${each}>${each}</option>`)}</select></label>
        <label class="wider">Name <input required list="try-names" autocomplete="off" spellcheck=${false} value=${name}
          placeholder=${kind === "Pod" ? "namespace/name" : "node name"} onInput=${(event) => choose({ kind, name: event.target.value })} /></label>
        <datalist id="try-names">${listed.map((each) => html`<option key=${each} value=${each}></option>`)}</datalist>
      </div>
      <div class="row">
        <label>Action <select value=${chosen} onChange=${(event) => act(event.target.value)}>
          ${Object.keys(allowed).map((each) => html`<option key=${each}>${each}</option>`)}</select></label>
        <label class="wider">Value <input required=${!!allowed[chosen]} disabled=${!allowed[chosen]} autocomplete="off" spellcheck=${false}
          value=${allowed[chosen] ? value : ""} placeholder=${allowed[chosen]} onInput=${(event) => type(event.target.value)} /></label>
        <button class="do" disabled=${isBusy}>Apply</button>
      </div>
    </form></section>`;
}

function Snapshots({ send, isBusy, tell, round }) {
  const [file, pick] = useState(null);
  const [replaces, replace] = useState(true);
  const { queue, layout } = useLive();
  const { data } = useResource("try", round + queue + layout);
  return html`<section><h2>Snapshot <small>${data ? `${count(data.objects)} of at most ${count(data.most)} objects` : ""}</small></h2>
    <p class="row"><a class="do" href="api/try/export" download="cluster.json">Export as a list</a>
      <a class="do" href="api/try/export?format=simulator" download="simulator.json">Export for kube-scheduler-simulator</a></p>
    <form onSubmit=${(event) => {
      event.preventDefault();
      file.text().then((text) => send("import", { text, replaces }), () => tell({ done: [], problems: ["The file cannot be read."] }));
    }}>
      <label class="tall">File of either format <input type="file" required accept=".json,.yaml,.yml" onChange=${(event) => pick(event.target.files[0])} /></label>
      <div class="row"><label class="tick"><input type="checkbox" checked=${replaces} onChange=${(event) => replace(event.target.checked)} /> Delete everything first</label>
        <button class="do" disabled=${isBusy || !file}>Import</button></div>
    </form>
    <p class="row"><button type="button" class="do" disabled=${isBusy} onClick=${() => send("clear", { what: "pods" })}>Delete all pods</button>
      <button type="button" class="do" disabled=${isBusy} onClick=${() => send("clear", { what: "everything" })}>Delete everything</button></p>
  </section>`;
}

/** What the last request did. Its place is kept free, so that nothing jumps. */
function Result({ said, isBusy }) {
  const { done = [], problems = [], refused } = said ?? {};
  return html`<section class="result" aria-label="Result">
    <div role="status">${isBusy ? html`<p class="faint">working…</p>` : said ? html`
      ${done.length > 0 && html`<ul>${done.slice(0, TOLD).map((each) => html`<li key=${each}>${each}</li>`)}
        ${done.length > TOLD && html`<li class="faint">and ${count(done.length - TOLD)} more</li>`}</ul>`}
      ${problems.length === 0 && done.length === 0 && html`<p class="faint">There was nothing to do.</p>`}`
      : html`<p class="faint">Create a pod or change a node. What happens is shown here.</p>`}</div>
    <div role="alert">${!isBusy && problems.length > 0 && html`<p class="bad">${refused ? `${plural(refused, "object")} refused` : "Refused"}</p>
      <ul class="bad">${problems.map((each) => html`<li key=${each}>${each}</li>`)}</ul>`}</div>
  </section>`;
}

function Nodes({ nodes: { loaded, data, tick }, target, choose }) {
  const selected = data && target.kind === "Node" ? data.names.indexOf(target.name) : -1;
  return html`<section aria-label="Map of nodes"><h2>Nodes <small>${data ? plural(data.names.length, "node") : ""}, requested cpu</small></h2>
    ${data && data.names.length > 0
      ? html`<${NodeMap} data=${data} resource="cpu" find="" selected=${selected} tick=${tick} height=${MAP_HEIGHT}
          select=${(at) => choose({ kind: "Node", name: at == null ? "" : data.names[at] })} />`
      : html`<${Placeholder} of=${loaded}>The cluster has no nodes. Create some from a template.<//>`}</section>`;
}

function Pods({ tick, choose }) {
  const { queue } = useLive();
  const loaded = useResource("pods?q=", queue + tick);
  const pods = loaded.data ?? [];
  return html`<section><h2>Pods <small>pending ones first</small></h2>
    ${pods.length
      ? html`<div class="wide" tabindex="0" role="group" aria-label="Pods"><table>
        <thead><tr><th scope="col">pod</th><th scope="col">node</th><th scope="col"><span class="hidden">change</span></th></tr></thead>
        <tbody>${pods.map((each) => html`<tr key=${each.pod}><td><a href=${podLink(each.pod)}>${each.pod}</a></td>
          <td>${each.node ? html`<a href=${nodeLink(each.node)}>${each.node}</a>` : html`<span class="chip Pending">pending</span>`}</td>
          <td><button type="button" class="do" aria-label=${`Change ${each.pod}`} onClick=${() => choose({ kind: "Pod", name: each.pod })}>change</button></td></tr>`)}
        </tbody></table></div>`
      : html`<${Placeholder} of=${loaded}>The cluster has no pods. Create some from a template.<//>`}</section>`;
}
