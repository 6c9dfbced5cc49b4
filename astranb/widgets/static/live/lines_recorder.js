// @ts-check
// Reads what a run by cache lines has recorded, flights and activity: counterpart of engine/cacheline/recorder.py.

import { NEVER } from "./gpu_numbers.js";

/** @import { Edit, Engine, Recorder, Ring, Table } from "./types" */

const NEAR_BINS = 8; // of a moment: memories work in bursts, of which a single bin shows one or none
const GPU_ROWS = 3; // of activity: issue slots, L2, HBM
const HIGH = 2 ** 32;

/** A table as words of 32 bits, for those who read millions of rows. @param {Table} table */
function wordsOf(table) {
  const bytes = table.bytes();
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >>> 2);
}

/** The first word of a field in a record. @param {Table} table @param {string} field */
const placeIn = ({ fields }, field) => /** @type {Table["fields"][number]} */ (fields.find(([name]) => name === field))[2] >>> 2;

/**
 * What a ring that `total` rows were put into holds from a number on.
 * @param {Table} table
 * @param {number} number
 * @param {number} total
 * @returns {Ring}
 */
function ringOf(table, number, total) {
  const first = Math.min(number, total);
  return {
    first,
    total,
    table,
    row: (which) => which % table.rows,
    each(visit) {
      for (let at = first; at < total;) {
        const start = at % table.rows;
        const end = Math.min(start + total - at, table.rows);
        for (let row = start; row < end; row++) visit(row);
        at += end - start;
      }
    },
  };
}

/**
 * How long links, L2 slices or HBM channels have been busy up to now: counterpart of `busy_until` of machine.py.
 * @param {Table} rows
 * @param {number} row
 * @param {number} now_ps
 */
export function busyUntil({ at }, row, now_ps) {
  const free = at.free_at_ps(row);
  let ahead = Math.max(0, free - now_ps);
  if (at.resumes_ps && free >= NEVER) ahead = free - NEVER + Math.max(0, at.resumes_ps(row) - now_ps);
  return Math.min(Math.max(at.busy_ps(row) - ahead, 0), Math.max(0, now_ps));
}

/** @param {Engine} engine @returns {Recorder} */
export function createRecorder(engine) {
  const of = (/** @type {string} */ name) => engine.tables.recorder.at[name](0);
  const happened_ps = () => Math.max(0, engine.tables.clock.at.now_ps(0));
  const lost = () => Math.max(0, recorder.most - engine.tables.flights.rows);

  /** Adds the busy time of rows of activity, in ps by bin; some of the bins, from the first on. @param {number} first */
  function adding(first = 0) {
    const words = wordsOf(engine.tables.activity);
    const bins = of("bins");
    return (/** @type {number} */ row, /** @type {Float64Array} */ sums) => {
      let at = 2 * (row * bins + first);
      for (let bin = 0; bin < sums.length; bin++, at += 2) sums[bin] += words[at] + words[at + 1] * HIGH;
      return sums;
    };
  }

  /** @type {Recorder} */
  const recorder = {
    most: 0,
    most_bursts: 0,
    on: () => of("on") !== 0,
    bin_ps: () => of("bin_ps"),
    bins: () => (recorder.on() ? Math.min(of("bins"), Math.floor(happened_ps() / of("bin_ps")) + 1) : 0),
    oldest_ps() {
      const { flights } = engine.tables;
      return recorder.on() && lost() ? flights.at.queued_ps(lost() % flights.rows) : 0;
    },
    mark() {
      const total = of("flights");
      recorder.most = Math.max(recorder.most, total);
      recorder.most_bursts = Math.max(recorder.most_bursts, of("bursts"));
      return total;
    },
    since(number) {
      const total = recorder.mark();
      return ringOf(engine.tables.flights, recorder.on() ? Math.max(number, lost()) : total, total);
    },
    bursts_since(number) {
      recorder.mark();
      const { bursts } = engine.tables;
      const total = of("bursts");
      return ringOf(bursts, recorder.on() ? Math.max(number, recorder.most_bursts - bursts.rows) : total, total);
    },
    carried(start_ps, end_ps, visit) {
      const words = wordsOf(engine.tables.flights);
      const each = engine.tables.flights.size >>> 2;
      const [start, wire] = ["start_ps", "wire_ps"].map((field) => placeIn(engine.tables.flights, field));
      recorder.since(0).each((row) => {
        const at = row * each;
        const from = words[at + start] + words[at + start + 1] * HIGH;
        const to = from + words[at + wire] + words[at + wire + 1] * HIGH;
        if (from < end_ps && to > start_ps) visit(row, from, to);
      });
    },
    activity(strip) {
      const place = ["issue", "l2", "hbm"].indexOf(strip);
      const size = engine.tables.gpus.at[["sms", "l2_slices", "hbm_channels"][place]];
      const [bins, bin_ps, links, add] = [recorder.bins(), of("bin_ps"), of("links"), adding()];
      return Array.from({ length: engine.tables.gpus.rows }, (_, gpu) => {
        const all = size(gpu);
        return add(links + GPU_ROWS * gpu + place, new Float64Array(bins)).map((busy) => busy / bin_ps / all);
      });
    },
    busy(groups) {
      const [bins, bin_ps, add] = [recorder.bins(), of("bin_ps"), adding()];
      return groups.map((links) => {
        const whole = Math.max(1, links.length) * bin_ps;
        const sums = new Float64Array(bins);
        for (const link of links) add(link, sums);
        for (let bin = 0; bin < bins; bin++) sums[bin] = Math.min(sums[bin] / whole, 1);
        return sums;
      });
    },
    utilisation(start_ps, end_ps) {
      const now = Math.max(1, engine.tables.clock.at.now_ps(0));
      const links = of("links");
      if (!recorder.on()) return Float64Array.from({ length: links }, (_, link) => busyUntil(engine.tables.links, link, now) / now);
      const bin_ps = of("bin_ps");
      const [start, end] = [Math.max(0, start_ps), Math.min(end_ps, now)];
      const found = new Float64Array(links);
      if (end <= start) return found;
      const [first, last] = [Math.floor(start / bin_ps), Math.min(of("bins"), Math.ceil(end / bin_ps))];
      const share = (/** @type {number} */ bin) => (Math.min((bin + 1) * bin_ps, end) - Math.max(bin * bin_ps, start)) / bin_ps;
      const [least, most] = [last - 1 === first && end >= now ? 1 : share(first), end >= now ? 1 : share(last - 1)];
      const add = adding(first);
      const busy = new Float64Array(last - first);
      for (let link = 0; link < links; link++) {
        add(link, busy.fill(0));
        let whole = 0;
        for (let bin = 1; bin < busy.length - 1; bin++) whole += busy[bin];
        whole += busy[0] * least;
        if (busy.length > 1) whole += busy[busy.length - 1] * most;
        found[link] = Math.min(whole / (end - start), 1);
      }
      return found;
    },
    near(at_ps) {
      const { gpus } = engine.tables;
      const [bin_ps, links] = [of("bin_ps"), of("links")];
      const last = Math.min(Math.floor(at_ps / bin_ps) + 1, recorder.bins());
      const first = Math.max(0, last - NEAR_BINS);
      const over_ps = Math.min(last * bin_ps, happened_ps()) - first * bin_ps;
      if (over_ps <= 0) return { over_ps: 0, links: new Float64Array(links), gpus: Array.from({ length: gpus.rows }, () => [0, 0, 0]) };
      const add = adding(first);
      const part = (/** @type {number} */ row) => add(row, new Float64Array(last - first)).reduce((whole, busy) => whole + busy, 0) / over_ps;
      return {
        over_ps,
        links: Float64Array.from({ length: links }, (_, link) => Math.min(part(link), 1)),
        gpus: Array.from({ length: gpus.rows }, (_, gpu) =>
          ["sms", "l2_slices", "hbm_channels"].map((size, k) => Math.min(part(links + GPU_ROWS * gpu + k) / Math.max(1, gpus.at[size](gpu)), 1)),
        ),
      };
    },
  };
  return recorder;
}

/**
 * Intervals of simulated time of which nothing was recorded: counterpart of `unrecorded` of engine.py.
 * @param {Engine} engine
 * @param {Edit[]} switches
 */
export function unrecorded({ recorder, tables, now_ps }, switches) {
  /** @type {[number, number][]} */
  const gaps = [[0, recorder.on() ? tables.recorder.at.since_ps(0) : now_ps()]];
  let off_ps = -1;
  for (const { number, at_ps } of switches) {
    if (number) off_ps = at_ps;
    else if (off_ps >= 0) {
      gaps.push([off_ps, at_ps]);
      off_ps = -1;
    }
  }
  if (off_ps >= 0) gaps.push([off_ps, now_ps()]);
  return gaps.filter(([start, end]) => end > start);
}
