// Preact, its hooks and htm under one name, and the small parts that all pages share.
import { h, render } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export * from "./vendor/preact-hooks.mjs";
export { render };
export const html = htm.bind(h);

const whole = new Intl.NumberFormat("en");
export const count = (number) => whole.format(number);
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
export const percent = (share) => `${Math.round(share * 100)}%`;

/** An amount of a resource: milli-CPU as cores, MiB as GiB, others as they are. */
export function amount(value, unit) {
  if (unit === "m") return `${+(value / 1000).toFixed(value < 10000 ? 2 : 0)}`;
  if (unit === "Mi") return value < 1024 ? `${value} MiB` : `${+(value / 1024).toFixed(1)} GiB`;
  return count(value);
}

export function duration(seconds) {
  if (seconds == null) return "";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

export const podLink = (pod) => `#/decision/${pod.split("/").map(encodeURIComponent).join("/")}`;
export const nodeLink = (node) => `#/cluster/${encodeURIComponent(node)}`;

/** A bar beside a number that says the same. */
export const Bar = ({ share }) => html`<span class="bar" aria-hidden="true">
  <span class=${share >= 0.9 ? "full" : ""} style=${{ width: `${Math.min(share, 1) * 100}%` }}></span>
</span>`;

/** What to show instead of data: loading, an error, or nothing to show. */
export function Placeholder({ of, children }) {
  if (of.error && !of.data) return html`<p class="state bad" role="alert">${of.error}</p>`;
  if (!of.data) return html`<p class="state">Loading…</p>`;
  return html`<p class="state">${children}</p>`;
}
