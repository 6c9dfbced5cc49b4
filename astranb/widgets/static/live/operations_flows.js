// @ts-check
// Recorded messages as a table, and who sends how much to whom: counterpart of widgets/views/flows.py and heat.py, and of
// engine/messages/flows.py.

import { pack } from "../messages.js";
import { InputError, near } from "./errors.js";
import { windowOf } from "./lines_busiest.js";
import { keptFlights } from "./messages_flights.js";
import { float, int, optional, truthy } from "./options.js";
import { general, repr, str } from "./text.js";
import { formatBytes, formatTime } from "./units.js";

/** @import { OperationEngine } from "./operations_types" */
/** @import { OperationFeed } from "./operations_feed.js" */
/** @import { Answers } from "./types" */

const PS = 1000;
const MOST_ROWS = 300;
const MOST_CELLS = 256; // rows of a matrix that is sent; of more ranks several are one row
const ORDERS = ["start_ps", "bytes", "duration_ps", "rate", "waited_ps"];
const WHOSE = ["src", "dst", "tag", "operation", "phase", "step", "bytes"]; // what tells messages apart
const HEADS = [
  ["", "from → to"], ["", "operation"], ["bytes", "bytes"], ["start_ps", "sent"], ["", "arrives"], ["duration_ps", "takes"],
  ["rate", "GB/s"], ["waited_ps", "waited"], ["", "phase"], ["", "chunk"], ["", "tag"],
];
/** @typedef {Record<"source" | "target" | "bytes" | "start_ps" | "end_ps" | "waited_ps" | "operation" | "phase" | "chunk" | "tag" | "link", number> & { done: boolean }} Flow */
/** @typedef {Flow & { duration_ps: number, rate: number }} FlowThen a message as it was at a moment */

/** Why no messages are known; empty: they are. @param {OperationEngine} engine */
function absentOf(engine) {
  if (engine.live.engine === "layers") return "A layer table has phases, and no single messages.";
  return engine.recording() ? "" : `Nothing is known of messages: ${engine.about.absent.flows}.`;
}

/**
 * The recorded messages in the order in which they were sent. With congestion the recording has a row for each link
 * that a message crosses: those that agree in whose they are cross each link in their order.
 * @param {OperationEngine} engine
 * @returns {Flow[]}
 */
function flowsOf(engine) {
  const { about, tables } = engine;
  const { flights: { at, rows: most }, config } = tables;
  const congestion = config.at.congestion(0) === 1;
  const rows = keptFlights(tables).numbers.map((number) => number % most);
  /** @type {Map<string, number>} */
  const crossed = new Map();
  /** @type {Map<string | number, number[]>} the rows of each message */
  const messages = new Map();
  for (const row of rows) {
    /** @type {string | number} */
    let message = row;
    if (congestion) {
      const whose = WHOSE.map((name) => at[name](row)).join(" ");
      const link = `${whose} ${at.link(row)}`;
      const nth = crossed.get(link) ?? 0;
      crossed.set(link, nth + 1);
      message = `${whose} ${nth}`;
    }
    const known = messages.get(message);
    if (known) known.push(row);
    else messages.set(message, [row]);
  }
  const now_ps = engine.now_ps();
  const found = [...messages.values()].map((mine) => {
    const [first, last] = [mine[0], mine[mine.length - 1]];
    const { operation, phase, chunk } = engine.whose(first);
    const ended = at.end_ns(last) * PS;
    const there = !congestion || about.link_ends.dst[at.link(last)] === about.link_ends.gpus[at.dst(last)];
    return {
      source: at.src(first), target: at.dst(first), bytes: at.bytes(first), start_ps: at.queued_ns(first) * PS, end_ps: ended,
      waited_ps: mine.reduce((all, row) => all + (at.start_ns(row) - at.queued_ns(row)) * PS, 0), operation,
      phase: phase > 0 ? phase : -1, chunk, tag: at.tag(first), link: congestion ? at.link(first) : -1, done: ended <= now_ps && there,
    };
  });
  return found.sort((a, b) => a.start_ps - b.start_ps);
}

/** @param {OperationFeed} feed @returns {Flow[]} */
const flowsNow = (feed) => (absentOf(feed.engineAt()) ? [] : feed.found("flows", () => flowsOf(feed.engineAt())));

/** Those that were sent up to a time, as they were then: of what is under way nobody knows the end. @param {Flow[]} whole @param {number} at_ps @returns {FlowThen[]} */
const until = (whole, at_ps) =>
  whole
    .filter(({ start_ps }) => start_ps <= at_ps)
    .map((one) => {
      const done = one.done && one.end_ps <= at_ps;
      const duration_ps = (done ? one.end_ps : Math.trunc(at_ps)) - one.start_ps;
      return { ...one, done, duration_ps, rate: done && duration_ps > 0 ? (1e12 * one.bytes) / duration_ps : 0, waited_ps: done ? one.waited_ps : -1 };
    });

/** What to select (the operation, the link), the start, and the cells. @param {OperationEngine} engine @param {FlowThen} one */
function rowOf({ about, link_path }, one) {
  const { operation, source, link } = one;
  return [
    operation >= 0 ? about.path(operation) : `rank[${source}]`, (link >= 0 && link_path(link)) || `rank[${source}]`, one.start_ps,
    `${source} → ${one.target}`, operation >= 0 ? about.text(operation) : "", formatBytes(one.bytes), formatTime(one.start_ps),
    one.done ? formatTime(one.end_ps) : "under way", formatTime(one.duration_ps), one.rate ? general(one.rate / 1e9, 3) : "",
    one.done ? formatTime(one.waited_ps) : "", ...[one.phase, one.chunk, one.tag].map((number) => (number < 0 ? "" : String(number))),
  ];
}

/** The number of the first message that the recording still has. @param {OperationEngine} engine */
const recordedFrom = ({ tables }) => keptFlights(tables).first;

/** @type {Answers<OperationFeed>} */
export const traffic = {
  /** Messages that were sent up to the cursor. */
  flows(feed, options) {
    const engine = feed.engineAt();
    const { about } = engine;
    const [whole, absent] = [flowsNow(feed), absentOf(engine)];
    const order = /** @type {"start_ps" | "bytes" | "duration_ps" | "rate" | "waited_ps"} */ (str(optional(options, "order", "start_ps")));
    if (!ORDERS.includes(order)) throw new InputError(`unknown order ${repr(order)}`, { where: "flows", hint: near(order, ORDERS) });
    const given = optional(options, "at_ps", null);
    const found = until(whole, given === null ? feed.sim.now_ps() : float(given));
    const rank = int(optional(options, "rank", -1));
    let some = found.filter(({ source, target }) => rank < 0 || source === rank || target === rank);
    if (truthy(optional(options, "now", false))) some = some.filter(({ done }) => !done);
    const text = str(optional(options, "text", "")).trim().toLowerCase();
    if (text) some = some.filter(({ operation: row }) => row >= 0 && `${about.label(row)} ${about.what(row)}`.toLowerCase().includes(text));
    if (order === "rate") some = some.filter(({ rate }) => rate > 0);
    const sign = order === "rate" ? 1 : -1; // of rates the lowest first
    const top = [...some].sort((a, b) => sign * (a[order] - b[order])).slice(0, MOST_ROWS);
    const dropped = absent ? 0 : recordedFrom(engine);
    const meta = {
      absent, heads: HEADS, rows: top.map((one) => rowOf(engine, one)), all: found.length, shown: some.length,
      bytes: some.reduce((all, { bytes }) => all + bytes, 0), dropped,
      oldest_ps: dropped ? found.reduce((first, { start_ps }) => Math.min(first, start_ps), feed.sim.now_ps()) : 0,
    };
    return [meta, []];
  },

  /** Bytes that each rank has sent to each, row by row; of many ranks several are one row. */
  traffic(feed, options) {
    const engine = feed.engineAt();
    const asked = truthy(optional(options, "window", null));
    const [start, end] = windowOf(feed, options);
    const { ranks } = engine;
    const each = Math.ceil(ranks / MOST_CELLS);
    const rows = Math.ceil(ranks / each);
    const cells = new Float64Array(rows * rows);
    for (const { source, target, bytes, start_ps } of flowsNow(feed)) {
      if (start_ps >= start && start_ps <= end) cells[Math.floor(source / each) * rows + Math.floor(target / each)] += bytes;
    }
    const absent = absentOf(engine);
    const meta = {
      ranks, each, rows, total: cells.reduce((all, one) => all + one, 0), window: asked ? [start, end] : null,
      partly: !absent && recordedFrom(engine) > 0, absent,
    };
    return [meta, pack("traffic", { cells })];
  },
};
