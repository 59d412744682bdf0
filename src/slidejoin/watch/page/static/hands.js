// Watermarks: a ruler of event time with a hand for each stream, and the gap between the first and the last one.

import { by, draw, keys, seconds, sideColor, utc } from "./dom.js";

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
  14400, 21600, 43200, 86400, 172800, 604800, 2592000, 7776000, 31536000];

const label = (time, step) => {
  const text = new Date(time * 1000).toISOString();
  if (step >= 86400) return text.slice(0, 10);
  return step >= 60 ? text.slice(11, 16) : step >= 1 ? text.slice(11, 19) : text.slice(11, 23);
};

export function drawHands(sides) {
  const shown = sides.map((side, place) => ({ ...side, color: sideColor(place) })).filter((side) => side.watermark != null);
  by("card-hands").hidden = !shown.length;
  if (!shown.length) return;
  const marks = shown.map((side) => side.watermark);
  const low = Math.min(...marks);
  const high = Math.max(...marks);
  const gap = high - low;
  const holder = shown.find((side) => side.holds);
  const items = shown.length > 1 ? [{ name: "gap", value: seconds(gap) }] : [];
  if (holder && gap > 0) items.push({ name: "held back by", value: holder.name, color: holder.color });
  keys(by("gap"), items);

  const width = Math.max(by("hands").clientWidth, 280);
  const row = 26;
  const axis = shown.length * row + 14;
  // The gap takes half of the ruler; hands that agree have a minute around them.
  const span = Math.max(gap * 2, 1);
  const from = low - (span - gap) / 2;
  const inset = 10;
  const x = (time) => inset + ((time - from) / span) * (width - 2 * inset);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${axis + 26}`, role: "img", "aria-label": spoken(shown, gap) });
  if (gap > 0) svg.append(draw("rect", { class: "gap", x: x(low), width: x(high) - x(low), y: 4, height: axis - 4, rx: 3 }));
  svg.append(draw("line", { class: "axis", x1: 0, x2: width, y1: axis, y2: axis }));
  const step = STEPS.find((one) => (one / span) * width >= 96) ?? span;
  for (let time = Math.ceil(from / step) * step; time < from + span; time += step) {
    const at = x(time);
    if (at < 40 || at > width - 40) continue;
    svg.append(draw("line", { class: "axis", x1: at, x2: at, y1: axis, y2: axis + 5 }));
    svg.append(draw("text", { class: "tick", x: at, y: axis + 20, "text-anchor": "middle", text: label(time, step) }));
  }
  shown.forEach((side, place) => {
    const at = x(side.watermark);
    const y = place * row + 20;
    const late = at > width / 2;
    const lag = side.lag == null ? "" : `, ${seconds(side.lag)} behind the clock`;
    const narrow = width < 560;
    const text = `${side.name}  ${narrow ? utc(side.watermark).slice(11) : utc(side.watermark) + lag}`;
    svg.append(draw("line", { x1: at, x2: at, y1: y - 12, y2: axis, stroke: side.color, "stroke-width": 2.5, "stroke-linecap": "round" }));
    svg.append(draw("circle", { cx: at, cy: axis, r: 4.5, fill: side.color }));
    svg.append(draw("text", { x: late ? at - 9 : at + 9, y, "text-anchor": late ? "end" : "start", text }));
  });
  by("hands").replaceChildren(svg);
}

function spoken(shown, gap) {
  const each = shown.map((side) => `${side.name} ${utc(side.watermark)}`).join(", ");
  return `Watermarks: ${each}; gap ${seconds(gap)}`;
}
