// @ts-check
// The last events of an object, and those of the run around a moment, in words: counterpart of
// engine/cacheline/recent_events.py.

import { fabricOf } from "./fabric.js";
import { CLASSES, DONE, PENDING, REQUEST_KINDS } from "./gpu_numbers.js";
import { phaseText } from "./lines_narrating.js";
import { blockName, blockNumber, blockPath, rowsOf } from "./lines_paths.js";
import { quickLongs } from "./longs.js";
import { rowsWhere } from "./rows.js";
import { formatTime } from "./units.js";

/** @import { Engine, MachinePart, Table } from "./types" */
/** @typedef {[when: number, text: string]} Report */

const MOST = 10;
const WINDOW = 200_000; // of the newest flights: so many are looked through

/** What the times of an operation mean, by its kind; the kinds of flights. @param {Engine} engine @returns {{ did: Record<string, string[]>, flights: string[] }} */
const wordsOf = ({ live }) => live.about.words;

/**
 * What happened to an object last: at most ten events, the newest first, each with its time.
 * @param {Engine} engine
 * @param {MachinePart} place
 */
export function recentEvents(engine, place) {
  const reported = reportedOf(engine, place).sort(([a], [b]) => a - b); // events at one time keep their order
  return reported.reverse().slice(0, MOST).map(([when, text]) => `${formatTime(when)} · ${text}`);
}

/** @param {Engine} engine @param {MachinePart} place @returns {Report[]} */
function reportedOf(engine, { kind, row, rows }) {
  const { links, ops } = engine.tables;
  if (kind === "link" || kind === "port") return ofLinks(engine, new Set(rows));
  if (kind === "buffer") return ofLinks(engine, new Set(rows.map((queue) => Math.floor(queue / CLASSES))));
  if (kind === "node" || kind === "instance") {
    const nodes = new Set(rows);
    const known = kind === "node" ? fabricOf(engine).links : links.rows;
    return ofLinks(engine, new Set(rowsWhere(links, (one) => one < known && (nodes.has(links.at.src(one)) || nodes.has(links.at.dst(one))))));
  }
  if (kind === "line") return ofLine(engine, row);
  if (kind === "semaphore") return ofOperations(engine, rowsWhere(ops, (op) => ops.at.semaphore(op) === row));
  return kind === "l2" || kind === "hbm" ? [] : ofBlocks(engine, kind, row);
}

/** The flights of the run, which a copy that looks at the past shows, too. @param {Engine} engine */
const flightsOf = ({ recorder }) => recorder.since(Infinity).table.at;

/**
 * The ring of flights, and the numbers of those up to now: the first one, and one past the last.
 * @param {Engine} engine
 */
function recorded({ recorder, count }) {
  const ring = recorder.since(0);
  const event = quickLongs(ring.table, "event");
  const events = count("events");
  let [first, last] = [ring.first, ring.total]; // flights are in the order of their events
  while (first < last) {
    const middle = Math.floor((first + last) / 2);
    if (event(ring.row(middle)) <= events) first = middle + 1;
    else last = middle;
  }
  return { ring, first: ring.first, last };
}

/**
 * Of the newest flights up to now those of which something holds, the oldest of them first.
 * @param {Engine} engine
 * @param {(flight: number) => boolean} holds
 * @param {number} most
 */
function newest(engine, holds, most = Infinity) {
  const { ring, first, last } = recorded(engine);
  const found = [];
  for (let number = last - 1; number >= Math.max(first, ring.total - WINDOW) && found.length < most; number -= 1) {
    if (holds(ring.row(number))) found.push(ring.row(number));
  }
  return found.reverse();
}

/** A line that crosses a link, and how long it was queued. @param {Engine} engine @param {number} flight */
function whatOf(engine, flight) {
  const { ops } = engine.tables;
  const at = flightsOf(engine);
  const op = at.op(flight);
  const kind = wordsOf(engine).flights[at.kind(flight)] ?? "poll";
  const line = /^(signal|poll)/.test(kind) ? "" : ` line ${at.line(flight) + 1}/${ops.at.lines(op)}`;
  const waited = at.start_ps(flight) - at.queued_ps(flight);
  const link = fabricOf(engine).name(at.link(flight));
  return {
    what: `${kind}${line} of ${blockPath(engine, ops.at.block(op))}, operation ${ops.at.number(op)}, on ${link}`,
    queue: waited ? ` after ${formatTime(waited)} in the queue` : "",
  };
}

/** A line that crosses a link: queued, sent or arrived. @param {Engine} engine @param {number} flight @returns {Report} */
function report(engine, flight) {
  const at = flightsOf(engine);
  const { what, queue } = whatOf(engine, flight);
  const now_ps = engine.now_ps();
  if (at.end_ps(flight) <= now_ps) return [at.end_ps(flight), `${what} has arrived${queue}`];
  if (at.start_ps(flight) <= now_ps) return [at.start_ps(flight), `${what} is sent${queue}`];
  return [at.queued_ps(flight), `${what} comes to the queue`];
}

/** @param {Engine} engine @param {Set<number>} links @returns {Report[]} */
function ofLinks(engine, links) {
  const { link } = flightsOf(engine);
  return newest(engine, (flight) => links.has(link(flight)), 4 * MOST).map((flight) => report(engine, flight));
}

/** The links that a line has crossed, and its beginning. @param {Engine} engine @param {number} request @returns {Report[]} */
function ofLine(engine, request) {
  const { operands, requests } = engine.tables;
  const { at } = requests;
  const operand = at.operand(request);
  const [kind, op, line, issued_ps] = [at.kind(request), at.op(request), at.line(request) - operands.at.line(operand), at.issued_ps(request)];
  const used = linksOf(engine, operand);
  const flights = flightsOf(engine);
  const mine = (/** @type {number} */ flight) =>
    flights.op(flight) === op && flights.line(flight) === line && Math.floor(flights.kind(flight) / 2) === kind &&
    flights.queued_ps(flight) >= issued_ps && used.has(flights.link(flight));
  const begun = `${REQUEST_KINDS[kind]} issued by GPU${at.gpu(request)} for memory of GPU${at.target(request)}`;
  return [[issued_ps, begun], ...newest(engine, mine).map((flight) => report(engine, flight))];
}

/** Links of the routes of an operand. @param {Engine} engine @param {number} operand */
function linksOf({ tables: { operands, routes, route_links: links } }, operand) {
  const found = new Set();
  for (const way of ["out", "back"]) {
    const first = operands.at[`${way}_route`](operand);
    for (let route = first; route < first + operands.at[`${way}_routes`](operand); route += 1) {
      for (let place = routes.at.first(route); place < routes.at.last(route); place += 1) found.add(links.at.value(place));
    }
  }
  return found;
}

/** What the thread blocks of a GPU, of an SM, or one of them, did last. @param {Engine} engine @param {string} kind @param {number} row @returns {Report[]} */
function ofBlocks(engine, kind, row) {
  const { blocks, ops, sms } = engine.tables;
  const { at } = blocks;
  let mine = [row];
  if (kind === "gpu") mine = rowsOf(engine, row, "block");
  else if (kind !== "block") mine = rowsOf(engine, sms.at.gpu(row), "block").filter((block) => at.sm(block) === row);
  const own = new Set(mine);
  const reported = ofOperations(engine, rowsWhere(ops, (op) => own.has(ops.at.block(op))));
  for (const block of mine) {
    const name = `block ${blockNumber(engine, block)}`;
    if (at.state(block) !== PENDING) reported.push([at.started_ps(block), `${name} begins`]);
    if (at.state(block) === DONE) reported.push([at.ended_ps(block), `${name} ends`]);
  }
  return reported;
}

/** What the thread blocks of some operations did last at these. @param {Engine} engine @param {number[]} of @returns {Report[]} */
function ofOperations(engine, of) {
  const { blocks, ops } = engine.tables;
  const own = new Set(of.map(ops.at.block));
  const several = new Set([...own].map(blocks.at.gpu)).size > 1;
  const now_ps = engine.now_ps();
  /** @type {Report[]} */
  const reported = [];
  for (const field of Object.keys(wordsOf(engine).did)) {
    const time = ops.at[field];
    const done = of.filter((op) => time(op) >= 0 && time(op) <= now_ps).sort((a, b) => time(a) - time(b));
    for (const op of done.slice(-MOST)) {
      const block = ops.at.block(op);
      const name = several ? blockName(engine, block) : `block ${blockNumber(engine, block)}`;
      const text = did(engine, op, field);
      if (text) reported.push([time(op), `${name} ${text}`]);
    }
  }
  return reported;
}

/** What a time of an operation means, in words; empty: nothing that shows. @param {Engine} engine @param {number} op @param {string} field */
function did(engine, op, field) {
  const { at } = engine.tables.ops;
  const text = wordsOf(engine).did[field][at.kind(op)];
  return text && `${text}: operation ${at.number(op)}${phaseText(engine, op)}`;
}

/** Keeps those with the smallest keys; of equal ones the first. */
class Least {
  /** @param {number} most */
  constructor(most) {
    this._most = most;
    /** @type {{ key: number, place: number }[]} */
    this.kept = [];
  }

  /** @param {number} key @param {number} place */
  offer(key, place) {
    const { kept } = this;
    let at = kept.length;
    while (at && (key < kept[at - 1].key || (key === kept[at - 1].key && place < kept[at - 1].place))) at -= 1;
    if (at === this._most) return;
    kept.splice(at, 0, { key, place });
    if (kept.length > this._most) kept.pop();
  }
}

/**
 * What happened before and after a moment, as far as it has been simulated: time in ps, what, and the path of the thread
 * block or link, in the order of time.
 * @param {Engine} engine
 * @param {number} at_ps
 * @param {number} most events before the moment (its own included), and after it
 * @returns {[when: number, what: string, path: string][]}
 */
export function eventsAround(engine, at_ps, most) {
  const { ops } = engine.tables;
  const now_ps = engine.now_ps();
  /** @type {[number, string, string][]} */
  const found = [];
  for (const field of Object.keys(wordsOf(engine).did)) {
    const time = ops.at[field];
    const rows = nearest(ops, 0, ops.rows, time, at_ps, now_ps, most);
    for (const op of rows) found.push([time(op), did(engine, op, field), blockPath(engine, ops.at.block(op))]);
  }
  const { ring, first, last } = recorded(engine);
  for (const [field, how] of [["start_ps", "is sent"], ["end_ps", "has arrived"]]) {
    const time = quickLongs(ring.table, field);
    for (const flight of nearest(ring.table, ring.row(first), last - first, time, at_ps, now_ps, most)) {
      const { what, queue } = whatOf(engine, flight);
      found.push([time(flight), `${what} ${how}${queue}`, fabricOf(engine).name(ring.table.at.link(flight))]);
    }
  }
  const described = found.filter(([, text]) => text).sort(([a], [b]) => a - b);
  const before = described.filter(([when]) => when <= at_ps).length;
  return described.slice(Math.max(0, before - most), before + most);
}

/**
 * Of so many rows of a ring those of the last times up to a moment, the last one first, and those of the first ones after it.
 * @param {Table} ring
 * @param {number} first
 * @param {number} count
 * @param {(row: number) => number} time
 * @param {number} at_ps
 * @param {number} now_ps
 * @param {number} most
 */
function nearest({ rows }, first, count, time, at_ps, now_ps, most) {
  const [before, after] = [new Least(most), new Least(most)];
  const rowOf = (/** @type {number} */ place) => (first + place) % rows;
  // Times grow, roughly: from where the nearest ones come first, hardly any other one is kept.
  for (let place = count - 1, row = rowOf(place); place >= 0; place -= 1, row = row ? row - 1 : rows - 1) {
    const when = time(row);
    if (when >= 0 && when <= at_ps) before.offer(-when, place);
  }
  for (let place = 0, row = first; place < count; place += 1, row = row + 1 === rows ? 0 : row + 1) {
    const when = time(row);
    if (when > at_ps && when <= now_ps) after.offer(when, place);
  }
  return [...before.kept, ...after.kept].map(({ place }) => rowOf(place));
}
