// The coming week of the fleet: what opens and closes when, where edges fall together, pods asked for at each.

import {ask, polling} from "./api.js";
import {colors, fade, key, picture, upTo} from "./chart.js";
import {clock, day, el, moment, number, replace, zone} from "./dom.js";

const REFRESH = 60000;
const HEAVIEST = 5;

function counts(each) {
  return [each.opens ? `${number(each.opens)} ${each.opens === 1 ? "opens" : "open"}` : "",
    each.closes ? `${number(each.closes)} ${each.closes === 1 ? "closes" : "close"}` : "",
    each.leads ? `${number(each.leads)} asked for ahead` : ""].filter(Boolean).join(", ");
}

function pods(each) {
  return [each.more ? el("span.more", {}, `+${number(each.more)}`) : null, each.more && each.fewer ? " " : null,
    each.fewer ? el("span.fewer", {}, `−${number(each.fewer)}`) : null, !each.more && !each.fewer ? el("span.faint", {}, each.caps ? "caps alone" : "as before") : null];
}

function objects(each) {
  const made = el("ul.of", {tabindex: 0});
  made.append(...each.of.map(([namespace, name, before, after, capBefore, capAfter, what]) => el("li", {},
    el("a", {href: `#/object/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`}, `${namespace}/${name}`),
    ` ${what}: `, before === after ? "" : `minimum ${before} → ${after}`, before !== after && capBefore !== capAfter ? ", " : "",
    capBefore === capAfter ? "" : `maximum ${capBefore} → ${capAfter}`)));
  if (each.objects > each.of.length) made.append(el("li.faint", {}, `and ${number(each.objects - each.of.length)} more`));
  return made;
}

// What an edge is about: the object where it is one, else how many.
function about(each) {
  if (each.objects !== 1) return [`${number(each.objects)} objects`, el("span.faint", {}, ` ${counts(each)}`)];
  const [namespace, name, before, after, capBefore, capAfter, what] = each.of[0];
  const change = [before === after ? "" : `${before} → ${after}`, capBefore === capAfter ? "" : `at most ${capBefore} → ${capAfter}`].filter(Boolean).join(", ");
  return [el("b", {}, `${namespace}/${name}`), el("span.faint", {}, `: ${what}${change && `, ${change}`}`)];
}

function entry(each, most) {
  const node = el("details.edge", {}, el("summary", {},
    el("span.when", {}, clock(each.at, zone())), el("span.edge-pods.num", {}, pods(each)),
    el("span.edge-sum.num", {}, number(each.sum)),
    el("span.bar-of", {"aria-hidden": "true"}, el("i", {style: {width: `${(100 * each.sum) / most}%`}})),
    el("span.edge-of", {}, about(each))));
  // An edge may have a thousand objects: they are rendered when it is opened.
  node.addEventListener("toggle", () => {
    if (node.open && node.childElementCount === 1) node.append(objects(each));
  });
  return node;
}

// A lane for each planned event: when it holds in the week, and in which objects.
function lane(event, told) {
  const share = (at) => (100 * (Math.min(Math.max(at, told.from), told.until) - told.from)) / (told.until - told.from);
  const times = event.spans.map(([begin, end]) => `${begin <= told.from ? "now" : moment(begin, zone())} to ${end >= told.until ? "later" : moment(end, zone())}`);
  const shown = times.length > 2 ? [...times.slice(0, 2), `${times.length - 2} more`] : times;
  const node = el("details.event-lane", {}, el("summary", {},
    el("b.event-name", {}, event.namespace ? `${event.namespace}/${event.name}` : event.name),
    el("span.num.event-objects", {}, `${number(event.objects)} ${event.objects === 1 ? "object" : "objects"}`),
    el("span.event-track", {"aria-hidden": "true"}, event.spans.map(([begin, end]) =>
      el("i", {style: {left: `${share(begin)}%`, width: `${share(end) - share(begin)}%`}}))),
    el("span.faint.event-times", {}, shown.join(", "))));
  node.addEventListener("toggle", () => {
    if (!node.open || node.childElementCount !== 1) return;
    const made = el("ul.of", {tabindex: 0});
    made.append(...event.of.map(([namespace, name]) => el("li", {}, el("a", {href: `#/object/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`}, `${namespace}/${name}`))));
    if (event.objects > event.of.length) made.append(el("li.faint", {}, `and ${number(event.objects - event.of.length)} more`));
    node.append(made);
  });
  return node;
}

export function calendar(main, {banner, onError}) {
  let drawn = null;
  let told = null;
  replace(main, el("h1", {}, "Calendar of the fleet"), el("p.wait", {role: "status"}, "The edges of the coming week are being computed…"));

  function draw() {
    drawn?.end();
    const ink = colors();
    const at = told.instants.map((each) => each.at);
    const most = Math.max(1, ...told.instants.map((each) => Math.max(each.more, each.fewer)));
    const bars = uPlot.paths.bars({size: [1, 6, 2], align: 0});
    drawn = picture({
      from: told.from, to: told.until, now: told.from, zone: zone(), label: "Pods asked for at each edge of the coming week",
      plots: [{title: "Pods that minimums ask for", height: 150, range: () => upTo(most),
        keys: [key("area", "replicas", "more from then on"), key("area", "floor", "fewer from then on")],
        data: [at, told.instants.map((each) => each.more || null), told.instants.map((each) => each.fewer || null)],
        series: [{stroke: ink.replicas, fill: fade(ink.replicas, 0.75), paths: bars}, {stroke: ink.floor, fill: fade(ink.floor, 0.4), paths: bars}]}],
    });
    return drawn.root;
  }

  function show() {
    const days = new Map();
    for (const each of told.instants) {
      const date = day(each.at, zone());
      if (!days.has(date)) days.set(date, []);
      days.get(date).push(each);
    }
    const most = Math.max(1, ...told.instants.map((each) => each.sum));
    const heaviest = [...told.instants].sort((one, other) => other.more - one.more || other.objects - one.objects).slice(0, HEAVIEST)
      .filter((each) => each.more > 0);
    const opened = new Set([...main.querySelectorAll("details[open]")].map((node) => node.dataset.at));
    const list = [...days].map(([date, items]) => el("section.day", {}, el("h3", {}, date), items.map((each) => {
      const node = entry(each, most);
      node.dataset.at = each.at;
      return node;
    })));
    replace(main, el("h1", {}, "Calendar of the fleet"),
      el("p.facts", {}, `${number(told.objects)} objects, ${number(told.instants.length)} instants in the coming week, times in ${zone()}.`,
        " Pods are those that minimums ask for; a target may run more already.",
        told.cut ? " Only the first of them are shown." : "", told.unread ? ` ${told.unread} objects cannot be read.` : ""),
      told.instants.length ? el("section.panel.wide", {}, draw()) : el("p.empty", {}, "Nothing opens or closes in the coming week."),
      told.events.length ? el("section.panel.wide", {}, el("h2", {}, "Planned events"), told.events.map((event) => {
        const node = lane(event, told);
        node.dataset.at = `${event.namespace}/${event.name}`;
        return node;
      })) : null,
      heaviest.length ? el("section.panel", {}, el("h2", {}, "Where the most is asked for at once"), el("ol.heaviest", {}, heaviest.map((each) =>
        el("li", {}, el("b", {}, moment(each.at, zone())), " ", pods(each), ` pods for ${number(each.objects)} ${each.objects === 1 ? "object" : "objects"}`)))) : null,
      el("section.panel", {}, el("h2", {}, "Edge by edge"),
        el("p.edge-head", {"aria-hidden": "true"}, el("span", {}, "Time"), el("span.edge-pods", {}, "Pods"), el("span.edge-sum", {}, "In all"), el("span.bar-of"), el("span", {}, "Objects")), list));
    for (const node of main.querySelectorAll("details")) if (opened.has(node.dataset.at)) node.open = true;
  }

  const polled = polling(REFRESH, onError, async () => {
    const answer = await ask("calendar", {signal: polled.signal});
    if (answer.done !== undefined) {
      const waiting = main.querySelector(".wait");
      if (waiting) waiting.textContent = `The edges of the coming week are being computed: ${Math.round(100 * answer.done)} %`;
      return 500;
    }
    banner(answer.pending ? `${answer.pending} namespaces are still asked about.` : "");
    const isNew = told === null || JSON.stringify(answer) !== JSON.stringify(told);
    told = answer;
    if (isNew) show();
    return answer.pending ? 2000 : REFRESH;
  });

  const themed = () => told && show();
  addEventListener("themechange", themed);
  polled.begin();
  return () => {
    polled.end();
    drawn?.end();
    removeEventListener("themechange", themed);
  };
}
