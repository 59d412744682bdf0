// Elements and numbers. All text goes through textContent: nothing that a job says is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const by = (id) => document.getElementById(id);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (name === "color") element.style.setProperty("--c", value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export const make = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const draw = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

// Text is set only where it changes: a reader of the screen is not interrupted, and a selection stays.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const sideColor = (place) => `var(--stream-${place % 6})`;
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const some = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export const NOTHING = "–";

// A count: whole up to a million, then to three digits.
export function count(value) {
  if (value == null) return NOTHING;
  return value < 1e6 ? whole.format(value) : short.format(value);
}

// A rate: three digits are enough to see.
export function rate(value) {
  if (value == null) return NOTHING;
  if (value < 10) return some.format(value);
  return value < 1e5 ? whole.format(value) : short.format(value);
}

export function seconds(value) {
  if (value == null) return NOTHING;
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 1e-3) return `${some.format(value * 1e6)} µs`;
  if (size < 1) return `${some.format(value * 1e3)} ms`;
  if (size < 120) return `${some.format(value)} s`;
  if (size < 7200) return `${some.format(value / 60)} min`;
  if (size < 172800) return `${some.format(value / 3600)} h`;
  return `${some.format(value / 86400)} days`;
}

export function bytes(value) {
  if (value == null) return NOTHING;
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (value >= 1000 && place < units.length - 1) {
    value /= 1000;
    place += 1;
  }
  return `${some.format(value)} ${units[place]}`;
}

export function percent(share) {
  if (share == null) return NOTHING;
  if (share === 0 || share >= 0.1) return `${some.format(share * 100)} %`;
  return share < 1e-5 ? "< 0.001 %" : `${new Intl.NumberFormat("en", { maximumSignificantDigits: 2 }).format(share * 100)} %`;
}

// Event times are shown in UTC, as everywhere in slidejoin; the clock of the charts is the reader's own.
export const utc = (time) => new Date(time * 1000).toISOString().replace("T", " ").slice(0, 19);

const two = (value) => String(value).padStart(2, "0");
export function local(time) {
  const at = new Date(time * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
export function localStamp(time) {
  const at = new Date(time * 1000);
  const milliseconds = String(at.getMilliseconds()).padStart(3, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${local(time)}.${milliseconds}`;
}

// A legend that is also the readout: a colored key, a name, a value.
export function keys(element, items) {
  while (element.children.length > items.length) element.lastChild.remove();
  items.forEach(({ name, value, color }, place) => {
    let item = element.children[place];
    if (!item) {
      item = make("span", {}, make("span"), " ", make("b"));
      element.append(item);
    }
    item.className = color ? "key" : "";
    if (color) item.style.setProperty("--c", color);
    say(item.firstChild, name);
    say(item.lastChild, value);
  });
}
