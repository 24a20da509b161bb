// The connection to the server: JSON by fetch, changes by server-sent events.
// After a break the browser names the last event it has; the server sends what was missed, or
// `reset`, and then everything that is shown is read again.
import { useEffect, useReducer, useRef, useState } from "./ui.js";

const SILENCE_MS = 15000; // the server sends something every second
const RETRY_MS = 2000;

export const live = {
  connection: "connecting",
  lostAt: null,
  epoch: 0, // grows with every reset
  layout: 0, // grows when nodes come, go or change
  queue: 0,
  shadow: 0,
  nodes: [], // listeners of changed rows
  flow: [], // listeners of samples
};
const watchers = new Set();
let source, lastId = "", heardAt = 0;

function changed(change) {
  Object.assign(live, change);
  for (const each of [...watchers]) each();
}

/** Render again whenever something in `live` changes. */
export function useLive() {
  const [, again] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    watchers.add(again);
    return () => watchers.delete(again);
  }, []);
  return live;
}

/** Call `listener` with every event of a kind while the component is shown. */
export function useEvents(kind, listener) {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => {
    const call = (data) => latest.current(data);
    live[kind].push(call);
    return () => live[kind].splice(live[kind].indexOf(call), 1);
  }, [kind]);
}

/** The page that asks for a token, and leads back here. */
const signIn = () => location.assign(`sign-in.html${location.hash}`);

export async function read(path) {
  const response = await fetch(`api/${path}`);
  const body = await response.json().catch(() => ({}));
  if (response.status === 401) signIn();
  if (!response.ok) throw Object.assign(new Error(body.Error ?? `The server answered ${response.status}.`), { status: response.status });
  return body;
}

/** The JSON at a path, read again when the path or a version changes; keeps old data meanwhile. */
export function useResource(path, version = 0) {
  const [state, set] = useState({ path, data: null, error: null });
  const { epoch } = useLive();
  useEffect(() => {
    if (path == null) return;
    let wanted = true;
    read(path).then(
      (data) => wanted && set({ path, data, error: null }),
      (error) => wanted && set((old) => ({ path, data: old.path === path && error.status !== 404 ? old.data : null, error: error.message, status: error.status })),
    );
    return () => { wanted = false; };
  }, [path, version, epoch]);
  return state.path === path ? state : { path, data: null, error: null };
}

function connect() {
  source?.close();
  heardAt = Date.now();
  source = new EventSource(`api/events${lastId ? `?after=${encodeURIComponent(lastId)}` : ""}`);
  const on = (name, handle) => source.addEventListener(name, (event) => {
    lastId = event.lastEventId;
    heardAt = Date.now();
    if (live.connection !== "live") changed({ connection: "live", lostAt: null });
    handle(JSON.parse(event.data));
  });
  on("reset", () => changed({ epoch: live.epoch + 1 }));
  on("layout", () => changed({ layout: live.layout + 1 }));
  on("queue", () => changed({ queue: live.queue + 1 }));
  on("shadow", () => changed({ shadow: live.shadow + 1 }));
  on("nodes", (data) => live.nodes.forEach((each) => each(data)));
  on("flow", (data) => live.flow.forEach((each) => each(data)));
  source.onerror = () => {
    lost();
    if (source.readyState !== EventSource.CLOSED) return;
    read("session").catch(() => {}); // has it ended?
    setTimeout(() => document.hidden || connect(), RETRY_MS);
  };
}

function lost() {
  if (live.connection !== "lost") changed({ connection: "lost", lostAt: new Date() });
}

/** Hidden tabs hold no connection: a browser has six for a server, and tabs share them. */
export function start() {
  connect();
  const pause = () => source.close();
  const resume = () => document.hidden || connect();
  addEventListener("visibilitychange", () => (document.hidden ? pause() : resume()));
  addEventListener("pagehide", pause);
  addEventListener("pageshow", (event) => event.persisted && resume());
  setInterval(() => {
    if (!document.hidden && Date.now() - heardAt > SILENCE_MS) {
      lost();
      connect();
    }
  }, 3000);
}
