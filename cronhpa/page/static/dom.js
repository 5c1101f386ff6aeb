// Elements from values. Every text goes in as text: nothing here reads HTML.

const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]/gu;
const SVG = "http://www.w3.org/2000/svg";

// Control characters, and those that turn or hide text, stand escaped, as commands print them.
export function printable(text) {
  return String(text).replace(HIDDEN, (found) =>
    found === "\n" ? found
      : Array.from({length: found.length}, (_, i) => "\\u" + found.charCodeAt(i).toString(16).padStart(4, "0")).join(""));
}

function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(printable(child)));
  }
  return node;
}

function fill(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, of] of Object.entries(value)) node.style.setProperty(key, of);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : printable(value));
  }
  return node;
}

export function el(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  return put(fill(node, attributes), children);
}

export function svg(name, attributes = {}, ...children) {
  return put(fill(document.createElementNS(SVG, name), attributes), children);
}

export function replace(node, ...children) {
  node.replaceChildren();
  return put(node, children);
}

// --- status -----------------------------------------------------------------------------------------------------

// The statuses, the most urgent first. Each is shown by a word, a colour and a shape: nobody needs the colour to tell one from another.
const SHAPES = {
  SpecUnreadable: ["bad", "M2 2 14 14M14 2 2 14", true],
  NoTarget: ["bad", "M8 1.5 15 14H1Z"],
  NoMetrics: ["bad", "M8 1.5 15 14H1Z"],
  OtherOwner: ["bad", "M1.5 8 8 1.5 14.5 8 8 14.5Z"],
  Undecided: ["bad", "M8 2.2 14.2 13.4H1.8Z", true],
  Holding: ["warn", "M4 2.5h3v11H4zM9 2.5h3v11H9z"],
  Maxed: ["hot", "M2 1.5h12v2.6H2zM8 5.4 13.6 11H10v3.5H6V11H2.4Z"],
  Learning: ["info", "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Z", true],
  Preview: ["note", "M2.5 2.5h11v11h-11Z", true],
  Deciding: ["good", "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Z"],
};

export const STATUSES = Object.keys(SHAPES);

export function tone(word) {
  return (SHAPES[word] ?? SHAPES.Undecided)[0];
}

export function shape(word) {
  const [kind, path, isLine] = SHAPES[word] ?? SHAPES.Undecided;
  return svg("svg", {class: `shape ${kind}${isLine ? " line" : ""}`, viewBox: "0 0 16 16", width: 14, height: 14,
    "aria-hidden": "true"}, svg("path", {d: path}));
}

export function status(word) {
  return el("span.status", {class: `status ${tone(word)}`}, shape(word), word);
}

// --- numbers and times ------------------------------------------------------------------------------------------

export function number(value, digits = 0) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return value.toLocaleString("en", {maximumFractionDigits: digits, minimumFractionDigits: digits});
}

export function load(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  for (const [limit, unit] of [[2 ** 40, "Ti"], [2 ** 30, "Gi"], [2 ** 20, "Mi"]]) {
    if (size >= limit * 4) return `${(value / limit).toPrecision(3)} ${unit}`;
  }
  return size >= 1000 ? number(value) : String(Number(value.toPrecision(3)));
}

const FORMATS = new Map();
function format(zone, options) {
  const key = zone + JSON.stringify(options);
  if (!FORMATS.has(key)) {
    let made;
    try {
      made = new Intl.DateTimeFormat("en-GB", {...options, timeZone: zone});
    } catch {
      made = new Intl.DateTimeFormat("en-GB", {...options, timeZone: "UTC"});
    }
    FORMATS.set(key, made);
  }
  return FORMATS.get(key);
}

export function clock(at, zone) {
  return format(zone, {hour: "2-digit", minute: "2-digit", hourCycle: "h23"}).format(at * 1000);
}

export function day(at, zone) {
  return format(zone, {weekday: "short", day: "numeric", month: "short"}).format(at * 1000);
}

export function moment(at, zone) {
  return `${day(at, zone)} ${clock(at, zone)}`;
}

// An instant to come, such as "Mon 23 Nov 08:00", with the year if it is more than 300 days ahead.
export function coming(at, zone, now = Date.now() / 1000) {
  return at - now > 300 * 86400 ? `${day(at, zone)} ${format(zone, {year: "numeric"}).format(at * 1000)}` : moment(at, zone);
}

export function away(seconds) {
  const size = Math.abs(seconds);
  const text = size < 90 ? `${Math.round(size)} s` : size < 5400 ? `${Math.round(size / 60)} min`
    : size < 129600 ? `${Math.round(size / 3600)} h` : `${Math.round(size / 86400)} d`;
  return seconds >= 0 ? `in ${text}` : `${text} ago`;
}

// --- the time zone of the whole page: the browser's own, or UTC -----------------------------------------------------

const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
let inUtc = false;
try {
  inUtc = localStorage.getItem("cronhpa-zone") === "UTC";
} catch {
  // A browser without storage begins in its own zone.
}

export function zone() {
  return inUtc ? "UTC" : OWN_ZONE;
}

export function turnZone() {
  inUtc = !inUtc;
  try {
    localStorage.setItem("cronhpa-zone", inUtc ? "UTC" : "own");
  } catch {
    // The choice is not stored, then, and ends with this page.
  }
}

// A text with each instant in it, RFC 3339 in UTC, as a time of the page's zone; of another day with the date.
export function localTimes(text, now = Date.now() / 1000) {
  return text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (found) => {
    const at = Date.parse(found) / 1000;
    return day(at, zone()) === day(now, zone()) ? clock(at, zone()) : moment(at, zone());
  });
}

// A name that is cut in the middle where there is no room: its begin and its end tell it from others.
export function middleCut(name) {
  const tail = name.length > 16 ? 9 : 0;
  return tail ? [el("span.cut-head", {}, name.slice(0, -tail)), el("span.cut-tail", {}, name.slice(-tail))] : [el("span.cut-head", {}, name)];
}

// A command that is broken between its words alone: "--" at the end of a line would not be what is to be typed.
export function wholeWords(text) {
  return text.split(" ").map((word, place) => [place ? " " : null, el("span.whole", {}, word)]);
}

export function bounds(min, max) {
  return min === null || min === undefined ? "–" : min === max ? `exactly ${min}` : `${min}–${max}`;
}

export function replicas(row) {
  if (row.current === null || row.current === undefined) return "–";
  if (row.desired === null || row.desired === undefined || row.current === row.desired) return String(row.current);
  return row.scales ? `${row.current} → ${row.desired}` : `${row.current} (${row.desired})`;
}

export function copyButton(text, label) {
  const button = el("button.copy", {type: "button", "aria-label": label}, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
  return button;
}
