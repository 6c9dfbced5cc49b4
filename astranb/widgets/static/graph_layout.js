// @ts-check
// The graph of a rank's operations around a moment, laid out from left to right, as a page that simulates answers.

import { toEven } from "./numpy.js";

/** @import { GraphNode, Pair, Sent } from "./types" */
/**
 * What a graph is of, at a moment.
 * @typedef {object} Graphed
 * @property {number[]} rows the operations of a rank, ascending
 * @property {(row: number) => number[]} parents what an operation waits for
 * @property {(row: number) => number[]} children
 * @property {(row: number) => number} state the number of its word
 * @property {(row: number) => number} end ps, where it has ended
 * @property {(row: number, state: number) => Omit<GraphNode, "state" | "x" | "y">} node
 */

const MOST = 160; // operations
const LABEL = 40; // characters
export const [WAITING, READY, RUNNING, DONE] = Array(4).keys(); // states

/**
 * For each row in which lists it is: the reverse of lists that lie behind one another.
 * @param {ArrayLike<number>} first
 * @param {ArrayLike<number>} lists
 */
export function reversed(first, lists) {
  const starts = new Int32Array(first.length);
  for (let at = 0; at < lists.length; at++) starts[lists[at] + 1] += 1;
  for (let row = 1; row < starts.length; row++) starts[row] += starts[row - 1];
  const found = new Int32Array(lists.length);
  const next = starts.slice();
  for (let row = 0; row + 1 < first.length; row++) {
    for (let at = first[row]; at < first[row + 1]; at++) found[next[lists[at]]++] = row;
  }
  return { first: starts, lists: found };
}

/**
 * The operations that are nearest to what happens now. Those under way and ready come first (and `centre`, where not -1),
 * then their neighbours in the graph in both directions, nearest first, then the rest.
 * @param {Graphed} graphed @param {number} most @param {number} centre
 */
function nearest({ rows, parents, children, state, end }, most, centre) {
  if (rows.length <= most) return rows;
  let seeds = rows.filter((row) => [READY, RUNNING].includes(state(row)));
  if (!seeds.length) { // before the start, or after the end
    const done = rows.filter((row) => state(row) === DONE);
    seeds = done.length ? [done.reduce((last, row) => (end(row) > end(last) ? row : last))] : rows.slice(0, 1);
  }
  const chosen = new Set((centre >= 0 ? [centre, ...seeds] : seeds).slice(0, most));
  for (const row of chosen) { // grows while it is walked
    for (const one of [...parents(row), ...children(row)]) if (chosen.size < most) chosen.add(one);
  }
  return [...chosen].sort((a, b) => a - b);
}

/** The longest path from the left to each operation within the window, and the edges. @param {Graphed} graphed @param {number[]} rows */
function depthsOf(graphed, rows) {
  const at = new Map(rows.map((row, number) => [row, number]));
  const parents = rows.map((row) => graphed.parents(row).flatMap((parent) => at.get(parent) ?? []));
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
  const edges = parents.flatMap((mine, number) => mine.map((parent) => /** @type {Pair} */ ([parent, number])));
  return { depth, edges };
}

/** A line for each operation, no two of a depth on the same one, near to those it waits for. @param {number[]} depth @param {Pair[]} edges */
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

/**
 * The answer about a rank.
 * @param {number} rank
 * @param {Graphed} graphed
 * @param {string[]} states words
 * @param {{ most?: number, centre?: number }} [settings] how many operations, and one that is shown in any case
 * @returns {Sent}
 */
export function graphAnswer(rank, graphed, states, { most = MOST, centre = -1 } = {}) {
  const rows = nearest(graphed, Math.max(8, Math.min(MOST, most)), centre);
  const { depth, edges } = depthsOf(graphed, rows);
  const line = linesOf(depth, edges);
  const nodes = rows.map((row, number) => {
    const state = graphed.state(row);
    const { label, ...node } = graphed.node(row, state);
    return { ...node, label: Array.from(label).slice(0, LABEL).join(""), state: states[state], x: depth[number], y: line[number] };
  });
  const counts = Object.fromEntries(states.map((word) => [word, 0]));
  for (const row of graphed.rows) counts[states[graphed.state(row)]] += 1;
  return [{ rank, nodes, edges, counts, hidden: graphed.rows.length - rows.length }, []];
}
