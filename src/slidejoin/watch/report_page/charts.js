"use strict";
// Draws the charts of a report with the colours of its style sheet, and again when the scheme changes.
(() => {
  const charts = JSON.parse(document.getElementById("data").textContent);

  // The colours of traces are names of the style sheet.
  const coloured = (value, colour) => {
    if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) =>
      [name, name === "color" ? colour(one) : coloured(one, colour)]));
  };

  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false, automargin: true };
    for (const chart of charts) {
      const { xaxis, yaxis, ...others } = chart.layout;
      const layout = {
        autosize: true, height: 300, margin: { l: 8, r: 8, t: 8, b: 8 }, showlegend: true,
        legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: style.getPropertyValue("--sans"), size: 12, color: colour("--text") },
        hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--text") } },
        xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, rangemode: "tozero", ...yaxis }, ...others,
      };
      Plotly.react(chart.name, chart.traces.map((trace) => coloured(trace, colour)), layout, {
        responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
      });
    }
    document.documentElement.dataset.drawn = String(charts.length);
  };

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
