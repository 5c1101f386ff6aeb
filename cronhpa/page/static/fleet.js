// Every object in one table. Only the rows in view are in the document: 10,000 objects cost as much as fifty.

import {ask, polling} from "./api.js";
import {bounds, coming, el, localTimes, middleCut, number, replace, replicas, shape, status, STATUSES, tone, zone} from "./dom.js";

const REFRESH = 5000;
const OVERSCAN = 8;
const NARROW = matchMedia("(max-width: 1000px)");

// The rows received so far are kept when another view is opened: going back to the fleet asks only for what changed.
const known = {rows: new Map(), instance: "", scope: "", sequence: null, pending: 0, leads: true, leader: "", part: ""};
const chosen = {text: "", namespace: "", words: new Set(), needs: false, sort: "urgency", down: false, active: null, top: 0};

export function forget() {
  Object.assign(known, {rows: new Map(), instance: "", scope: "", sequence: null});
}

async function update(signal) {
  const query = known.sequence === null ? ""
    : `?since=${known.sequence}&instance=${known.instance}&scope=${known.scope}`;
  const answer = await ask(`fleet${query}`, {signal});
  if (answer.whole) known.rows = new Map();
  const names = answer.columns;
  for (const fields of answer.rows) {
    const row = {};
    for (let i = 0; i < names.length; i += 1) row[names[i]] = fields[i];
    row.key = `${row.namespace}/${row.name}`;
    row.text = `${row.key} ${row.target} ${row.decidedBy} ${row.status}`.toLowerCase();
    row.notes = (row.notes ?? []).map((note) => localTimes(note));
    row.worth = localTimes(row.worth ?? "");
    known.rows.set(row.key, row);
  }
  for (const [namespace, name] of answer.gone) known.rows.delete(`${namespace}/${name}`);
  Object.assign(known, {instance: answer.instance, scope: answer.scope, sequence: answer.sequence,
    pending: answer.pending, leads: answer.leads, leader: answer.leader, part: answer.part});
  return answer.whole || answer.rows.length > 0 || answer.gone.length > 0;
}

// --- order ------------------------------------------------------------------------------------------------------

const byKey = (one, other) => (one.key < other.key ? -1 : one.key > other.key ? 1 : 0);
const SORTS = {
  urgency: (row) => (row.needsPerson ? 0 : 100) + row.urgency,
  name: (row) => row.key,
  replicas: (row) => -(row.current ?? -1),
  decidedBy: (row) => row.decidedBy || "~",
  next: (row) => row.nextAt ?? Infinity,
  cost: (row) => -(row.used === null ? -Infinity : row.used / (row.budget || 1)),
};

function found() {
  const words = chosen.text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [];
  for (const row of known.rows.values()) {
    if (chosen.namespace && row.namespace !== chosen.namespace) continue;
    if (chosen.needs && !row.needsPerson) continue;
    if (chosen.words.size && !chosen.words.has(row.status)) continue;
    if (words.length && !words.every((word) => row.text.includes(word))) continue;
    rows.push(row);
  }
  const of = SORTS[chosen.sort];
  const sign = chosen.down ? -1 : 1;
  const keyed = rows.map((row) => [of(row), row]);
  keyed.sort(([a, one], [b, other]) => (a < b ? -sign : a > b ? sign : byKey(one, other)));
  return keyed.map(([, row]) => row);
}

// --- one row ----------------------------------------------------------------------------------------------------

function link(row) {
  const of = `${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;
  return el("a", {href: `#/object/${of}`, tabindex: -1, title: row.key}, middleCut(row.name));
}

// Where the count stands between its bounds.
function gauge(row) {
  if (row.min === null || row.current === null || row.max <= 0) return el("span.gauge.none");
  const top = Math.max(row.max, row.current, 1);
  const place = (value) => `${(100 * Math.min(value, top)) / top}%`;
  return el("span.gauge", {"aria-hidden": "true"},
    el("i.range", {style: {left: place(row.min), right: `${100 - (100 * row.max) / top}%`}}),
    el("i.at", {style: {left: place(row.current)}}));
}

function next(row) {
  return row.nextAt === null ? el("span.faint", {}, "–")
    : el("span", {title: row.nextWhat}, coming(row.nextAt, zone()), el("span.faint", {}, ` ${row.nextWhat}`));
}

// The forecast, and its cost against its budget.
function forecast(row) {
  if (!row.forecast) return el("span.faint", {}, "–");
  const share = row.budget ? row.used / row.budget : 0;
  return el("span", {title: row.worth}, row.forecast, row.used === null ? null : el("span.faint", {}, ` ${number(row.used, 1)} / ${row.budget} %`),
    row.used === null ? null : el("span", {class: `meter${share >= 1 ? " over" : ""}`, "aria-hidden": "true"},
      el("i", {style: {width: `${Math.max(0, Math.min(100, 100 * share))}%`}})));
}

// A note takes the rest of its row.
function rest(row, note) {
  if (note) {
    const next = row.nextAt === null ? [] : [`next: ${coming(row.nextAt, zone())} ${row.nextWhat}`];
    return [el("div.cell.note.across", {role: "gridcell", "aria-colspan": 3, class: `cell note across${row.needsPerson ? "" : " mild"}`,
      title: [...row.notes, ...next].join("\n")}, note)];
  }
  return [el("div.cell.c-by", {role: "gridcell"}, row.decidedBy || el("span.faint", {}, "–")),
    el("div.cell.c-next", {role: "gridcell"}, next(row)), el("div.cell.c-forecast", {role: "gridcell"}, forecast(row))];
}

function cells(row) {
  const note = row.notes[0] ?? "";
  if (NARROW.matches) {
    return [
      el("div.cell.card", {role: "gridcell"},
        el("div.card-top", {}, shape(row.status), link(row), el("span.card-count", {}, replicas(row)), gauge(row)),
        el("div.card-line", {}, el("span", {class: `word ${tone(row.status)}`}, row.status), ` · ${row.namespace} · `,
          bounds(row.min, row.max), row.targets ? ` · ${row.targets}` : "", row.decidedBy ? ` · ${row.decidedBy}` : ""),
        el("div", {class: note ? `card-line note${row.needsPerson ? "" : " mild"}` : "card-line faint"},
          note || (row.nextAt === null ? "nothing changes by itself" : `${coming(row.nextAt, zone())} ${row.nextWhat}`))),
    ];
  }
  return [
    el("div.cell.c-status", {role: "gridcell"}, status(row.status)),
    el("div.cell.c-name", {role: "gridcell"}, el("span.ns", {}, `${row.namespace} / `), link(row)),
    el("div.cell.c-count.num", {role: "gridcell"}, replicas(row)),
    el("div.cell.c-bounds.num", {role: "gridcell"}, bounds(row.min, row.max), gauge(row)),
    el("div.cell.c-metric.num", {role: "gridcell", title: row.targets || null}, row.targets || el("span.faint", {}, "–")),
    ...rest(row, note),
  ];
}

const HEADS = [
  ["urgency", "Status", "c-status"], ["name", "Object", "c-name"], ["replicas", "Replicas", "c-count num"],
  [null, "Bounds", "c-bounds num"], [null, "Metric", "c-metric num"], ["decidedBy", "Decided by", "c-by"],
  ["next", "Next edge", "c-next"], ["cost", "Forecast, cost", "c-forecast"],
];

// --- the view ---------------------------------------------------------------------------------------------------

export function fleet(main, {banner, onError}) {
  let rows = [];
  let height = 0;
  const drawn = new Map();

  const search = el("input", {type: "search", id: "search", placeholder: "Search name, target, decided by…",
    "aria-label": "Search", autocomplete: "off", spellcheck: "false", value: chosen.text});
  const namespaces = el("select", {"aria-label": "Namespace"}, el("option", {value: ""}, "All namespaces"));
  const chips = el("div.chips", {role: "group", "aria-label": "Filter by status"});
  const sorts = el("select.only-narrow", {"aria-label": "Sort by"},
    [["urgency", "Needs a person first"], ["name", "By name"], ["replicas", "Most replicas first"],
      ["next", "Next edge first"], ["cost", "Highest cost first"]].map(([key, text]) => el("option", {value: key}, text)));
  sorts.value = chosen.sort;
  const count = el("p.count", {role: "status"});
  const head = el("div.row.head", {role: "row", "aria-rowindex": 1});
  const body = el("div.rows", {role: "rowgroup"});
  const grid = el("div.grid", {role: "grid", tabindex: 0, "aria-label": "Objects", id: "grid"},
    el("div.head-group", {role: "rowgroup"}, head), body);
  const empty = el("p.empty", {hidden: true});
  replace(main, el("h1.hidden", {}, "Fleet"),
    el("div.filters", {}, search, namespaces, sorts, chips, count), grid, empty);

  function heads() {
    replace(head, ...(NARROW.matches ? [el("div.cell", {role: "columnheader"}, "Objects")] : HEADS.map(([key, text, of]) => {
      const attributes = {role: "columnheader", class: `cell ${of}`};
      if (!key) return el("div", attributes, text);
      if (chosen.sort === key) attributes["aria-sort"] = chosen.down ? "descending" : "ascending";
      return el("div", attributes, el("button", {type: "button", tabindex: -1, onclick: () => {
        chosen.down = chosen.sort === key && !chosen.down;
        chosen.sort = key;
        heads();
        refill();
      }}, text, chosen.sort === key ? (chosen.down ? " ↓" : " ↑") : ""));
    })));
  }

  function filters() {
    const names = [...new Set([...known.rows.values()].map((row) => row.namespace))].sort();
    replace(namespaces, el("option", {value: ""}, `All namespaces (${names.length})`),
      names.map((name) => el("option", {value: name}, name)));
    namespaces.value = chosen.namespace;
    const counts = new Map();
    let needs = 0;
    for (const row of known.rows.values()) {
      counts.set(row.status, (counts.get(row.status) ?? 0) + 1);
      if (row.needsPerson) needs += 1;
    }
    const focused = document.activeElement?.dataset?.chip;
    const chip = (key, isOn, toggle, ...inside) => el("button", {type: "button", "data-chip": key, class: "chip",
      "aria-pressed": String(isOn), onclick: () => { toggle(); filters(); refill(); }}, inside);
    const words = [...counts.keys()].sort((a, b) => STATUSES.indexOf(a) - STATUSES.indexOf(b));
    replace(chips,
      chip("needs", chosen.needs, () => { chosen.needs = !chosen.needs; }, "Needs a person ", el("b", {}, number(needs))),
      words.map((word) => chip(word, chosen.words.has(word), () => {
        if (!chosen.words.delete(word)) chosen.words.add(word);
      }, shape(word), `${word} `, el("b", {}, number(counts.get(word))))));
    if (focused) chips.querySelector(`[data-chip="${CSS.escape(focused)}"]`)?.focus();
  }

  function refill() {
    rows = found();
    grid.classList.toggle("without-forecast", ![...known.rows.values()].some((row) => row.forecast));
    grid.setAttribute("aria-rowcount", rows.length + 1);
    height = parseFloat(getComputedStyle(grid).getPropertyValue("--row"));
    body.style.height = `${rows.length * height}px`;
    const total = known.rows.size;
    count.textContent = rows.length === total ? `${number(total)} ${total === 1 ? "object" : "objects"}` : `${number(rows.length)} of ${number(total)}`;
    if (known.pending) count.textContent += `, ${known.pending} namespaces still asked about`;
    empty.hidden = rows.length > 0 || known.sequence === null;
    empty.textContent = total ? "Nothing is like this. Fewer filters show more."
      : "There is no CronHPA that you may get, or none at all.";
    drawn.clear();
    body.replaceChildren();
    draw();
  }

  function draw() {
    const first = Math.max(0, Math.floor((grid.scrollTop - height) / height) - OVERSCAN);
    const last = Math.min(rows.length, Math.ceil((grid.scrollTop + grid.clientHeight) / height) + OVERSCAN);
    for (const [place, node] of drawn) {
      if (place < first || place >= last) {
        node.remove();
        drawn.delete(place);
      }
    }
    for (let place = first; place < last; place += 1) {
      if (drawn.has(place)) continue;
      const row = rows[place];
      const node = el("div.row", {role: "row", id: `row-${place}`, "aria-rowindex": place + 2,
        class: `row${row.needsPerson ? " needs" : ""}`, "data-key": row.key}, cells(row));
      node.style.transform = `translateY(${place * height}px)`;
      drawn.set(place, node);
      body.append(node);
    }
    mark();
    chosen.top = grid.scrollTop;
  }

  function mark() {
    grid.removeAttribute("aria-activedescendant");
    for (const [place, node] of drawn) {
      const isActive = rows[place].key === chosen.active;
      node.classList.toggle("active", isActive);
      node.setAttribute("aria-selected", String(isActive));
      if (isActive) grid.setAttribute("aria-activedescendant", node.id);
    }
  }

  function open(row) {
    location.hash = `#/object/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;
  }

  function move(place) {
    if (!rows.length) return;
    const wanted = Math.max(0, Math.min(rows.length - 1, place));
    chosen.active = rows[wanted].key;
    const top = wanted * height;
    const visible = grid.clientHeight - head.offsetHeight;
    if (top < grid.scrollTop) grid.scrollTop = top;
    else if (top + height > grid.scrollTop + visible) grid.scrollTop = top + height - visible;
    draw();
  }

  function chooseByKey(event) {
    const at = rows.findIndex((row) => row.key === chosen.active);
    const page = Math.max(1, Math.floor(grid.clientHeight / height) - 2);
    const steps = {ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0,
      End: rows.length - 1, j: at + 1, k: at < 0 ? 0 : at - 1};
    if (event.key in steps && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      move(steps[event.key]);
    } else if (event.key === "Enter" && at >= 0 && document.activeElement === grid) {
      open(rows[at]);
    }
  }
  grid.addEventListener("keydown", chooseByKey);
  // Where nothing else has the focus, the arrows choose a row at once.
  const fromBody = (event) => {
    if ((event.target !== document.body && event.target !== main) || !["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) return;
    grid.focus();
    chooseByKey(event);
  };
  document.addEventListener("keydown", fromBody);
  body.addEventListener("click", (event) => {
    const node = event.target.closest(".row");
    if (node && !event.target.closest("a") && !String(getSelection())) {
      const row = known.rows.get(node.dataset.key);
      if (row) open(row);
    }
  });
  grid.addEventListener("scroll", () => requestAnimationFrame(draw), {passive: true});
  search.addEventListener("input", () => {
    chosen.text = search.value;
    grid.scrollTop = 0;
    refill();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault();
      grid.focus();
      move(0);
    }
  });
  namespaces.addEventListener("change", () => { chosen.namespace = namespaces.value; grid.scrollTop = 0; refill(); });
  sorts.addEventListener("change", () => { chosen.sort = sorts.value; chosen.down = false; refill(); });
  const resized = new ResizeObserver(() => { if (height) draw(); });
  resized.observe(grid);
  const turned = () => { heads(); refill(); };
  NARROW.addEventListener("change", turned);

  const polled = polling(REFRESH, onError, async () => {
    const isFirst = known.sequence === null;
    const hasChanged = await update(polled.signal);
    banner(known.part ? `This replica decides ${known.part} and shows what is in them; others are shown by others.`
      : known.leads ? "" : `This replica does not lead: it shows what its watches tell.${
      known.leader ? ` ${known.leader} decides.` : ""}`);
    if (hasChanged || isFirst) {
      filters();
      refill();
    }
    return known.pending ? 1000 : REFRESH;
  });

  heads();
  if (known.sequence !== null) {
    filters();
    refill();
    grid.scrollTop = chosen.top;
    draw();
  }
  polled.begin();
  return () => {
    polled.end();
    resized.disconnect();
    document.removeEventListener("keydown", fromBody);
    NARROW.removeEventListener("change", turned);
  };
}
