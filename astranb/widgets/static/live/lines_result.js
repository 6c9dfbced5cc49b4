// @ts-check
// Results of a run by cache lines: the parts of engine/cacheline/result.py and sim/result.py that views in a page need.

import { fabricOf, partition } from "./fabric.js";
import { DRAINING, MOVING, WAITING } from "./gpu_numbers.js";
import { queuedPs } from "./lines_faults.js";
import { runTime } from "./lines_times.js";
import { formatBandwidth } from "./units.js";

/** @import { Engine } from "./types" */
/** What a run could not have been faster than. @typedef {{ name: string, path: string, alone_ps: number }} Bound */

/** The class of time of each state that a thread block's times are counted in. */
const CLASSES = { moving: "issue or data", waiting: "semaphore", draining: "fence", signalling: "signal" };
const UNDER_WAY = { [MOVING]: "moving", [WAITING]: "waiting", [DRAINING]: "draining" };
const STARTED_LATE = "started late";

/** @typedef {"moving" | "waiting" | "draining" | "signalling" | "idle"} PartOfTime */

/**
 * For each rank, how long its thread blocks were in each state, and idle, on average, in ps.
 * @param {Engine} engine
 * @returns {Record<PartOfTime, number>[]}
 */
export function partsOf(engine) {
  const { blocks, gpus } = engine.tables;
  const [now, total] = [engine.now_ps(), runTime(engine)];
  const counts = Array(gpus.rows).fill(0);
  const rows = counts.map(() => ({ moving: 0, waiting: 0, draining: 0, signalling: 0 }));
  const names = /** @type {(keyof typeof CLASSES)[]} */ (Object.keys(CLASSES));
  for (let block = 0; block < blocks.rows; block++) {
    const rank = blocks.at.gpu(block);
    counts[rank] += 1;
    for (const name of names) rows[rank][name] += blocks.at[`${name}_ps`](block);
    const state = UNDER_WAY[blocks.at.state(block)];
    if (state) rows[rank][/** @type {keyof typeof CLASSES} */ (state)] += now - blocks.at.since_ps(block);
  }
  return rows.map((spent, rank) => {
    for (const name of names) spent[name] = Math.floor(spent[name] / Math.max(1, counts[rank]));
    return { ...spent, idle: Math.max(0, total - names.reduce((sum, name) => sum + spent[name], 0)) };
  });
}

/** Fractions of all thread blocks' time, by what they did; they add up to 1. @param {Engine} engine @returns {[name: string, part: number][]} */
export function breakdown(engine) {
  const rows = partsOf(engine);
  const named = Object.entries({ ...CLASSES, idle: "idle" });
  /** @type {Map<string, number>} */
  const sums = new Map(named.map(([part, name]) => [name, rows.reduce((sum, row) => sum + row[/** @type {PartOfTime} */ (part)], 0)]));
  const total = Math.max(1, [...sums.values()].reduce((sum, value) => sum + value, 0));
  const late = engine.live.about.late_ps;
  if (late.some((/** @type {number} */ ps) => ps)) { // a part of the idle time that has a name of its own
    const time = runTime(engine);
    const latePs = late.reduce((/** @type {number} */ sum, /** @type {number} */ ps) => sum + Math.min(ps, time), 0);
    sums.set("idle", (sums.get("idle") ?? 0) - latePs);
    sums.set(STARTED_LATE, latePs);
  }
  return [...sums].map(([name, value]) => [name, value / total]);
}

/** The busiest GPU port: the run could not have been faster than its bytes take; null: nothing was carried. @param {Engine} engine @returns {Bound | null} */
export function bound(engine) {
  const fabric = fabricOf(engine);
  const { at } = engine.tables.links;
  /** @type {Bound | null} */
  let found = null;
  let longest = 0;
  const directions = [{ ends: fabric.src, direction: "out of" }, { ends: fabric.dst, direction: "into" }].map(({ ends, direction }) => {
    const [rates, bytes] = [new Map(), new Map()]; // of links that carried anything, by the node
    for (let link = 0; link < fabric.links; link++) {
      if (!at.messages(link)) continue;
      rates.set(ends[link], (rates.get(ends[link]) ?? 0) + at.bandwidth_Bps(link));
      bytes.set(ends[link], (bytes.get(ends[link]) ?? 0) + at.bytes(link));
    }
    return { rates, bytes, direction };
  });
  fabric.gpus.forEach((node, rank) => {
    for (const { rates, bytes, direction } of directions) {
      const need = rates.has(node) ? (bytes.get(node) / rates.get(node)) * 1e12 : 0;
      if (need <= longest) continue;
      longest = need;
      found = { name: `${direction} GPU${rank} (${formatBandwidth(rates.get(node))})`, path: `gpu[${rank}]`, alone_ps: Math.trunc(need) };
    }
  });
  return found;
}

/** Algorithm and bus bandwidth in bytes a second; null: not known. @param {Engine} engine */
export function bandwidths(engine) {
  const { size, bus_factor } = engine.live.about.work;
  const time = runTime(engine);
  const algbw = size === null || !engine.finished() || !time ? null : (size * 1e12) / time;
  return { algbw, busbw: algbw === null || bus_factor === null ? null : algbw * bus_factor };
}

/**
 * What links carried and how busy they were, all lanes of a link together; only those that carried anything.
 * @param {Engine} engine
 */
export function linksUsed(engine) {
  const fabric = fabricOf(engine);
  const { at } = engine.tables.links;
  const queued = queuedPs(engine.tables, engine.now_ps());
  /** @type {Map<string, { bytes: number, busy_ps: number, queued_ps: number, lanes: number }>} */
  const found = new Map();
  for (let link = 0; link < fabric.links; link++) {
    const [name] = partition(fabric.name(link), "#");
    const kept = found.get(name) ?? { bytes: 0, busy_ps: 0, queued_ps: 0, lanes: 0 };
    found.set(name, kept);
    kept.bytes += at.bytes(link);
    kept.busy_ps += at.busy_ps(link);
    kept.queued_ps += queued[link];
    kept.lanes += 1;
  }
  const used = [...found].filter(([, { bytes }]) => bytes);
  for (const [, row] of used) row.busy_ps = Math.floor(row.busy_ps / row.lanes);
  return used;
}
