// What if: the last week decided again by another spec, beside what happened.

import {ask, objectPath} from "./api.js";
import {colors, fade, held, key, picture, sparse, STEPPED, union, upTo} from "./chart.js";
import {copyButton, el, load, moment, number, replace, zone} from "./dom.js";
import {yamlOf} from "./yaml.js";

const POLL = 700;

// Fields in the order in which people write them; what the form adds goes where it belongs.
function ordered(object, order) {
  const names = Object.keys(object);
  const place = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  return Object.fromEntries(names.sort((one, other) => place(one) - place(other)).map((name) => [name, object[name]]));
}

function manifest(view, spec) {
  const {spec: fields, schedule} = view.fieldOrder;
  const written = ordered(spec, fields);
  if (written.schedules) written.schedules = written.schedules.map((each) => ordered(each, schedule));
  return yamlOf({apiVersion: "cronhpa.io/v1alpha1", kind: "CronHPA", metadata: {name: view.name, namespace: view.namespace}, spec: written});
}

// The number that the first metric's target holds, and how to set it.
function targetOf(spec) {
  for (const metric of spec.metrics ?? []) {
    const source = Object.values(metric).find((value) => value !== null && typeof value === "object");
    const target = source?.target;
    if (!target) continue;
    for (const name of ["averageUtilization", "averageValue", "value"]) {
      if (target[name] !== undefined && target[name] !== null) {
        return {label: `Target of ${source.name ?? source.metric?.name ?? metric.type}${name === "averageUtilization" ? ", percent" : ""}`,
          get: () => target[name], set: name === "averageUtilization" ? whole(target, name) : (text) => { target[name] = text; }};
      }
    }
  }
  return null;
}

function field(label, value, set, attributes = {}) {
  const input = el("input", {type: "text", value: value ?? "", spellcheck: "false", autocomplete: "off", ...attributes});
  input.addEventListener("input", () => set(input.value));
  return el("label.field", {}, el("span", {}, label), input);
}

function whole(object, name) {
  return (text) => {
    if (text.trim() === "") delete object[name];
    else object[name] = /^\d+$/.test(text.trim()) ? Number(text) : text;
  };
}

function form(spec, changed) {
  const set = (act) => (text) => { act(text); changed(); };
  const node = el("div.form");
  // Found once: a number that a person has cleared stands nowhere.
  const target = targetOf(spec);
  function draw() {
    replace(node,
      el("div.fields", {}, field("minReplicas", spec.minReplicas ?? 1, set(whole(spec, "minReplicas")), {inputmode: "numeric"}),
        field("maxReplicas", spec.maxReplicas, set(whole(spec, "maxReplicas")), {inputmode: "numeric"}),
        target ? field(target.label, target.get(), set(target.set)) : null),
      el("h3", {}, "Schedules"),
      (spec.schedules ?? []).map((each, place) => el("fieldset.schedule", {}, el("legend", {}, each.name || "a schedule"),
        ["name", ...("from" in each || "to" in each ? ["from", "to"] : ["start", "end"])].map((name) => field(name, each[name], set((text) => { if (text) each[name] = text; else delete each[name]; }))),
        ["minReplicas", "maxReplicas", "leadTimeSeconds"].map((name) => field(name, each[name], set(whole(each, name)), {inputmode: "numeric"})),
        el("button.quiet", {type: "button", "aria-label": `Remove ${each.name}`, onclick: () => {
          spec.schedules.splice(place, 1);
          if (!spec.schedules.length) delete spec.schedules;
          changed();
          draw();
        }}, "Remove"))),
      el("button", {type: "button", onclick: () => {
        (spec.schedules ??= []).push({name: `window-${spec.schedules.length + 1}`, start: "0 8 * * mon-fri", end: "0 18 * * *",
          minReplicas: (spec.minReplicas ?? 1) + 1});
        changed();
        draw();
      }}, "Add a schedule"),
      el("h3", {}, "Forecast"),
      el("label.check", {}, el("input", {type: "checkbox", checked: Boolean(spec.forecast), onchange: (event) => {
        if (event.target.checked) spec.forecast = {};
        else delete spec.forecast;
        changed();
        draw();
      }}), "Ask for pods ahead of load that is expected"),
      spec.forecast ? el("div.fields", {}, field("budgetPercent", spec.forecast.budgetPercent ?? 5, set(whole(spec.forecast, "budgetPercent")),
        {inputmode: "numeric"})) : null);
  }
  draw();
  return node;
}

// --- the outcome ------------------------------------------------------------------------------------------------

function against(value, base, digits) {
  if (base === null || base === undefined || value === null || number(value, digits) === number(base, digits)) return "";
  if (!base) return value ? ` (+${number(value, digits)})` : "";
  const change = (100 * (value - base)) / base;
  return ` (${change > 0 ? "+" : change < 0 ? "−" : "±"}${number(Math.abs(change), Math.abs(change) < 10 ? 1 : 0)} %)`;
}

function outcome(found) {
  const rows = [["What happened", found.happened, "recorded, point by point"], ["As it is", found.asItIs, "decided again"],
    ["Changed", found.changed, "decided again"]];
  const base = found.asItIs;
  const isPriced = found.podPrice !== null && found.podPrice !== undefined;
  for (const run of isPriced ? [found.happened, found.asItIs, found.changed] : []) {
    run.cost = run.podHours === undefined || run.podHours === null ? null : run.podHours * found.podPrice;
  }
  const columns = [["minutes", "Under-provisioned", 1, " min"], ["unserved", "Unserved", 3, " %"], ["podHours", "Pod-hours", 1, ""],
    ...(isPriced ? [["cost", "Cost", 2, ""]] : []), ["most", "Most pods", 0, ""], ["hours", "Hours known", 0, ""]];
  const cell = (run, [name, title, decimals, unit]) => {
    // Half an hour is known, not none.
    const digits = name === "hours" && run[name] < 10 ? 1 : decimals;
    return el("td.num", {"data-of": title}, run[name] === undefined || run[name] === null ? "–" : `${number(run[name], digits)}${unit}`,
      run === found.changed && run[name] !== undefined ? el("span.faint", {}, against(run[name], base[name], digits)) : null);
  };
  return el("div.scroll", {tabindex: 0, role: "region", "aria-label": "Outcome"}, el("table.list.outcome", {},
    el("caption.hidden", {}, "Outcome"), el("thead", {}, el("tr", {}, el("td"), columns.map(([, title]) => el("th", {scope: "col"}, title)))),
    el("tbody", {}, rows.map(([title, run, how]) => el("tr", {class: run === found.changed ? "mine" : ""}, el("th", {scope: "row"}, title,
      el("span.faint", {}, ` ${how}`)), columns.map((column) => cell(run, column)))))));
}

function outcomePicture(found, zone) {
  const ink = colors();
  const stepped = STEPPED();
  const ends = [[found.to, null]];
  const [happened, asItIs, changed] = [found.happened, found.asItIs, found.changed].map((run) => run.replicas);
  const times = union(...[happened, asItIs, changed, ends].map((pairs) => pairs.map(([at]) => at)));
  const most = Math.max(1, ...[happened, asItIs, changed].flat().map(([, value]) => value ?? 0));
  const loads = found.load;
  const high = Math.max(1e-9, ...loads.map(([, value]) => value));
  return picture({
    from: found.from, to: found.to, now: found.to, zone, short: found.changed.short, label: "The week decided again",
    plots: [
      {title: `Load: ${found.metric}`, height: 110, unit: load, range: () => upTo(high, 1e-9), keys: [key("line", "load", "load")],
        data: [loads.map(([at]) => at), sparse(loads, loads.map(([at]) => at), 900)], series: [{stroke: ink.load, fill: fade(ink.load, 0.1)}]},
      {title: "Replicas", height: 200, short: true, range: () => upTo(most),
        keys: [key("line", "replicas", "changed"), key("dash", "floor", "as it is"), key("dots", "faint", "what happened"),
          key("hatch", "bad", "under-provisioned if changed")],
        data: [times, held(happened, times, 900), held([...asItIs, ...ends], times), held([...changed, ...ends], times)],
        series: [{stroke: ink.faint, dash: [1, 3], width: 1.5, paths: stepped}, {stroke: ink.floor, dash: [6, 3], paths: stepped},
          {stroke: ink.replicas, width: 2, paths: stepped}]},
    ],
  });
}

// --- the view ---------------------------------------------------------------------------------------------------

export function whatIf(main, namespace, name, {banner, onError}) {
  const ending = new AbortController();
  const {signal} = ending;
  let timer = 0;
  let drawn = null;
  let found = null;
  let view = null;
  const back = `#/object/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  replace(main, el("p.crumbs", {}, el("a", {href: "#/"}, "Fleet"), ` / ${namespace} / `, el("a", {href: back}, name)),
    el("h1", {}, `What if: ${name}`), el("p.wait", {role: "status"}, "The object as it is, and its past, are being computed…"));

  const text = el("textarea", {id: "yaml", spellcheck: "false", rows: 26, autocapitalize: "off", autocomplete: "off"});
  const formHost = el("div");
  const result = el("div.result");
  const state = el("p.state", {role: "status"});
  const bar = el("progress", {max: 1, "aria-label": "Progress", hidden: true});
  const go = el("button.primary", {type: "submit"}, "Decide the last week again");

  function reset() {
    const spec = structuredClone(view.spec);
    text.value = manifest(view, spec);
    replace(formHost, form(spec, () => { text.value = manifest(view, spec); }));
  }

  function show() {
    const edit = el("form.what-if", {onsubmit: (event) => { event.preventDefault(); begin(); }},
      el("section.panel", {}, el("h2", {}, "Form"), formHost),
      el("section.panel", {}, el("div.panel-top", {}, el("h2", {}, el("label", {for: "yaml"}, "YAML")), copyButton(() => text.value, "Copy the YAML"),
        el("button.quiet", {type: "button", onclick: reset}, "As it is")), text),
      el("div.go", {}, go, bar, state));
    replace(main, el("p.crumbs", {}, el("a", {href: "#/"}, "Fleet"), ` / ${namespace} / `, el("a", {href: back}, name)),
      el("h1", {}, `What if: ${name}`),
      el("p.facts", {}, "The operator's own code decides the last week again under the load that was recorded. Nothing in the cluster changes: copy the YAML, and apply it where you keep it."),
      edit, result);
    text.addEventListener("input", () => {
      replace(formHost, el("p.faint", {}, "The YAML was edited by hand: it is what counts. ", el("button", {type: "button", onclick: reset}, "Back to the form, as it is")));
    });
    reset();
  }

  async function begin() {
    clearTimeout(timer);
    go.disabled = true;
    bar.hidden = false;
    bar.removeAttribute("value");
    state.textContent = "It waits for its turn…";
    result.replaceChildren();
    drawn?.end();
    drawn = null;
    try {
      const {run} = await ask("what-if", {signal, body: {namespace, name, yaml: text.value}});
      poll(run);
    } catch (error) {
      ended(error);
    }
  }

  async function poll(run) {
    try {
      const told = await ask(`what-if/${encodeURIComponent(run)}`, {signal});
      if (told.result) {
        ended(null);
        tell(told.result);
        return;
      }
      if (told.done) {
        bar.value = told.done;
        state.textContent = `${Math.round(100 * told.done)} %`;
      }
      timer = setTimeout(() => poll(run), POLL);
    } catch (error) {
      ended(error);
    }
  }

  function ended(error) {
    go.disabled = false;
    bar.hidden = true;
    state.textContent = "";
    if (!error || error.name === "AbortError") return;
    if (error.status) replace(result, el("ul.alert", {role: "alert"}, el("li", {}, error.message)));
    else onError(error);
  }

  function tell(told) {
    found = told;
    if (found.problems) {
      replace(result, el("ul.alert", {role: "alert"}, found.problems.map((each) => el("li", {}, each))));
      return;
    }
    draw();
    result.scrollIntoView({block: "nearest"});
  }

  function draw() {
    drawn?.end();
    drawn = outcomePicture(found, view.zone);
    replace(result, el("section.panel.wide", {}, el("h2", {}, "The week, decided again"), outcome(found),
      el("p.faint", {}, `${moment(found.from, view.zone)} to ${moment(found.to, view.zone)}; a pod carries ${load(found.capacity)} of ${found.metric} and is ready after ${number(found.startUp)} s.`,
        found.forecasts ? ` Forecasts: ${found.forecasts}.` : "", found.leftOut?.length ? ` Left out, as their load is not recorded: ${found.leftOut.join(", ")}.` : ""),
      drawn.root));
  }

  async function begun() {
    try {
      view = await ask(`${objectPath(namespace, name)}?zone=${encodeURIComponent(zone())}`, {signal});
      banner("");
      show();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === 404) replace(main, el("h1", {}, name), el("p.empty", {}, error.message));
      else onError(error);
    }
  }

  const themed = () => found && !found.problems && draw();
  addEventListener("themechange", themed);
  begun();
  return () => {
    ending.abort();
    clearTimeout(timer);
    drawn?.end();
    removeEventListener("themechange", themed);
  };
}
