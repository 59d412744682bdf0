// Charts by Plotly: small lines over time that share one look, and bars for buckets.

import { by, count, css, localStamp, rate, seconds, sideColor } from "./dom.js";

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, showTips: false };

const resolved = (color) => css(color.slice(4, -1));
const faded = (color, alpha) => {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
};

function layout(extra = {}) {
  const quiet = css("--quiet");
  const axis = {
    color: quiet,
    gridcolor: css("--line"),
    zeroline: false,
    fixedrange: true,
    tickfont: { size: 11.5, color: quiet },
    ticks: "",
    automargin: true,
  };
  return {
    autosize: true,
    margin: { l: 44, r: 12, t: 6, b: 26 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: css("--sans"), size: 12, color: css("--text") },
    showlegend: false,
    hovermode: "x unified",
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--text"), size: 12 } },
    dragmode: false,
    ...extra,
    xaxis: { ...axis, showgrid: false, nticks: innerWidth < 600 ? 4 : 6, ticklabelstandoff: 6, tickformat: "%H:%M:%S", hoverformat: "%H:%M:%S", ...extra.xaxis },
    yaxis: { ...axis, nticks: 5, ...extra.yaxis },
  };
}

function line(times, values, name, color, text, extra = {}) {
  const plain = resolved(color);
  return {
    type: "scatter",
    mode: times.length < 3 ? "lines+markers" : "lines",
    x: times,
    y: values,
    name,
    customdata: values.map(text),
    hovertemplate: "%{customdata}",
    line: { color: plain, width: 1.8, shape: "linear" },
    marker: { color: plain, size: 4 },
    connectgaps: false,
    ...extra,
  };
}

const fill = (color) => ({ fill: "tozeroy", fillcolor: faded(resolved(color), 0.1) });

const EMPTY = { range: [0, 1], showticklabels: false, showgrid: false };

// From zero up: a small change of a large value should look small.
function upward(lines) {
  const largest = Math.max(0, ...lines.flatMap((one) => one.y.filter((value) => value != null)));
  if (!largest) return EMPTY;
  return { range: [0, largest * 1.12], tickformat: largest < 10 ? ",.2~f" : "~s" };
}

// A scale of ratios, with ticks at 1, 2 and 5 of each decade as far as there is room for them.
function ratios(lines) {
  const values = lines.flatMap((one) => one.y.filter((value) => value > 0));
  if (!values.length) return EMPTY;
  const low = Math.log10(Math.min(...values)) - 0.12;
  const high = Math.max(Math.log10(Math.max(...values)) + 0.12, low + 0.7);
  const steps = high - low < 1.6 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let decade = Math.floor(low); decade <= high; decade += 1) {
    for (const step of steps) {
      const at = decade + Math.log10(step);
      if (at >= low && at <= high) ticks.push(10 ** at);
    }
  }
  return { type: "log", range: [low, high], tickvals: ticks, ticktext: ticks.map(seconds) };
}

export function drawCharts(points, sides) {
  const times = points.map((point) => localStamp(point.t));
  const first = points.length ? points[0].t : 0;
  const last = points.length ? points[points.length - 1].t : 0;
  // At least a minute wide, so that a job that has just begun is not stretched over the whole chart.
  const range = [localStamp(Math.min(first, last - 60)), localStamp(last)];
  const series = (pick) => points.map((point) => pick(point) ?? null);
  const each = (key, text) =>
    sides.map((side, place) => line(times, series((point) => point[key]?.[place]), side, sideColor(place), text));

  const rows = each("rows", rate);
  plot("chart-rows", rows, { xaxis: { range }, yaxis: upward(rows) });
  const pairs = [line(times, series((point) => point.pairs), "pairs", "var(--pairs)", rate, fill("var(--pairs)"))];
  plot("chart-pairs", pairs, { xaxis: { range }, yaxis: upward(pairs) });
  const latency = ["p50", "p95", "p99"].map((name, place) =>
    line(times, series((point) => point[name]), name, LATENCY[place], seconds),
  );
  plot("chart-latency", latency, { xaxis: { range }, yaxis: ratios(latency) });
  const windows = each("window", count);
  plot("chart-window", windows, { xaxis: { range }, yaxis: upward(windows) });
}

export const LATENCY = ["var(--stream-5)", "var(--stream-2)", "var(--stream-3)"];

export function drawBuckets(buckets) {
  const mean = buckets.reduce((sum, one) => sum + one.rows, 0) / buckets.length;
  const names = buckets.map((one) => one.name);
  const bars = {
    type: "bar",
    x: names,
    y: buckets.map((one) => one.rows),
    marker: { color: faded(css("--stream-0"), 0.72) },
    customdata: buckets.map((one) => count(one.rows)),
    hovertemplate: "bucket %{x}: %{customdata} rows<extra></extra>",
  };
  const level = { type: "line", xref: "paper", x0: 0, x1: 1, y0: mean, y1: mean };
  plot("chart-buckets", [bars], {
    hovermode: "closest",
    bargap: buckets.length > 60 ? 0 : 0.25,
    xaxis: { type: "category", tickformat: "", nticks: 16 },
    yaxis: { ...upward([bars]) },
    shapes: [{ ...level, line: { color: css("--stream-1"), width: 1.5, dash: "dot" } }],
  });
}

function plot(id, data, extra) {
  if (!data.some((one) => one.y.some((value) => value > 0))) {
    const text = { text: "nothing yet", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 };
    extra.annotations = [{ ...text, font: { color: css("--quiet"), size: 13 } }];
  }
  Plotly.react(by(id), data, layout(extra), CONFIG);
}
