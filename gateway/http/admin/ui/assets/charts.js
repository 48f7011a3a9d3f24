// Charts from tables: a figure with data-chart is drawn from the table inside it, so that both always agree.
// data-chart: "stacked" (on top of each other) or "lines". Cells carry data-value, rows' heads data-at.
"use strict";

(() => {
  const drawn = new Map();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const UNITS = {
    count: (value) => short(value),
    share: (value) => `${Math.round(value * 100)} %`,
    ms: (value) => (value >= 1000 ? `${+(value / 1000).toPrecision(3)} s` : `${+value.toPrecision(3)} ms`),
    usd: (value) => `$${value >= 1 ? value.toFixed(2) : +value.toPrecision(2)}`,
  };

  function short(value) {
    for (const [step, unit] of [[1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(value) >= step) return `${+(value / step).toPrecision(3)}${unit}`;
    }
    return String(+value.toPrecision(3));
  }

  function read(figure) {
    const heads = [...figure.querySelectorAll("thead th")].slice(1);
    const series = heads.map((head) => ({ name: head.textContent.trim(), layer: head.dataset.layer || "" }));
    const rows = [...figure.querySelectorAll("tbody tr")];
    const value = (row, at) => {
      const said = row.querySelectorAll("td")[at].dataset.value;
      return said === undefined || said === "" ? null : Number(said);
    };
    const times = rows.map((row) => Number(row.querySelector("[data-at]").dataset.at));
    return { series, times, columns: series.map((_, at) => rows.map((row) => value(row, at))) };
  }

  function onTop(columns) {
    const sums = columns[0].map(() => 0);
    const empty = columns[0].map((_, at) => columns.every((column) => column[at] === null));
    return columns.map((column) => column.map((value, at) => {
      sums[at] += value || 0;
      return empty[at] ? null : sums[at];
    }));
  }

  function options(figure, data, stacked, plot) {
    const unit = UNITS[figure.dataset.unit] || UNITS.count;
    const axis = { stroke: colour("--muted"), font: "11px system-ui, sans-serif", ticks: { show: false } };
    const bars = uPlot.paths.bars({ size: [0.86, 40], align: 1 });
    const lines = data.series.map(({ name, layer }) => {
      const stroke = colour(`--layer-${layer}`) || colour("--accent");
      const line = { label: name, stroke, width: 1.75, spanGaps: true };
      return stacked
        ? { ...line, fill: stroke, width: 0, paths: bars, points: { show: false } }
        : { ...line, points: { show: data.times.length < 90, size: 5, fill: stroke } };
    });
    const step = data.times.length > 1 ? data.times[1] - data.times[0] : 60;
    const whole = step >= 86400 ? { incrs: [1, 2, 5, 7, 14, 30].map((days) => days * 86400) } : {};
    return {
      width: plot.clientWidth,
      height: 200,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: !stacked, size: 6 } },
      scales: { x: { time: true, range: (_, first, last) => [first, last + (stacked ? step : 0)] }, y: heights(figure.dataset.unit) },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      axes: [
        { ...axis, ...whole, grid: { show: false }, size: 28, space: 64, values: (_, marks) => marks.map((at) => label(at, data.times)) },
        { ...axis, grid: { stroke: colour("--line"), width: 1, filter: ruled }, size: figure.dataset.unit === "usd" ? 68 : 50, values: (_, marks) => marks.map((mark) => (mark === null ? "" : unit(mark))) },
      ],
      series: [{}, ...(stacked ? lines.reverse() : lines)],
      hooks: { setCursor: [(chart) => tell(figure, data, chart.cursor.idx, unit)] },
    };
  }

  // Latencies of a cache and of a model are orders of magnitude apart.
  function heights(unit) {
    if (unit !== "ms") return { range: (_, __, most) => [0, unit === "share" ? 1 : Math.max(most * 1.08, 1e-9)] };
    const power = (value, whole) => 10 ** whole(Math.log10(Math.max(value, 0.01)));
    return { distr: 3, range: (_, least, most) => [power(least, Math.floor), power(most * 1.01, Math.ceil)] };
  }

  // Of a logarithmic axis, only the powers of ten are ruled.
  function ruled(chart, marks) {
    const log = chart.scales.y.distr === 3;
    return marks.map((mark) => (log && Math.abs(Math.log10(mark) % 1) > 1e-9 && Math.abs(Math.log10(mark) % 1) < 1 - 1e-9 ? null : mark));
  }

  function label(at, times) {
    const time = new Date(at * 1000).toISOString();
    return times[times.length - 1] - times[0] > 2 * 86400 ? time.slice(5, 10) : time.slice(11, 16);
  }

  function tell(figure, data, at, unit) {
    const readout = figure.querySelector(".readout");
    if (at === null || at === undefined) {
      readout.textContent = "";
      return;
    }
    const time = new Date(data.times[at] * 1000).toISOString().slice(0, 16).replace("T", " ");
    const said = data.series.map(({ name }, one) => [name, data.columns[one][at]]);
    const told = said.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${unit(value)}`);
    readout.textContent = `${time} UTC: ${told.join(" · ") || "nothing"}`;
  }

  function draw(figure) {
    const plot = figure.querySelector(".plot");
    const data = read(figure);
    drawn.get(figure)?.destroy();
    drawn.delete(figure);
    if (!data.times.length || !data.series.length || !plot.clientWidth) return;
    const stacked = figure.dataset.chart === "stacked";
    const columns = stacked ? onTop(data.columns).reverse() : data.columns;
    drawn.set(figure, new uPlot(options(figure, data, stacked, plot), [data.times, ...columns], plot));
  }

  function all(root) {
    for (const [figure, chart] of drawn) {
      if (!figure.isConnected) {
        chart.destroy();
        drawn.delete(figure);
      }
    }
    for (const figure of root.querySelectorAll("[data-chart]")) draw(figure);
  }

  let width = 0;
  const again = () => all(document);
  document.addEventListener("DOMContentLoaded", () => {
    width = window.innerWidth;
    again();
  });
  document.addEventListener("htmx:afterSwap", (event) => all(event.target));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    window.requestAnimationFrame(again);
  });
})();
