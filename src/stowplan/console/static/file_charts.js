// The charts of a page in one file: each figure holds its data. Follows chart.js in one module.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 432800, 864000];
const WHOLE = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

for (const figure of document.querySelectorAll("figure.chart")) {
  const { at, lines, until, unit, steps, marks } = JSON.parse(figure.querySelector("script").textContent);
  const [size, name] = UNITS.find(([seconds]) => until >= 2 * seconds) ?? UNITS.at(-1);
  const isWhole = lines.every(({ values }) => values.every((each) => each == null || Number.isInteger(each)));
  const { plot } = drawChart(figure.querySelector(".plot"), [at, ...lines.map(({ values }) => values)],
    lines.map(({ colour, isDashed }) => ({ colour, dash: isDashed ? [5, 4] : undefined, paths: steps ? uPlot.paths.stepped({ align: 1 }) : undefined })), {
      padding: [8, 24, 0, 0],
      scales: { x: { time: false, range: [0, until] } },
      x: { incrs: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, ...STEPS], values: (_, splits) => splits.map((each) => `${+(each / size).toFixed(2)} ${name}`) },
      y: { size: 58, ...(isWhole ? { incrs: WHOLE } : {}), values: (_, splits) => splits.map((each) => `${each.toLocaleString("en")}${unit}`) },
    });
  for (const [moment, text] of marks) {
    const mark = document.createElement("div");
    mark.className = "mark";
    mark.title = text;
    mark.style.left = `${moment / until * 100}%`;
    plot.over.append(mark);
  }
}
