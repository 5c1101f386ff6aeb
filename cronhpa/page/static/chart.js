// Pictures over time: one time axis shared by plots and lanes, read by mouse and by keys.

import {bounds, clock, day, el, load, number, svg} from "./dom.js";

const GUTTER = 56;
const GUTTER_MAX = 160;
// Where names of lanes may widen the gutter, and what a letter of them takes, in pixels.
const ROOMY = 640;
const LETTER = 6.2;
// Half of the widest label of the time axis, "Wed 25 Nov", and what lies right of the last instant.
const HALF_LABEL = 32;
const EDGE = 8;
const STEP = 300;
// Counts have no halves: an axis without a unit has whole numbers alone.
const WHOLE = [1, 10, 100, 1000, 10000, 100000].flatMap((power) => [power, 2 * power, 5 * power]);

export function colors() {
  const style = getComputedStyle(document.documentElement);
  return new Proxy({}, {get: (_, name) => style.getPropertyValue(`--${name}`).trim()});
}

// The value of a step function [[at, value], ...] at each instant; null before it, and where it ended.
export function held(steps, instants, longest = Infinity) {
  let place = -1;
  return instants.map((at) => {
    while (place + 1 < steps.length && steps[place + 1][0] <= at) place += 1;
    return place < 0 || at - steps[place][0] > longest ? null : steps[place][1];
  });
}

// Values known at some instants alone, null where more than `gap` seconds lie between two of them.
export function sparse(pairs, instants, gap) {
  const of = new Map(pairs);
  let last = null;
  return instants.map((at) => {
    const value = of.get(at);
    // Before the first value, too: a plot of undefined values alone draws nothing, and cannot.
    const isGap = last === null || at - last > gap;
    if (value === undefined) return isGap ? null : undefined;
    last = at;
    return value;
  });
}

export function union(...lists) {
  return [...new Set(lists.flat())].sort((one, other) => one - other);
}

export function fade(color, share) {
  return `color-mix(in srgb, ${color} ${share * 100}%, transparent)`;
}

function hatch(context, color) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const brush = tile.getContext("2d");
  brush.strokeStyle = color;
  brush.lineWidth = 2;
  brush.beginPath();
  brush.moveTo(-2, 10);
  brush.lineTo(10, -2);
  brush.moveTo(-2, 2);
  brush.lineTo(2, -2);
  brush.moveTo(6, 10);
  brush.lineTo(10, 6);
  brush.stroke();
  return context.createPattern(tile, "repeat");
}

// Spans of time that a plot marks over its whole height, hatched, with a solid edge above.
function marked(spans, color) {
  return (plot) => {
    if (!spans.length) return;
    const {ctx, bbox} = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const pattern = hatch(ctx, color);
    for (const [from, to] of spans) {
      const left = plot.valToPos(from, "x", true);
      const width = Math.max(plot.valToPos(to, "x", true) - left, 2 * devicePixelRatio);
      ctx.globalAlpha = 0.35;
      ctx.fillStyle = pattern;
      ctx.fillRect(left, bbox.top, width, bbox.height);
      ctx.globalAlpha = 1;
      ctx.fillStyle = color;
      ctx.fillRect(left, bbox.top, width, 3 * devicePixelRatio);
    }
    ctx.restore();
  };
}

function nowLine(now, color) {
  return (plot) => {
    const {ctx, bbox} = plot;
    const at = plot.valToPos(now, "x", true);
    if (at < bbox.left || at > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = color;
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  };
}

/*
 * A picture of several plots and lanes over [from, to].
 *
 * plots: {title, height, data: [instants, ...], series: [...], bands, unit, top}. lanes: [[name, from, to, leads, floor,
 * cap], ...]. at(instant): called where the cursor is, null where it left.
 */
export function picture({from, to, now, zone, plots, lanes = [], short = [], at, label}) {
  const ink = colors();
  const root = el("div.picture", {tabindex: 0, role: "group", "aria-label": label});
  const charts = [];
  let range = [from, to];
  let cursor = null;
  let width = 0;
  let gutter = GUTTER;
  const longest = Math.max(0, ...lanes.map(([name]) => name.length));

  const lanesNode = svg("svg", {class: "lanes", "aria-hidden": "true"});

  function setRange(min, max, except) {
    range = [min, max];
    for (const chart of charts) if (chart !== except) chart.setScale("x", {min, max});
    drawLanes();
    drawCursor();
  }

  function options(plot, isLast) {
    const axis = {stroke: ink.faint, grid: {stroke: ink.line, width: 1}, ticks: {show: false}, font: "12px system-ui",
      size: gutter};
    return {
      width, height: plot.height, pxAlign: 1,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), zone),
      legend: {show: false},
      padding: [8, EDGE, isLast ? 0 : 8, 0],
      cursor: {y: false, x: false, points: {show: false}, drag: {x: true, y: false, setScale: true}},
      scales: {x: {time: true, range: () => range}, y: {range: (_, low, high) => plot.range(low, high)}},
      axes: [
        {...axis, size: isLast ? 42 : 0, show: true, values: isLast ? timeValues : () => [], space: 70},
        {...axis, values: (_, values) => values.map(plot.unit ?? ((value) => number(value))), space: 28, ...(plot.unit ? {} : {incrs: WHOLE})},
      ],
      series: [{}, ...plot.series.map((each) => ({points: {show: false}, spanGaps: false, width: 1.5, ...each}))],
      bands: plot.bands ?? [],
      hooks: {
        drawClear: [marked(plot.short ? short : [], ink.bad)],
        draw: [nowLine(now, ink.ink)],
        setSelect: [(chart) => {
          if (chart.select.width < 4) return;
          setRange(chart.posToVal(chart.select.left, "x"), chart.posToVal(chart.select.left + chart.select.width, "x"));
          chart.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
        }],
      },
    };
  }

  function timeValues(_, splits) {
    let last = "";
    return splits.map((seconds) => {
      const [date, time] = [day(seconds, zone), clock(seconds, zone)];
      const isNew = date !== last;
      last = date;
      if (x(seconds) > width - HALF_LABEL) return "";
      return time === "00:00" ? date : isNew && range[1] - range[0] < 4 * 86400 ? `${time}\n${date}` : time;
    });
  }

  function build() {
    width = Math.max(280, root.clientWidth);
    gutter = width < ROOMY ? GUTTER : Math.min(GUTTER_MAX, Math.max(GUTTER, Math.ceil(longest * LETTER) + 8));
    for (const chart of charts.splice(0)) chart.destroy();
    root.replaceChildren();
    root.style.minHeight = `${plots.reduce((sum, plot) => sum + plot.height + 20, 0)}px`;
    plots.forEach((plot, place) => {
      root.append(el("p.plot-title", {}, plot.title, plot.keys ? el("span.keys-line", {}, plot.keys) : null));
      const host = el("div.plot", {});
      root.append(host);
      charts.push(new uPlot(options(plot, place === plots.length - 1), plot.data, host));
    });
    if (lanes.length) root.append(lanesNode);
    root.append(cursorLine);
    drawLanes();
  }

  const cursorLine = el("div.cursor", {hidden: true});

  function x(seconds) {
    return gutter + ((seconds - range[0]) / (range[1] - range[0])) * (width - gutter - EDGE);
  }

  function drawLanes() {
    if (!lanes.length) return;
    const names = [...new Set(lanes.map(([name]) => name))].sort();
    const row = 20;
    lanesNode.setAttribute("width", width);
    lanesNode.setAttribute("height", names.length * row + 4);
    lanesNode.replaceChildren(svg("defs", {}, svg("pattern", {id: "lead", width: 6, height: 6,
      patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"},
    svg("rect", {width: 3, height: 6, class: "lead-line"}))));
    for (const [name, start, end, leads, floor, cap] of lanes) {
      const left = Math.max(x(Math.max(start, range[0])), gutter);
      const right = x(Math.min(end, range[1]));
      if (right <= left || end <= range[0] || start >= range[1]) continue;
      const top = names.indexOf(name) * row + 2;
      const asks = floor !== null && cap !== null && floor === cap ? `=${floor}`
        : [floor === null ? "" : `≥${floor}`, cap === null ? "" : `≤${cap}`].filter(Boolean).join(" ");
      lanesNode.append(svg("rect", {x: left, y: top, width: Math.max(right - left, 1.5), height: row - 4, rx: 3,
        class: `lane${leads ? " leads" : ""}${name === "override" ? " override" : ""}`, fill: leads ? "url(#lead)" : null}));
      if (right - left > asks.length * 7 + 8) lanesNode.append(svg("text", {x: left + 5, y: top + 12, class: "lane-text"}, asks));
    }
    const at = x(now);
    if (at > gutter) lanesNode.append(svg("line", {x1: at, x2: at, y1: 0, y2: names.length * row + 4, class: "lane-now"}));
    names.forEach((name, place) => {
      const letters = Math.floor((gutter - 6) / LETTER);
      lanesNode.append(svg("text", {x: 0, y: place * row + 14, class: "lane-name"},
        name.length > letters ? `${name.slice(0, letters - 1)}…` : name, svg("title", {}, name)));
    });
  }

  function drawCursor() {
    cursorLine.hidden = cursor === null || cursor < range[0] || cursor > range[1];
    if (!cursorLine.hidden) cursorLine.style.transform = `translateX(${x(cursor)}px)`;
  }

  function point(seconds, isByKey = false) {
    cursor = seconds;
    drawCursor();
    at?.(seconds, isByKey);
  }

  root.addEventListener("mousemove", (event) => {
    const left = event.clientX - root.getBoundingClientRect().left;
    if (left < gutter || left > width - EDGE) return;
    const seconds = range[0] + ((left - gutter) / (width - gutter - EDGE)) * (range[1] - range[0]);
    point(Math.floor(seconds / 60) * 60);
  });
  root.addEventListener("dblclick", () => setRange(from, to));
  root.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 3600 : STEP;
    const places = {ArrowLeft: (cursor ?? now) - step, ArrowRight: (cursor ?? now) + step, n: now, Home: from, End: to};
    if (!(event.key in places) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const seconds = Math.max(from, Math.min(to, places[event.key]));
    const length = range[1] - range[0];
    if (seconds < range[0]) setRange(seconds, seconds + length);
    else if (seconds > range[1]) setRange(seconds - length, seconds);
    point(seconds, true);
  });
  let frame = 0;
  const resized = new ResizeObserver(() => {
    if (Math.abs(Math.max(280, root.clientWidth) - width) < 1) return;
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(build);
  });
  resized.observe(root);
  return {
    root,
    show: setRange,
    get cursor() { return cursor; },
    end() {
      resized.disconnect();
      cancelAnimationFrame(frame);
      for (const chart of charts.splice(0)) chart.destroy();
    },
  };
}

// A key of a plot: how a line or an area looks, and what it is.
export function key(kind, color, text) {
  return el("span.key", {}, el("i", {class: `key-${kind}`, style: {"--of": `var(--${color})`}, "data-of": color}), text);
}

export const STEPPED = () => uPlot.paths.stepped({align: 1});

export function upTo(high, least = 1) {
  return [0, Math.max(least, high * 1.08)];
}

export {bounds, load};
