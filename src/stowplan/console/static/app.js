// The frame of all pages: navigation, the state of the connection, and the page of the address.
import { Placeholder, html, render, useEffect, useState } from "./ui.js";
import { start, useLive, useResource } from "./live.js";
import { ClusterPage } from "./cluster.js";
import { QueuePage } from "./queue.js";
import { DecisionPage } from "./decision.js";
import { FlowPage } from "./flow.js";
import { ShadowPage } from "./shadow.js";
import { TryPage } from "./try.js";

// Those that only some servers have name what the server says if it does.
const PAGES = {
  cluster: ["Cluster", ClusterPage],
  queue: ["Queue", QueuePage],
  decision: ["Decision", DecisionPage],
  flow: ["Flow", FlowPage],
  shadow: ["Shadow", ShadowPage, "shadows"],
  try: ["Try", TryPage, "tries"],
};

function route() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const parts = rest.map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { page: PAGES[name] ? name : "cluster", parts };
}

function Connection() {
  const { connection, lostAt } = useLive();
  const text = { live: "live", lost: "reconnecting…", connecting: "connecting…" }[connection];
  return html`<p class="connection ${connection}" role="status">
    <span aria-hidden="true"></span>${text}
    ${lostAt && html`<small>figures of ${lostAt.toLocaleTimeString("en-GB")}</small>`}
  </p>`;
}

/** Who has signed in, where that is needed. */
function User() {
  const user = useResource("session").data?.user;
  const end = () => fetch("api/session", { method: "DELETE" }).then(() => location.assign("sign-in.html"));
  return user ? html`<p class="user"><span title=${user}>${user}</span> <button type="button" onClick=${end}>Sign out</button></p>` : null;
}

function App() {
  const [{ page, parts }, go] = useState(route());
  useEffect(() => {
    const follow = () => go(route());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  const { connection, queue } = useLive();
  const about = useResource("about", queue); // a standby that takes over publishes a new queue
  const pages = Object.entries(PAGES).filter(([, [, , needs]]) => !needs || about.data?.[needs]);
  const isThere = pages.some(([name]) => name === page);
  const [title, Page] = PAGES[isThere || !about.data ? page : "cluster"];
  useEffect(() => { document.title = `${title} · Stowplan console`; }, [title]);
  const standby = about.data?.standby;
  return html`
    <header>
      <a class="skip" href="#main" onClick=${(event) => {
        event.preventDefault();
        document.getElementById("main").focus();
      }}>Skip to content</a>
      <strong class="brand">Stowplan</strong>
      <nav aria-label="Pages">${pages.map(([name, [label]]) => html`
        <a href="#/${name}" data-label=${label} aria-current=${name === page ? "page" : undefined}>${label}</a>`)}
      </nav>
      <${Connection} />
      <${User} />
    </header>
    <main id="main" tabindex="-1" class=${connection === "lost" ? "stale" : ""}>
      <h1 class="hidden">${title}</h1>
      ${standby && html`<p class="note bad" role="status">${standby[0].toUpperCase() + standby.slice(1)}. Nodes, pods and decisions are
        ${" "}current; states in the queue come from the pods themselves, and attempts and latencies are missing.</p>`}
      ${isThere || about.data ? html`<${Page} parts=${parts} />` : html`<${Placeholder} of=${about} />`}
    </main>`;
}

start();
const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
