// One object: a week back and a week ahead, and why it has the replicas that it has.

import {ask, objectPath, polling} from "./api.js";
import {colors, fade, held, key, picture, sparse, STEPPED, union, upTo} from "./chart.js";
import {away, bounds, clock, copyButton, day, el, load, moment, number, replace, replicas, status, wholeWords, zone} from "./dom.js";

const REFRESH = 30000;
const DAY = 86400;
const STEP = 300;

// The last of sorted [at, ...] that is not after an instant.
export function inForce(changes, at) {
  let low = 0;
  let high = changes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (changes[middle][0] <= at) low = middle + 1;
    else high = middle;
  }
  return low ? changes[low - 1] : null;
}

function lanes(view) {
  return [...(view.lanes ?? []), ...(view.ahead?.lanes ?? [])];
}

function drawing(view, at) {
  const ink = colors();
  const points = view.points ?? {at: [], load: [], replicas: [], ready: [], floor: [], cap: [], forecast: []};
  const pairs = (name) => points.at.map((instant, i) => [instant, points[name][i]]).filter(([, value]) => value !== null);
  const segments = view.ahead?.segments ?? [];
  const ahead = (place) => segments.map((each) => [each[0], each[place]]);
  const ends = segments.length ? [segments.at(-1)[1]] : [];

  const usual = view.usual ?? [];
  const issued = [...(view.issued ?? []).map(([instant, value]) => [instant, value]), ...(view.forecast ?? [])];
  const loads = pairs("load");
  const of = union(loads.map(([instant]) => instant), usual.map(([instant]) => instant), issued.map(([instant]) => instant), [view.since, view.until]);
  const capacity = view.capacity;
  const ready = pairs("ready");
  const carried = capacity ? ready.map(([instant, count]) => [instant, count * capacity]) : [];
  const seen = [loads, usual, issued].some((pairs) => pairs.length);
  const high = Math.max(seen ? 1e-9 : 1, ...loads.map(([, value]) => value), ...usual.map(([, , value]) => value),
    ...issued.map(([, value]) => value));

  const floors = [...pairs("floor"), ...ahead(2)];
  const caps = [...pairs("cap"), ...ahead(3)];
  const times = union(points.at, ahead(0).map(([instant]) => instant), ends, [view.now]);
  const most = Math.max(1, ...pairs("replicas").map(([, value]) => value), ...floors.map(([, value]) => value),
    ...pairs("forecast").map(([, value]) => value), ...ready.map(([, value]) => value));
  const lowest = Math.min(...caps.map(([, value]) => value), Infinity);
  const top = lowest <= most * 2.2 ? Math.max(most, Math.min(most * 2.2, Math.max(...caps.map(([, value]) => value)))) : most;
  const stepped = STEPPED();

  return picture({
    from: view.since, to: view.until, now: view.now, zone: view.zone, at, short: view.short ?? [], lanes: lanes(view),
    label: "A week back and a week ahead. Arrow keys move a cursor; the sentence below says what was decided.",
    plots: [
      {
        title: ["Load", view.metric && `: ${view.metric}`, view.unit && `, ${view.unit}`].filter(Boolean).join(""), height: 150, unit: load, short: true,
        range: () => upTo(high, 1e-9),
        keys: [loads.length ? key("line", "load", "load") : el("span.faint", {}, "nothing is recorded yet"), usual.length ? key("area", "usual", `at this hour in the ${view.usualOf}`) : null,
          issued.length ? key("dash", "forecast", "forecast") : null, carried.length ? key("line", "carried", "what ready pods carry") : null,
          carried.length ? key("hatch", "bad", "under-provisioned") : null],
        data: [of, sparse(usual.map(([instant, , value]) => [instant, value]), of, 2 * 3600),
          sparse(usual.map(([instant, value]) => [instant, value]), of, 2 * 3600),
          held(carried, of, 2 * STEP), sparse(issued, of, 3 * STEP), sparse(loads, of, 3 * STEP)],
        bands: usual.length > 1 ? [{series: [1, 2], fill: fade(ink.usual, 0.35)}] : [],
        series: [{stroke: ink.usual, width: 1}, {stroke: ink.usual, width: 1}, {stroke: ink.carried, width: 1, paths: stepped},
          {stroke: ink.forecast, dash: [5, 3]}, {stroke: ink.load, fill: fade(ink.load, 0.1)}],
      },
      {
        title: "Replicas", height: 210, short: true, range: () => upTo(top),
        keys: [key("line", "replicas", "replicas"), key("area", "ready", "ready"), key("dash", "floor", "floor"),
          key("dash", "cap", "cap"), pairs("forecast").length ? key("dots", "forecast", "forecast asks for") : null],
        data: [times, held(ready, times, 2 * STEP), held(pairs("replicas"), times, 2 * STEP), held(floors, times),
          held(caps, times), held(pairs("forecast"), times, 2 * STEP)],
        series: [{fill: fade(ink.ready, 0.28), width: 0, paths: stepped}, {stroke: ink.replicas, width: 2, paths: stepped},
          {stroke: ink.floor, dash: [6, 3], paths: stepped}, {stroke: ink.cap, dash: [2, 3], paths: stepped},
          {stroke: ink.forecast, dash: [1, 3], width: 2, paths: stepped}],
      },
    ],
  });
}

// --- the sentence of an instant ---------------------------------------------------------------------------------

// The place of the point that holds at an instant; -1 where none does.
function placeAt(points, at) {
  const place = points ? points.at.findLastIndex((instant) => instant <= at) : -1;
  return place < 0 || at - points.at[place] > 2 * STEP ? -1 : place;
}

function sentence(view, at) {
  const when = el("b", {}, moment(at, view.zone), at === view.now ? " (now)" : ` (${away(at - view.now)})`);
  if (at > view.now) {
    const segment = inForce(view.ahead?.segments ?? [], at);
    const open = (view.ahead?.lanes ?? []).filter(([, start, end]) => start <= at && at < end)
      .map(([name, , , leads]) => (leads ? `${name} (asked for ahead)` : name));
    const was = (view.usual ?? []).find(([hour]) => hour <= at && at < hour + 3600);
    return [when, ` ${segment ? `${bounds(segment[2], segment[3])} replicas are allowed` : "nothing is known"}`,
      segment ? `, at least by ${segment[4]}, at most by ${segment[5]}` : "", open.length ? `; open: ${open.join(", ")}` : "",
      was ? `. Load at this hour in the ${view.usualOf}: ${load(was[1])} to ${load(was[2])}` : ""];
  }
  const change = inForce(view.changes ?? [], at);
  const place = placeAt(view.points, at);
  const [counted, ready, of] = ["replicas", "ready", "load"].map((name) => (place < 0 ? null : view.points[name][place]));
  // A point counts 0 where there was no target to count.
  const known = change && change[1] === null ? null : counted;
  const measured = [known === null ? "" : `${known} replicas`, ready === null ? "" : `${ready} ready`,
    of === null ? "" : `load ${load(of)}`].filter(Boolean).join(", ") + (place < 0 || at - view.points.at[place] < 60 ? ""
    : ` at ${clock(view.points.at[place], view.zone)}`);
  if (!change) return [when, " nothing is kept of this time", measured ? ` (${measured})` : ""];
  const [since, current, desired, by, reason, withheld, leftOut] = change;
  const count = desired === null ? "" : current === desired || current === null ? `${desired} replicas` : `${current} → ${desired} replicas`;
  const decided = count ? [count, by && `decided by ${by}`].filter(Boolean).join(", ") : "no count was decided";
  return [when, measured ? ` ${measured}.` : "", el("br"), `${decided} at ${moment(since, view.zone)}`, reason ? `: ${reason}` : "", withheld ? `; withheld: ${withheld}` : "",
    leftOut ? ` (${leftOut} changes before it came too fast to be kept)` : ""];
}

// Lines with a hanging indent: a line that wraps continues two characters to the right of its begin.
function hanging(lines) {
  return lines.flatMap((line) => line.split("\n")).map((line) => {
    const begin = line.length - line.trimStart().length;
    return el("div", {style: {"padding-left": `${begin + 2}ch`, "text-indent": "-2ch"}}, line.trim());
  });
}

// --- panels -----------------------------------------------------------------------------------------------------

function panel(title, ...children) {
  return el("section.panel", {}, el("h2", {}, title), children);
}

function coming(view) {
  const lanesAhead = (view.ahead?.lanes ?? []).filter(([, , , leads]) => !leads);
  const days = new Map();
  const put = (at, node) => {
    const date = day(at, view.zone);
    if (!days.has(date)) days.set(date, []);
    days.get(date).push([at, node]);
  };
  for (const [name, start, end, , floor, cap] of lanesAhead) {
    const asks = [floor === null ? null : `at least ${floor}`, cap === null ? null : `at most ${cap}`].filter(Boolean).join(", ");
    const lead = (view.ahead?.lanes ?? []).find((each) => each[0] === name && each[3] && each[2] === start);
    put(start, el("li", {}, el("span.when", {}, start <= view.now ? "now" : clock(start, view.zone), " to ",
      day(end, view.zone) === day(start, view.zone) ? clock(end, view.zone) : moment(end, view.zone)),
    el("b", {}, name), asks ? ` ${asks}` : "", lead ? el("span.faint", {}, `, asked for from ${clock(lead[1], view.zone)}`) : null));
  }
  for (const mark of view.ahead?.marks ?? []) {
    put(mark.at, el("li.mark", {}, el("span.when", {}, mark.kind === "Excluded" || mark.kind === "Included" ? "day" : clock(mark.at, view.zone)),
      mark.text));
  }
  if (!days.size) return el("p.faint", {}, "No window opens in the coming week.");
  const sorted = [...days].sort((one, other) => one[1][0][0] - other[1][0][0]);
  return el("div.days", {tabindex: 0, role: "region", "aria-label": "The coming week"}, sorted.map(([date, items]) => el("div.day", {}, el("h3", {}, date),
    el("ul", {}, items.sort((one, other) => one[0] - other[0]).map(([, node]) => node)))));
}

function isFine(each) {
  return each.status === (["ScalingLimited", "ScaledToZero", "MaxedOut", "FallbackActive"].includes(each.type) ? "False" : "True");
}

function conditionTable(view, listed) {
  return el("table.list.conditions", {}, el("caption.hidden", {}, "Conditions"), el("thead", {}, el("tr", {}, ["Condition", "Since", "Message"].map((text) => el("th", {scope: "col"}, text)))),
    el("tbody", {}, listed.map((each) => el("tr", {}, el("th", {scope: "row"},
      el("span", {class: isFine(each) ? "tick" : "tick off"}, each.status), ` ${each.type}`),
    el("td.num", {}, each.since === null ? "–" : moment(each.since, view.zone)),
    el("td", {}, el("b", {}, each.reason), each.message ? ` ${each.message}` : "")))));
}

// Ready says whether all is well; the others are there for whoever asks.
function conditions(view, areOpen) {
  if (!view.conditions.length) return el("p.faint", {}, "Nothing was decided yet.");
  const ready = view.conditions.filter((each) => each.type === "Ready");
  const others = view.conditions.filter((each) => each.type !== "Ready");
  const off = others.filter((each) => !isFine(each)).map((each) => each.type);
  return [conditionTable(view, ready), others.length ? el("details.others", {open: areOpen},
    el("summary", {}, `${others.length} others`, el("span.faint", {}, off.length ? `: see ${off.join(", ")}` : ", as they should be")),
    conditionTable(view, others)) : null];
}

function events(view) {
  if (!view.events?.length) return el("p.faint", {}, "Nothing changed in the last seven days that is kept.");
  return el("div.scroll", {tabindex: 0, role: "region", "aria-label": "Events"}, el("ul.events", {}, view.events.map((each) =>
    el("li", {class: each.type === "Warning" ? "warning" : ""}, el("span.when", {}, moment(each.at, view.zone)), el("b", {}, each.reason),
      ` ${each.message}`))));
}

function budget(view) {
  if (!view.budget) return el("p.faint", {}, "It has no forecast.");
  const {used, percent} = view.budget;
  const active = view.conditions.find((each) => each.type === "ForecastActive");
  return [
    used === null ? el("p", {}, `Budget ${percent} % more pod-hours over seven days; nothing is counted yet.`)
      : el("p", {}, el("span.cost", {}, `${number(used, 1)} % of ${percent} % more pod-hours over seven days`,
        el("span", {class: `meter${used >= percent ? " over" : ""}`, "aria-hidden": "true"},
          el("i", {style: {width: `${Math.max(0, Math.min(100, (100 * used) / Math.max(percent, 1)))}%`}})))),
    active ? el("p", {}, el("b", {}, active.reason), ` ${active.message}`) : null,
    view.forecastModel ? el("p.faint", {}, `Method: ${view.forecastModel}`) : null,
  ];
}

function commandList(view) {
  return el("ul.commands", {}, view.commands.map((each) => el("li", {}, el("span", {}, each.title),
    el("code", {}, wholeWords(each.command)), copyButton(() => each.command, `Copy: ${each.title}`))));
}

// --- the view ---------------------------------------------------------------------------------------------------

export function object(main, namespace, name, {banner, onError}) {
  let drawn = null;
  let view = null;
  let range = null;
  let pinned = null;

  const told = el("p.sentence", {id: "sentence"});
  const explainedNode = el("pre.explained", {tabindex: 0, "aria-label": "Explanation"});
  const explainedTitle = el("h2", {}, "Why it has these replicas");
  const heading = el("div.object-head");
  const host = el("div");
  const ranges = el("div.ranges", {role: "group", "aria-label": "Span of the picture"});
  const panels = el("div.panels");
  replace(main, el("p.crumbs", {}, el("a", {href: "#/"}, "Fleet"), ` / ${namespace}`), heading);
  replace(heading, el("h1", {}, name), el("p.wait", {role: "status"}, "A week back and a week ahead are being computed…"));

  const SPANS = [["14 days", () => [view.since, view.until]], ["2 days", () => [view.now - DAY, view.now + DAY]],
    ["6 hours", () => [view.now - 5 * 3600, view.now + 3600]]];
  // On a phone two weeks would be too narrow to read.
  let span = matchMedia("(max-width: 46rem)").matches ? 1 : 0;

  function chooseSpan(place) {
    span = place;
    range = SPANS[place][1]();
    drawn?.show(...range);
    [...ranges.children].forEach((node, i) => node.setAttribute("aria-pressed", String(i === place)));
  }

  function tell(at, isByKey) {
    if (isByKey) told.setAttribute("aria-live", "polite");
    else told.removeAttribute("aria-live");
    replace(told, sentence(view, at));
  }

  async function explainAt(at) {
    if (at === null || at >= view.now) {
      pinned = null;
      showExplained();
      return;
    }
    pinned = at;
    try {
      const found = await ask(`${objectPath(namespace, name)}/decision?at=${Math.floor(at)}&zone=${encodeURIComponent(zone())}`, {signal: polled.signal});
      if (pinned !== at) return;
      explainedTitle.textContent = `Why it had its replicas on ${moment(at, view.zone)}`;
      replace(explainedNode, hanging(found === null ? ["nothing is kept of this time"]
        : [`Decided ${moment(found.at, view.zone)}${found.until ? `, in force until ${moment(found.until, view.zone)}` : ""}:`, ...found.explained]));
    } catch (error) {
      if (error.name !== "AbortError") onError(error);
    }
  }

  function showExplained() {
    if (pinned !== null) return;
    explainedTitle.textContent = "Why it has these replicas";
    replace(explainedNode, hanging(view.explained));
  }

  function draw() {
    drawn?.end();
    drawn = null;
    if (!window.uPlot) {
      // If the library does not start in a browser, the rest of the page still works.
      replace(host, el("p.faint", {}, "This browser cannot draw the picture."));
      return;
    }
    drawn = drawing(view, tell);
    drawn.root.addEventListener("click", () => explainAt(drawn.cursor));
    drawn.root.addEventListener("keydown", (event) => {
      if (event.key === "Enter") explainAt(drawn.cursor);
    });
    replace(host, drawn.root);
    chooseSpan(span);
  }

  function show() {
    replace(heading, el("h1", {}, name), status(view.status),
      el("span.facts", {}, el("b.num", {}, replicas(view)), " replicas, ", bounds(view.min, view.max), " allowed",
        view.target ? `, of ${view.target}` : "", view.ownZone === view.zone ? null : el("span.faint", {}, ` · its schedules are in ${view.ownZone}`)),
      el("a.button", {href: `#/what-if/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`}, "What if…"));
    const problems = [...view.notes, ...view.problems];
    const alert = problems.length ? el("ul", {class: `alert${view.needsPerson ? "" : " mild"}`}, problems.map((text) => el("li", {}, text))) : null;
    if (!main.contains(panels)) {
      replace(ranges, SPANS.map(([text], place) => el("button", {type: "button", class: "chip", onclick: () => chooseSpan(place)}, text)));
      main.append(el("div", {id: "alert"}), el("section.panel.wide", {}, el("div.panel-top", {}, el("h2", {}, "A week back, a week ahead"), ranges,
        el("span.faint.only-wide", {}, "drag to zoom, double click for all; click for the whole explanation")), host, told), panels);
    }
    replace(main.querySelector("#alert"), alert);
    draw();
    tell(view.now);
    showExplained();
    const areOpen = Boolean(panels.querySelector("details.others[open]"));
    replace(panels,
      el("div.stack", {}, el("section.panel", {}, explainedTitle, explainedNode), panel("The coming week", coming(view)),
        panel("Commands", commandList(view))),
      el("div.stack", {}, panel("Forecast and its budget", budget(view)), panel("Conditions", conditions(view, areOpen)),
        panel("What changed", events(view))));
  }

  function failed(error) {
    if (error.status !== 404) return onError(error);
    replace(main, el("h1", {}, name), el("p.empty", {}, error.message), el("p", {}, el("a", {href: "#/"}, "To the fleet")));
    return false;
  }

  const polled = polling(REFRESH, failed, async () => {
    view = await ask(`${objectPath(namespace, name)}?zone=${encodeURIComponent(zone())}`, {signal: polled.signal});
    banner("");
    show();
  });

  const themed = () => view && draw();
  addEventListener("themechange", themed);
  polled.begin();
  return () => {
    polled.end();
    drawn?.end();
    removeEventListener("themechange", themed);
  };
}
