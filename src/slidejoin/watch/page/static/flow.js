// The picture at the top: streams flow into their windows, windows meet in the join, pairs flow out.

import { by, bytes, count, draw, make, rate, say, sideColor } from "./dom.js";

let drawn = "";
let parts = [];
let fullest = [];

// Dots move faster with the rate, in steps: a change of speed makes them jump.
const speed = (value) => (value > 0 ? Math.min(1 + Math.floor(Math.log10(value + 1)), 5) : 0);

function way(d, color) {
  const line = draw("path", { d, class: "way", color });
  const dots = draw("path", { d, class: "dots", color });
  return { line, dots };
}

function setSpeed(dots, value) {
  const name = value > 0 ? `dots moving speed-${speed(value)}` : "dots";
  if (dots.getAttribute("class") !== name) dots.setAttribute("class", name);
}

function named(side) {
  const label = make("span", { class: "label", text: side.name });
  if (side.name !== side.side) label.append(make("small", { text: side.side }));
  return label;
}

function build(sides) {
  const flow = by("flow");
  flow.replaceChildren();
  fullest = sides.map(() => 0);
  parts = sides.map((side, place) => {
    const color = sideColor(place);
    const part = {
      rate: make("span", { class: "big" }),
      sum: make("span", { class: "sum" }),
      bar: make("i"),
      rows: make("span"),
      most: make("span", { class: "sum" }),
    };
    const stream = make("div", { class: "stream", color }, named(side), part.rate, part.sum);
    const { line, dots } = way("M4 30 H96", color);
    part.dots = [dots];
    const lane = make("div", { class: "lane", "aria-hidden": "true" },
      draw("svg", { viewBox: "0 0 100 60", preserveAspectRatio: "none" }, line, dots));
    const store = make("div", { class: "store", color }, make("span", { class: "sum", text: "window" }),
      make("div", { class: "gauge" }, part.bar, part.rows), part.most);
    for (const element of [stream, lane, store]) {
      element.style.gridRow = String(place + 1);
      flow.append(element);
    }
    return part;
  });

  // From the middle of each window to the node, and from there out.
  const svg = draw("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none" });
  sides.forEach((_, place) => {
    const y = ((place + 0.5) / sides.length) * 100;
    const { line, dots } = way(`M4 ${y} C 34 ${y}, 30 50, 58 50`, sideColor(place));
    parts[place].dots.push(dots);
    svg.append(line, dots);
  });
  const out = way("M58 50 H96", "var(--pairs)");
  svg.append(out.line, out.dots);
  const sign = draw("svg", { viewBox: "0 0 16 12" },
    draw("path", { d: "M2 1.5v9l12-9v9z", fill: "none", stroke: "var(--pairs)", "stroke-width": 1.6, "stroke-linejoin": "round" }));
  const joint = make("div", { class: "joint", "aria-hidden": "true" }, svg, make("div", { class: "node" }, sign));
  joint.style.gridRow = `1 / span ${sides.length}`;
  parts.pairs = { rate: make("span", { class: "big" }), sum: make("span", { class: "sum" }), dots: out.dots };
  const pairs = make("div", { class: "out", color: "var(--pairs)" }, make("span", { class: "label", text: "pairs" }),
    parts.pairs.rate, parts.pairs.sum);
  pairs.style.gridRow = `1 / span ${sides.length}`;
  parts.losses = make("div", { class: "losses" });
  parts.losses.hidden = true;
  flow.append(joint, pairs, parts.losses);
}

function perSecond(element, value, what) {
  say(element, "");
  element.append(rate(value), make("small", { text: `${what}/s` }));
}

export function drawFlow(details, points, moving) {
  const { sides, pairs, lost } = details;
  const names = JSON.stringify(sides.map((side) => side.name));
  if (names !== drawn) {
    build(sides);
    drawn = names;
  }
  sides.forEach((side, place) => {
    const part = parts[place];
    for (const point of points) fullest[place] = Math.max(fullest[place], point.window?.[place] ?? 0);
    const most = fullest[place];
    perSecond(part.rate, moving ? side.rate : null, "rows");
    say(part.sum, side.rows == null ? "" : `${count(side.rows)} rows`);
    part.bar.style.width = `${most ? Math.min((100 * (side.window ?? 0)) / most, 100) : 0}%`;
    say(part.most, most ? `fullest so far: ${count(most)} rows` : "");
    say(part.rows, side.window == null ? "" : `${count(side.window)} rows`);
    for (const dots of part.dots) setSpeed(dots, moving ? side.rate : 0);
  });
  perSecond(parts.pairs.rate, moving ? pairs.rate : null, "pairs");
  say(parts.pairs.sum, pairs.total == null ? "" : `${count(pairs.total)} pairs`);
  setSpeed(parts.pairs.dots, moving ? pairs.rate : 0);
  const items = lost.map((one) => [one.name, one.rows]);
  for (const side of sides) if (side.unmatched) items.push([`${side.name} without a match`, side.unmatched]);
  const feed = details.feed;
  parts.losses.hidden = !items.length && feed.rows == null;
  parts.losses.replaceChildren(...items.map(([name, rows]) => make("span", {}, make("b", { text: count(rows) }), ` ${name}`)));
  if (feed.rows != null) {
    const room = feed.capacity ? ` of ${count(feed.capacity)}` : "";
    parts.losses.append(make("span", {}, make("b", { text: count(feed.rows) }), `${room} rows wait in the queue`));
  }
  return bytes(details.window_bytes);
}
