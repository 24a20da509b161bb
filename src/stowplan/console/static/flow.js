// Flow: throughput, waiting pods, attempts and latency of the last ten minutes.
import { Placeholder, Bar, html, percent, useEffect, useRef, useState } from "./ui.js";
import { useEvents, useResource } from "./live.js";
import { drawChart } from "./chart.js";

const KEPT = 600;
const COLOURS = ["--line-1", "--line-2", "--line-3"];
const milliseconds = (column) => column.map((value) => (value == null ? null : value * 1000));

export function FlowPage() {
  const [version, reload] = useState(0);
  const loaded = useResource("flow", version);
  const { data } = loaded;
  const [tick, again] = useState(0);
  useEvents("flow", (sample) => {
    if (!data || sample.time <= data.time.at(-1)) return;
    if (sample.standby !== data.standby) reload((n) => n + 1);
    const grow = (column, value) => {
      column.push(value);
      if (column.length > KEPT) column.shift();
    };
    for (const name of ["time", "bound", "pending"]) grow(data[name], sample[name]);
    for (const name of ["attempts", "latency"]) sample[name].forEach((value, at) => grow(data[name][at], value));
    data.plugins = sample.plugins;
    again((n) => n + 1);
  });
  if (!data) return html`<${Placeholder} of=${loaded} />`;
  const none = data.standby ? html`Only the replica that leads has these figures.` : html`Only <code>stowplan run --console</code> knows these figures: they are the scheduler's own.`;
  return html`<div class="flow">
    <${Chart} title="Pods bound" unit="per second" tick=${tick} time=${data.time} lines=${[["bound", data.bound]]} />
    <${Chart} title="Pods pending" unit="" tick=${tick} time=${data.time} lines=${[["pending", data.pending]]} />
    ${data.live
      ? html`<${Chart} title="Attempts" unit="per second, by result" tick=${tick} time=${data.time} lines=${data.results.map((name, at) => [name, data.attempts[at]])} />
        <${Chart} title="Latency of attempts" unit="milliseconds, over 15 s" tick=${tick} time=${data.time}
          lines=${data.percentiles.map((share, at) => [`p${Math.round(share * 100)}`, milliseconds(data.latency[at])])} />
        <section class="chart"><h2>Plugin time <small>share of the measured time, over 15 s</small></h2>
          ${data.plugins.length ? html`<table class="usage"><tbody>${data.plugins.map((each) => html`<tr key=${each.plugin}><th scope="row">${each.plugin}</th>
            <td class="number">${percent(each.share)}</td><td><${Bar} share=${each.share} /></td></tr>`)}</tbody></table>`
            : html`<p class="state">No plugin was measured in the last seconds. One attempt in ten is.</p>`}</section>`
      : ["Attempts", "Latency of attempts"].map((title) => html`<section class="chart"><h2>${title}</h2><p class="state">${none}</p></section>`)}
  </div>`;
}

const clock = (at, step) => new Date(at * 1000).toLocaleTimeString("en-GB").slice(0, step < 60 ? 8 : 5);

/** `of` the whole: the scale ends there, and single values show as points. */
export function Chart({ title, unit, time, lines, tick, of }) {
  const place = useRef(), chart = useRef();
  const columns = () => [time, ...lines.map(([, values]) => values)];
  useEffect(() => {
    const shown = lines.map(([label], at) => ({ label, colour: COLOURS[at], ...(of && { points: { show: true, size: 5 } }) }));
    const x = { values: (_, splits, __, ___, step) => splits.map((at) => clock(at, step)) };
    chart.current = drawChart(place.current, columns(), shown, { x, ...(of && { scales: { y: { range: [0, of] } } }) });
    return () => {
      chart.current.destroy();
      chart.current = null;
    };
  }, [lines.length]);
  useEffect(() => { chart.current?.plot.setData(columns()); }, [tick, time]);
  const now = lines.map(([label, values]) => {
    const value = values.at(-1);
    return [label, value == null ? "–" : +value.toFixed(value < 10 ? 2 : 0)];
  });
  return html`<section class="chart"><h2>${title} <small>${unit}</small></h2>
    <ul class="now">${now.map(([label, value], at) => html`<li key=${label}><i class=${`line-${at + 1}`}></i>${label} <b>${value}</b></li>`)}</ul>
    <div class="plot" ref=${place} role="img" aria-label=${`${title}: ${now.map(([label, value]) => `${label} ${value}`).join(", ")}`}></div></section>`;
}
