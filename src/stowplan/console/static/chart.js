// A chart over time by uPlot in the look of the pages. Colours are read whenever it is drawn, so
// that it follows the colour scheme. Also part of pages in one file (`file_page.py`).
const HEIGHT = 190;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const AXIS = {
  stroke: () => colour("--faint"),
  grid: { stroke: () => colour("--rule"), width: 1 },
  ticks: { show: false },
  font: "12px system-ui, sans-serif",
};

/** `lines` are series of uPlot whose `colour` is a CSS variable; `x` and `y` add to the axes. */
export function drawChart(place, columns, lines, { x = {}, y = {}, scales = {}, ...more } = {}) {
  const plot = new uPlot({
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false },
    scales: { y: { range: (_, low, high) => [0, Math.max((high ?? 0) * 1.08, 1)] }, ...scales },
    axes: [{ ...AXIS, space: 70, size: 32, ...x }, { ...AXIS, size: 46, ...y }],
    series: [{}, ...lines.map(({ colour: name, ...line }) => ({ stroke: () => colour(name), width: 2, points: { show: false }, spanGaps: true, ...line }))],
    ...more,
  }, columns, place);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => plot.redraw(false, true);
  scheme.addEventListener("change", repaint);
  const observer = new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: HEIGHT }));
  observer.observe(place);
  return {
    plot,
    destroy() {
      observer.disconnect();
      scheme.removeEventListener("change", repaint);
      plot.destroy();
    },
  };
}
