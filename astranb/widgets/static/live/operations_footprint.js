// @ts-check
// What a rank holds in memory over time: counterpart of widgets/views/footprint.py and engine/operations/footprint.py.

import { pack } from "../messages.js";
import { InputError } from "./errors.js";
import { windowOf } from "./lines_timeline.js";
import { int, optional } from "./options.js";
import { searchSorted } from "./operations_about.js";

/** @import { Footprint, OperationEngine } from "./operations_types" */
/** @import { OperationFeed } from "./operations_feed.js" */
/** @import { Answers } from "./types" */

/** @typedef {{ times: number[], held: number[][] }} Held times, and from each on the bytes by parts that any rank ever holds */

/** What a rank has held so far; changes at one time are one. @param {OperationEngine} engine @param {Footprint} found @param {number} rank @returns {Held} */
function heldBy({ about, times_ps }, { used, width, ...found }, rank) {
  const [number, base] = [found.table[rank], about.start[rank]];
  const { start, end } = times_ps();
  /** @type {{ time: number, row: number }[]} */
  const changes = [];
  for (let row = found.first[number]; row < found.first[number + 1]; row++) {
    const time = (found.at_end[row] ? end : start)[base + found.operation[row]];
    if (time >= 0) changes.push({ time, row });
  }
  /** @type {Held} */
  const all = { times: [0], held: [used.map((part) => found.held[number * width + part])] };
  for (const { time, row } of changes.sort((a, b) => a.time - b.time)) {
    const last = all.held.length - 1;
    const bytes = all.held[last].map((one, at) => one + found.change[row * width + used[at]]);
    if (all.times[last] === time) all.held[last] = bytes;
    else {
      all.times.push(time);
      all.held.push(bytes);
    }
  }
  const kept = [...all.times.keys()].filter((at) => !at || all.held[at].some((one, part) => one !== all.held[at - 1][part]));
  return { times: kept.map((at) => all.times[at]), held: kept.map((at) => all.held[at]) };
}

/** @param {number[]} bytes */
const sum = (bytes) => bytes.reduce((all, one) => all + one, 0);

/** The first of some moments at which most is held. @param {number[][]} held @param {number} from @param {number} to */
function fullest(held, from, to) {
  let most = from;
  for (let at = from + 1; at < to; at++) if (sum(held[at]) > sum(held[most])) most = at;
  return most;
}

/** @type {Answers<OperationFeed>} */
export const memories = {
  /** What a rank holds in a window of time. */
  footprint(feed, options) {
    const engine = feed.engineAt();
    const { footprint: found, absent } = engine.about;
    const { start, end, edges } = windowOf(options);
    const now_ps = feed.sim.now_ps();
    const about = { from: start, to: end, columns: edges.length - 1, now_ps };
    if (!found) return [{ ...about, exact: true, absent: absent.memory, chart: null }, pack("footprint", {})];
    const asked = optional(options, "rank", null);
    const rank = asked === null ? found.fullest : int(asked);
    if (rank < 0 || rank >= engine.ranks) throw new InputError(`no such rank ${rank}`, { where: "memory", hint: `0 to ${engine.ranks - 1}` });
    const { times, held } = feed.found(`held ${rank}`, () => heldBy(engine, found, rank));
    /** The last change up to a time. @param {number} at */
    const row = (at) => Math.max(0, searchSorted(times, at, true) - 1);
    const given = optional(options, "at_ps", null);
    const peak = fullest(held, 0, held.length);
    const chart = {
      ...found.axes[found.table[rank]], rank, at: held[row(given === null ? now_ps : int(given))], peak_ps: times[peak], peak: held[peak],
    };
    const [from, to] = [row(start), searchSorted(times, end)];
    const exact = to - from < edges.length;
    /** @type {[time: number, bytes: number[]][]} */
    let shown = Array.from({ length: Math.max(0, to - from) }, (_, at) => [times[from + at], held[from + at]]);
    if (!exact) {
      const columns = searchSorted(edges, now_ps, true);
      shown = Array.from({ length: Math.max(0, Math.min(columns, edges.length - 1)) }, (_, at) => {
        const first = row(edges[at]);
        return [edges[at], held[fullest(held, first, Math.max(first + 1, searchSorted(times, edges[at + 1])))]];
      });
    }
    const bytes = held[0].flatMap((_, part) => shown.map(([, one]) => one[part]));
    return [{ ...about, exact, absent: "", chart }, pack("footprint", { time: shown.map(([time]) => time), held: bytes })];
  },
};
