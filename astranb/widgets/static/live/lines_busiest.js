// @ts-check
// The busiest links of a window of time; of very large systems tiles, quantiles and a list; and who sends how much to
// whom. Counterpart of widgets/views/aggregates.py and heat.py.

import { pack } from "../messages.js";
import { mean, rounded, sum } from "../numpy.js";
import { InputError } from "./errors.js";
import { MOVE } from "./gpu_numbers.js";
import { elements, float, truthy, typeName } from "./options.js";
import { repr } from "./text.js";

/** @import { LineAnswers, Engine, Feed } from "./types" */

const QUANTILES = [0, 25, 50, 75, 90, 99, 100];
const BINS = 20; // of a histogram of utilisation
const TOP = 12;
const MOST_CELLS = 256; // rows of a matrix that is sent; of more ranks several are one row

/** @type {LineAnswers} */
export const busiest = {
  /** Which bundles of the picture are drawn with lines: the busiest of a window. */
  hot(feed, options) {
    const { bundles, meta } = feed.layout;
    const busy = feed.sim.engine.recorder.utilisation(...windowOf(feed, options));
    const shares = bundles.map((links) => meanOf(busy, links));
    const order = Array.from(shares.keys()).sort((a, b) => shares[b] - shares[a] || a - b); // idle ones last: there is always a picture
    const found = meta.hot ? order.slice(0, meta.hot) : order;
    return [{ picture: feed.picture, bundles: found, busy: found.map((one) => rounded(shares[one], 4)), of: bundles.length }, []];
  },

  /** A very large system in a few numbers: per tile, per pair of tiers, and the busiest links. */
  aggregates(feed, options) {
    const { layout: { bundles, inside, meta, units: { names, of } }, used } = feed;
    const { links } = feed.sim.engine.tables;
    const busy = feed.sim.engine.recorder.utilisation(...windowOf(feed, options));
    const sums = new Float64Array(names.length);
    const counts = new Float64Array(names.length);
    for (const link of used) {
      const [from, to] = [of[links.at.src(link)], of[links.at.dst(link)]];
      if (from === to && names.length > 1) continue;
      sums[from] += busy[link];
      counts[from] += 1;
    }
    /** @type {Map<string, number>} */
    const number = new Map(names.map((name, k) => [name, k]));
    const tiles = meta.tiles.flat().map((/** @type {string} */ name) => {
      const unit = Number(number.get(name));
      return sums[unit] / Math.max(1, counts[unit]);
    });
    const { boxes } = meta;
    /** @type {[title: string, links: number[]][]} */
    const parts = bundles.map((lanes, k) => [`${boxes[meta.bundles[k].from].label} → ${boxes[meta.bundles[k].to].label}`, lanes]);
    inside.forEach((lanes, box) => lanes.length && parts.push([`within ${boxes[box].label}`, lanes]));
    const top = [...used].sort((a, b) => busy[b] - busy[a]).slice(0, TOP).filter((link) => busy[link] > 0);
    return [
      {
        picture: feed.picture,
        quantiles: QUANTILES,
        groups: parts.map(([title, lanes]) => ({ title, links: lanes.length, ...spreadOf(lanes.map((link) => busy[link])) })),
        top: top.map((link) => ({ name: feed.fabric.name(link), busy: rounded(busy[link], 4) })),
        links: used.length,
      },
      pack("aggregates", { tiles }),
    ];
  },

  /** The matrix at the cursor, row by row; of many ranks several are one row. */
  traffic(feed, options) {
    const window = truthy(options.window) ? windowOf(feed, options) : null;
    const { engine } = feed.session.at(options.at_ps);
    const ranks = engine.tables.gpus.rows;
    const matrix = trafficOf(engine, window ? shareIn(engine, ...window) : null);
    let each = Math.ceil(ranks / MOST_CELLS);
    const whole = feed.layout.units.gpus[0]; // of an instance, rather than across two of them
    if (each > 1 && ranks % whole === 0 && whole > 1) each = whole < each ? Math.ceil(each / whole) * whole : whole;
    const rows = Math.ceil(ranks / each);
    const cells = new Float64Array(rows * rows);
    matrix.forEach((bytes, cell) => {
      const [from, to] = [Math.floor(cell / ranks), cell % ranks];
      cells[Math.floor(from / each) * rows + Math.floor(to / each)] += bytes;
    });
    const total = sum(cells);
    return [{ ranks, each, rows, total, window, partly: false, absent: "" }, pack("traffic", { cells })];
  },
};

/** @param {Float64Array} values @param {number[]} places */
const meanOf = (values, places) => mean(places.map((place) => values[place]));

/** The window of time of a question, in ps, up to the cursor; all time without one. @param {Feed} feed @param {any} options @returns {[number, number]} */
export function windowOf(feed, options) {
  const at_ps = options.at_ps ?? feed.sim.now_ps();
  if (typeof at_ps === "string" || typeof at_ps === "object") throw new TypeError(`'<' not supported between instances of 'int' and '${typeName(at_ps)}'`);
  const now_ps = Math.min(at_ps, feed.sim.now_ps());
  const [start, end] = truthy(options.window) ? twoTimes(options.window) : [0, now_ps];
  return [Math.min(start, now_ps), Math.min(end, now_ps)];
}

/** @param {unknown} window */
function twoTimes(window) {
  try {
    const parts = elements(window).map(float);
    if (parts.length === 2) return parts;
  } catch {
    // it is said below
  }
  throw new InputError(`a window is two times in ps, got ${repr(window)}`, { where: "window" });
}

/** Quantiles and a histogram of fractions. @param {number[]} values */
function spreadOf(values) {
  const sorted = Float64Array.from(values).sort();
  const quantiles = QUANTILES.map((percent) => {
    const place = (percent / 100) * (sorted.length - 1);
    const low = Math.floor(place);
    const [a, b, part] = [sorted[low], sorted[Math.min(low + 1, sorted.length - 1)], place - low];
    return rounded(part >= 0.5 ? b - (b - a) * (1 - part) : a + (b - a) * part, 4);
  });
  const histogram = new Array(BINS).fill(0);
  for (const value of values) histogram[Math.min(Math.trunc(value * BINS), BINS - 1)] += 1;
  return { quantiles, histogram };
}

/** The part of each operation that falls into a window, as if its lines were spread evenly. @param {Engine} engine @param {number} start_ps @param {number} end_ps */
function shareIn(engine, start_ps, end_ps) {
  const { ops } = engine.tables;
  const now_ps = Math.max(engine.now_ps(), 1);
  return (/** @type {number} */ op) => {
    const begun = ops.at.started_ps(op);
    const ended = ops.at.ended_ps(op) > 0 ? ops.at.ended_ps(op) : now_ps;
    const inside = Math.min(ended, end_ps) - Math.max(begun, start_ps);
    return Math.min(Math.max(inside / Math.max(ended - begun, 1), 0), 1);
  };
}

/**
 * The payload that operations have moved so far, from row to column: counterpart of export/traffic.py. A load counts
 * as sent by the GPU that is read, and a line when it is issued. What stays on a GPU is not counted.
 * @param {Engine} engine
 * @param {((op: number) => number) | null} share the part of each operation that counts; null: all of it
 */
function trafficOf(engine, share) {
  const { ops, operands, blocks, gpus } = engine.tables;
  const ranks = gpus.rows;
  const [sources, targets] = ["source", "target"].map((side) => {
    const found = new Float64Array(ranks * ranks);
    for (let op = 0; op < ops.rows; op++) {
      if (ops.at.kind(op) !== MOVE || ops.at.started_ps(op) < 0) continue;
      const [lines, payload] = [ops.at.lines(op), ops.at.payload(op)];
      const whole = Math.max(0, (lines - 1) * payload + ops.at.last_bytes(op));
      let moved = Math.min((lines - ops.at.left(op)) * payload, whole);
      if (share) moved *= share(op);
      const here = blocks.at.gpu(ops.at.block(op));
      const first = ops.at[`first_${side}`](op);
      for (let place = first; place < first + ops.at[`${side}s`](op); place++) {
        const other = operands.at.gpu(place);
        if (other !== here) found[side === "target" ? here * ranks + other : other * ranks + here] += moved;
      }
    }
    return found;
  });
  return sources.map((bytes, cell) => bytes + targets[cell]);
}
