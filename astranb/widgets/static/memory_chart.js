// @ts-check
// What a rank holds in memory over time, as a page that simulates answers.

import { pack } from "./messages.js";
import { searchSorted, sum } from "./numpy.js";

/** @import { MemoryAxis, Sent } from "./types" */
/** @typedef {{ times: number[], held: number[][] }} Held times, and from each on the bytes by parts */

/** What is held after changes; those at one time are one. @param {number[]} before @param {{ time: number, bytes: number[] }[]} changes @returns {Held} */
export function heldAfter(before, changes) {
  const [times, held] = [[0], [before]];
  for (const { time, bytes } of [...changes].sort((a, b) => a.time - b.time)) {
    const last = times.length - 1;
    const after = held[last].map((one, part) => one + bytes[part]);
    if (times[last] === time) held[last] = after;
    else {
      times.push(time);
      held.push(after);
    }
  }
  const kept = [...times.keys()].filter((at) => !at || held[at].some((one, part) => one !== held[at - 1][part]));
  return { times: kept.map((at) => times[at]), held: kept.map((at) => held[at]) };
}

/** The first of some moments at which most is held. @param {number[][]} held @param {number} from @param {number} to */
function fullestOf(held, from, to) {
  let most = from;
  for (let at = from + 1; at < to; at++) if (sum(held[at]) > sum(held[most])) most = at;
  return most;
}

/**
 * The answer about a window: every change, or of more than there are columns the fullest moment of each.
 * @param {MemoryAxis} axis
 * @param {number} rank
 * @param {Held} found
 * @param {{ at_ps: number, now_ps: number, edges: Float64Array }} when the cursor, and the moments between columns
 * @returns {Sent}
 */
export function memoryAnswer(axis, rank, { times, held }, { at_ps, now_ps, edges }) {
  /** The last change up to a time. @param {number} at */
  const row = (at) => Math.max(0, searchSorted(times, at, true) - 1);
  const columns = edges.length - 1;
  const [start, end] = [edges[0], edges[columns]];
  const peak = fullestOf(held, 0, held.length);
  const chart = { ...axis, rank, at: held[row(at_ps)], peak_ps: times[peak], peak: held[peak] };
  const [first, last] = [row(start), searchSorted(times, end)];
  const exact = last - first < edges.length;
  const begun = Math.max(0, Math.min(columns, searchSorted(edges, now_ps, true)));
  /** @type {[time: number, bytes: number[]][]} */
  const shown = exact
    ? times.slice(first, Math.max(first, last)).map((time, at) => [time, held[first + at]])
    : Array.from({ length: begun }, (_, at) => {
        const from = row(edges[at]);
        return [edges[at], held[fullestOf(held, from, Math.max(from + 1, searchSorted(times, edges[at + 1])))]];
      });
  const bytes = axis.parts.flatMap((_, part) => shown.map(([, one]) => one[part]));
  return [{ from: start, to: end, columns, now_ps, exact, absent: "", chart }, pack("footprint", { time: shown.map(([time]) => time), held: bytes })];
}

/** The answer where nothing is known of memory, and why. @param {string} absent @param {number} now_ps @param {Float64Array} edges @returns {Sent} */
export function memoryUnknown(absent, now_ps, edges) {
  const columns = edges.length - 1;
  return [{ from: edges[0], to: edges[columns], columns, now_ps, exact: true, absent, chart: null }, pack("footprint", {})];
}
