// @ts-check
// The graph of a rank's operations around now, laid out from left to right: counterpart of widgets/views/graph.py.

import { int, optional } from "./options.js";
import { KINDS, STATES } from "./operations_about.js";
import { toEven } from "./sums.js";
import { str } from "./text.js";
import { formatTime } from "./units.js";

/** @import { About, OperationEngine, Times } from "./operations_types" */
/** @import { OperationFeed } from "./operations_feed.js" */
/** @import { Answers } from "./types" */

const MOST = 160;
const LABEL = 40;

/**
 * The operations of a rank that are nearest to what happens now. Those under way and ready come first (and `centre`,
 * where not -1), then their neighbours in the graph in both directions, nearest first, then the rest.
 * @param {OperationEngine} engine @param {number[]} rows of the rank @param {number} most @param {number} centre @param {Times} times
 */
function windowOf({ about, state }, rows, most, centre, times) {
  if (rows.length <= most) return rows;
  let seeds = rows.filter((row) => [1, 2].includes(state(row, times)));
  if (!seeds.length) { // before the start, or after the end
    const done = rows.filter((row) => state(row, times) === 3);
    seeds = done.length ? [done.reduce((last, row) => (times.end[row] > times.end[last] ? row : last))] : rows.slice(0, 1);
  }
  const chosen = new Set((centre >= 0 ? [centre, ...seeds] : seeds).slice(0, most));
  for (const row of chosen) { // grows while it is walked
    for (const one of [...about.parents_of(row), ...about.children_of(row)]) if (chosen.size < most) chosen.add(one);
  }
  return [...chosen].sort((a, b) => a - b);
}

/** The longest path from the left to each operation within the window, and the edges. @param {About} about @param {number[]} rows */
function depthsOf(about, rows) {
  const at = new Map(rows.map((row, number) => [row, number]));
  const parents = rows.map((row) => about.parents_of(row).flatMap((parent) => at.get(parent) ?? []));
  /** @type {number[][]} */
  const children = rows.map(() => []);
  parents.forEach((mine, number) => mine.forEach((parent) => children[parent].push(number)));
  const left = parents.map((mine) => mine.length);
  const depth = rows.map(() => 0);
  const ready = [...left.keys()].filter((number) => left[number] === 0);
  for (const number of ready) { // grows while it is walked
    for (const child of children[number]) {
      depth[child] = Math.max(depth[child], depth[number] + 1);
      left[child] -= 1;
      if (left[child] === 0) ready.push(child);
    }
  }
  return { depth, edges: parents.flatMap((mine, number) => mine.map((parent) => [parent, number])) };
}

/** A line for each operation, no two of a depth on the same one, near to those it waits for. @param {number[]} depth @param {number[][]} edges */
function linesOf(depth, edges) {
  /** @type {Map<number, number[]>} */
  const parents = new Map();
  for (const [parent, child] of edges) parents.set(child, [...(parents.get(child) ?? []), parent]);
  const line = depth.map(() => 0);
  /** @type {Map<number, Set<number>>} */
  const taken = new Map();
  for (const number of [...depth.keys()].sort((a, b) => depth[a] - depth[b] || a - b)) {
    const mine = parents.get(number) ?? [];
    const wish = mine.length ? toEven(mine.reduce((all, parent) => all + line[parent], 0) / mine.length) : 0;
    const used = taken.get(depth[number]) ?? new Set();
    taken.set(depth[number], used);
    let step = 0;
    while (used.has(wish + step) && (wish < step || used.has(wish - step))) step += 1;
    line[number] = used.has(wish + step) ? wish - step : wish + step;
    used.add(line[number]);
  }
  return line;
}

/** @type {Answers<OperationFeed>} */
export const graphs = {
  /** The operations of a rank around the cursor. */
  graph(feed, options) {
    const engine = feed.engineAt(options.at_ps);
    const { about } = engine;
    const rank = Math.min(Math.max(0, int(optional(options, "rank", 0))), engine.ranks - 1);
    const most = Math.max(8, Math.min(MOST, int(optional(options, "most", MOST))));
    const [mine, times] = [about.rows_of(rank), engine.times_ps()];
    const [path, head] = [str(optional(options, "path", "")), `rank[${rank}].op[`];
    const which = path.startsWith(head) ? path.slice(head.length).replace(/\]$/, "") : "";
    const centre = /^\d+$/.test(which) && Number(which) < mine.length ? mine[Number(which)] : -1;
    const rows = windowOf(engine, mine, most, centre, times);
    const { depth, edges } = depthsOf(about, rows);
    const line = linesOf(depth, edges);
    const nodes = rows.map((row, number) => {
      const [start, end] = [times.start[row], times.end[row]];
      const [over, chunks] = engine.progress(row);
      let when = end >= 0 ? `${formatTime(start)} to ${formatTime(end)}` : "";
      if (end < 0 && start >= 0) when = `since ${formatTime(start)}${chunks ? `, ${over} of ${chunks} chunks` : ""}`;
      return {
        path: about.path(row), label: Array.from(about.label(row)).slice(0, LABEL).join(""), what: about.text(row),
        kind: KINDS[about.kind[row]], state: STATES[engine.state(row, times)], when, x: depth[number], y: line[number],
      };
    });
    const counts = STATES.map(() => 0);
    for (const row of mine) counts[engine.state(row, times)] += 1;
    return [{ rank, nodes, edges, counts: Object.fromEntries(STATES.map((word, state) => [word, counts[state]])), hidden: mine.length - rows.length }, []];
  },
};
