// What ical.js (https://github.com/kewisch/ical.js), an implementation of its own, makes of each calendar of this folder.
//
//     npm install ical.js@2.2.1 && node expand.mjs > expected.json
//
// Prints by file: the span, and each occurrence within it as [title, begin, end, zone], as CalendarEvent has them.
import ICAL from 'ical.js';
import fs from 'node:fs';
import path from 'node:path';

const DAY = 86400e3;
const here = path.dirname(new URL(import.meta.url).pathname);

function wall(time, isEnd) {
  const zoned = !time.isDate && time.zone !== ICAL.Timezone.localTimezone;
  const at = zoned ? time.convertToZone(ICAL.Timezone.utcTimezone) : time;
  let ms = Date.UTC(at.year, at.month - 1, at.day, at.isDate ? 0 : at.hour, at.isDate ? 0 : at.minute,
    at.isDate ? 0 : at.second);
  ms = isEnd ? Math.ceil(ms / 60e3) * 60e3 : Math.floor(ms / 60e3) * 60e3;
  return {ms, text: new Date(ms).toISOString().slice(0, 16), zone: zoned ? 'UTC' : ''};
}

function occurrences(text, span) {
  const found = new Set();
  for (const root of [ICAL.parse(text)].flatMap(one => Array.isArray(one[0]) ? one : [one])) {
    const calendar = new ICAL.Component(root);
    ICAL.TimezoneService.reset();
    for (const zone of calendar.getAllSubcomponents('vtimezone')) ICAL.TimezoneService.register(zone);
    const masters = [], moved = [];
    for (const part of calendar.getAllSubcomponents('vevent')) {
      (part.hasProperty('recurrence-id') ? moved : masters).push(part);
    }
    const uids = new Set(masters.map(part => part.getFirstPropertyValue('uid')));
    const put = (event, start, end) => {
      if (String(event.component.getFirstPropertyValue('status') || '').toUpperCase() === 'CANCELLED') return;
      const opens = wall(start, false), closes = wall(end, true);
      if (opens.ms < closes.ms && closes.ms > span[0] && opens.ms < span[1]) {
        let title = (event.summary || '').split(/\s+/).filter(Boolean).join(' ');
        if (title.length > 80) title = title.slice(0, 77) + '...';
        found.add(JSON.stringify([title, opens.text, closes.text, opens.zone]));
      }
    };
    for (const part of masters) {
      const uid = part.getFirstPropertyValue('uid');
      const event = new ICAL.Event(part, {
        strictExceptions: true, exceptions: moved.filter(one => one.getFirstPropertyValue('uid') === uid)});
      if (!event.isRecurring()) { put(event, event.startDate, event.endDate); continue; }
      const iterator = event.iterator();
      for (let next = iterator.next(), n = 0; next && n < 200000; next = iterator.next(), n++) {
        if (wall(next, false).ms > span[1] + 400 * DAY) break;
        const details = event.getOccurrenceDetails(next);
        put(details.item, details.startDate, details.endDate);
      }
    }
    for (const part of moved) {
      if (!uids.has(part.getFirstPropertyValue('uid'))) {
        const event = new ICAL.Event(part);
        put(event, event.startDate, event.endDate);
      }
    }
  }
  return [...found].map(one => JSON.parse(one));
}

const out = {};
for (const file of fs.readdirSync(here).filter(name => name.endsWith('.ics')).sort()) {
  const text = fs.readFileSync(path.join(here, file), 'utf8');
  // 500 days, as an operator reads, beginning a month before the first event that the file has.
  const starts = [...text.matchAll(/BEGIN:VEVENT[\s\S]*?DTSTART[^:]*:(\d{4})(\d{2})(\d{2})/g)]
    .map(one => Date.UTC(+one[1], one[2] - 1, +one[3]));
  const begin = Math.min(...starts) - 30 * DAY;
  const span = [begin, begin + 500 * DAY];
  try {
    const found = occurrences(text, span).sort((a, b) => a.join('|') < b.join('|') ? -1 : 1);
    out[file] = {begin: new Date(span[0]).toISOString().slice(0, 10), occurrences: found};
  } catch (error) {
    console.error(file, String(error));
  }
}
const lines = Object.entries(out).map(([file, {begin, occurrences}]) =>
  `${JSON.stringify(file)}: {"begin": "${begin}", "occurrences": [\n  ${occurrences.map(one => JSON.stringify(one)).join(',\n  ')}]}`);
console.log(`{${lines.join(',\n')}}`);
