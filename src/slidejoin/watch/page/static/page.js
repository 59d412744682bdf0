// The live page: takes the server's events and draws what they say. Addresses are relative: it works behind any port.

import { drawBuckets, drawCharts, LATENCY } from "./charts.js";
import { by, bytes, count, keys, local, localStamp, make, percent, rate, say, seconds, sideColor } from "./dom.js";
import { drawFlow } from "./flow.js";
import { drawHands } from "./hands.js";

const POINTS = 900;

let points = [];
let details = null;
let state = { name: "waiting", text: "", age: null };
let stateAt = 0;
let shownRows = "";
let shownLog = "";
let shownOrigin = "";

// -- state ------------------------------------------------------------------------------------------------------------

function showState() {
  const age = state.age == null ? null : state.age + (performance.now() - stateAt) / 1000;
  document.body.dataset.state = state.name;
  say(by("state"), state.name);
  const since = age == null ? "" : age < 2.5 ? "updated just now" : `updated ${seconds(Math.round(age))} ago`;
  const why = { running: since, ended: `at ${details ? local(details.time) : ""}` }[state.name];
  say(by("why"), why ?? (details ? [state.text, since].filter(Boolean).join(", ") : ""));
  const mark = { lost: "✕ ", ended: "■ " }[state.name] ?? "";
  if (!details) say(by("waiting"), state.text || "waiting for the server of this page");
  document.title = `${mark}${details ? details.job.name : "slidejoin"} – slidejoin`;
}

function setState(next) {
  const changed = next.name !== state.name;
  state = next;
  stateAt = performance.now();
  showState();
  if (changed && details) {
    drawFlow(details, [], state.name === "running");
    showKeys();
  }
}

// -- drawing ----------------------------------------------------------------------------------------------------------

function showJob(job) {
  say(by("job"), job.name);
  const origin = `${job.engine === "spark" ? "on Spark" : "in one process"}, since ${localStamp(job.started).slice(0, 16)}`;
  if (origin !== shownOrigin) say(by("origin"), (shownOrigin = origin));
  by("predicate").hidden = false;
  say(by("on"), job.on);
  say(by("window"), job.window);
  by("card-plan").hidden = !job.plan;
  say(by("plan"), job.plan);
}

function showKeys() {
  const { sides, pairs, latency } = details;
  const now = (value) => rate(state.name === "running" ? value : null);
  const each = (pick) => sides.map((side, place) => ({ name: side.name, value: pick(side), color: sideColor(place) }));
  keys(by("keys-rows"), each((side) => now(side.rate)));
  keys(by("keys-pairs"), [{ name: "pairs", value: now(pairs.rate), color: "var(--pairs)" }]);
  keys(by("keys-latency"), ["p50", "p95", "p99"].map((name, place) => ({ name, value: seconds(latency?.[name]), color: LATENCY[place] })));
  const memory = details.window_bytes == null ? [] : [{ name: "memory", value: bytes(details.window_bytes) }];
  keys(by("keys-window"), [...each((side) => count(side.window)), ...memory]);
  say(by("h-latency"), details.job.engine === "spark" ? "Time of a micro-batch" : "Time of a push");
  say(by("latency-unit"), "recent");
}

function shares(element, items) {
  element.replaceChildren(...items.map(({ name, share, code, color }) => {
    const bar = make("i");
    bar.style.width = `${Math.max(share * 100, share > 0 ? 0.5 : 0)}%`;
    const what = make(code ? "code" : "span", { class: "what", text: name });
    return make("div", { class: "share", color }, what, make("b", { text: percent(share) }), make("div", { class: "bar" }, bar));
  }));
}

function showShares() {
  by("card-terms").hidden = !details.terms.length;
  shares(by("terms"), details.terms.map((one) => ({ name: one.term, share: one.passed, code: true, color: "var(--pairs)" })));
  by("card-steps").hidden = !details.steps.length;
  shares(by("steps"), details.steps.slice(0, 6).map((one) => ({ name: one.name, share: one.share, color: "var(--stream-5)" })));
  by("card-buckets").hidden = !details.buckets.length;
  if (details.buckets.length) {
    const skew = details.skew == null ? [] : [{ name: "largest over mean", value: `${details.skew.toFixed(2)} ×` }];
    keys(by("skew"), [{ name: "buckets", value: count(details.buckets.length) }, ...skew]);
    drawBuckets(details.buckets);
  }
}

const isNumber = (text) => /^-?\d[\d_,]*(\.\d+)?(e[-+]?\d+)?$/i.test(text);

function showNewest() {
  const newest = details.newest;
  by("card-newest").hidden = !newest || !newest.columns.length;
  if (!newest) return;
  const now = JSON.stringify(newest);
  // Rows stay while somebody reads them.
  if (now === shownRows || (shownRows && by("newest").matches(":hover, :focus"))) return;
  const before = new Set(shownRows ? JSON.parse(shownRows).rows.map((row) => JSON.stringify(row)) : []);
  shownRows = now;
  const rows = [...newest.rows].reverse();
  const fresh = rows.map((row) => !before.has(JSON.stringify(row)));
  // A light on what is new says something only if not everything is.
  const lit = fresh.some((one) => !one);
  say(by("newest-unit"), `the last ${rows.length}, newest first; they stay while the pointer is on them`);
  const right = newest.columns.map((_, place) => rows.length > 0 && rows.every((row) => !row[place] || isNumber(row[place])));
  const cell = (tag, text, place) => make(tag, { text, ...(right[place] ? { class: "number" } : {}), ...(tag === "th" ? { scope: "col" } : {}) });
  const head = make("tr", {}, ...newest.columns.map((name, place) => cell("th", name, place)));
  const body = rows.map((row, at) => make("tr", lit && fresh[at] ? { class: "new" } : {},
    ...row.map((text, place) => cell("td", text, place))));
  by("newest").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

function showLog() {
  const lines = details.log ?? [];
  by("card-log").hidden = !lines.length;
  const now = JSON.stringify(lines);
  if (now === shownLog) return;
  shownLog = now;
  const body = [...lines].reverse().map((line) => {
    const level = /^[A-Z]+$/.test(line.level) ? { class: line.level } : {};
    return make("tr", level, make("td", { text: local(line.time) }), make("td", { text: line.level.toLowerCase() }), make("td", { text: line.text }));
  });
  by("log").replaceChildren(make("table", {}, make("tbody", {}, ...body)));
}

function show(added) {
  if (!details) return;
  document.body.classList.remove("empty");
  showJob(details.job);
  drawFlow(details, added, state.name === "running");
  showKeys();
  drawCharts(points, details.sides.map((side) => side.name));
  drawHands(details.sides);
  showShares();
  showNewest();
  showLog();
  showState();
  // The last of an odd number of cards in two columns has both of them.
  const halves = [...document.querySelectorAll(".half:not([hidden])")];
  halves.forEach((card, place) => card.classList.toggle("alone", halves.length % 2 === 1 && place === halves.length - 1));
}

// -- events -----------------------------------------------------------------------------------------------------------

function follow() {
  const events = new EventSource("events");
  let ended = false;
  const take = (event, fresh) => {
    const news = JSON.parse(event.data);
    points = fresh ? news.points : [...points, ...news.points].slice(-POINTS);
    details = news.details.job ? news.details : null;
    if (news.source) say(by("source"), `slidejoin watches ${news.source}`);
    show(fresh ? points : news.points);
  };
  events.addEventListener("start", (event) => take(event, true));
  events.addEventListener("news", (event) => take(event, false));
  events.addEventListener("state", (event) => {
    const next = JSON.parse(event.data);
    ended = next.name === "ended";
    setState(next);
  });
  events.onerror = () => {
    // The page of `slidejoin run --watch` goes with its job: a job that has said so has ended, another one is lost.
    if (!ended) setState({ ...state, name: "lost", text: "the server of this page cannot be reached" });
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 2000);
  };
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show([]));
addEventListener("resize", () => details && drawHands(details.sides));
setInterval(showState, 1000);
follow();
