// @ts-check
// Rings, lines, grids and full meshes, recognised from who is joined with whom: counterpart of export/layout/shapes.py.

const TRIES_AN_ITEM = 60; // a grid is found with hardly any wrong turn; what takes more is no grid

/**
 * @typedef {object} GraphShape
 * @property {"line" | "ring" | "grid" | "full" | "none"} kind
 * @property {number[]} order along a line or around a ring, or row by row, plane by plane
 * @property {number} rows
 * @property {number} columns
 * @property {number} planes
 * @property {[planes: boolean, rows: boolean, columns: boolean]} wraps
 */
/** @typedef {Set<number>[]} Adjacency */

/** @param {GraphShape["kind"]} kind @param {number[]} order @param {Partial<GraphShape>} [more] @returns {GraphShape} */
const shape = (kind, order, more) => ({ kind, order, rows: 1, columns: 1, planes: 1, wraps: [false, false, false], ...more });

/** So many numbers from 0 on. @param {number} count */
const upTo = (count) => Array.from({ length: count }, (_, k) => k);

/** What no shape fits. @param {number} count of items */
export const shapeless = (count) => shape("none", upTo(count));

/** A name for people: `4 x 4 torus`. @param {GraphShape} shape */
export function titleOf({ kind, order, planes, rows, columns, wraps }) {
  if (kind !== "grid") {
    const name = { line: "line", ring: "ring", full: "full mesh", none: "" }[kind];
    return name && `${name} of ${order.length}`;
  }
  const sides = planes > 1 ? [planes, rows, columns] : [rows, columns];
  const loops = wraps.filter(Boolean).length;
  return `${sides.join(" x ")} ${!loops ? "mesh" : loops === sides.length ? "torus" : "cylinder"}`;
}

/**
 * Recognise the shape of an undirected graph.
 * @param {Adjacency} adjacency neighbours of each item, by number
 * @returns {GraphShape}
 */
export function shapeOf(adjacency) {
  const graph = adjacency.map((near, item) => new Set([...near].filter((other) => other !== item)));
  const n = graph.length;
  const degrees = graph.map((near) => near.size).sort((a, b) => a - b);
  const [least, most] = [degrees[0], degrees[n - 1]];
  if (n < 2 || !isConnected(graph)) return shapeless(n);
  if (most <= 2) return chain(graph);
  if (least === n - 1) return shape("full", upTo(n));
  if (most > 6 || least < 2) return shapeless(n);
  if (most > 4) return solid(graph) ?? shapeless(n);
  for (const [[rows, columns], wraps] of wrapped(n, total(degrees) / 2, flatSizes(n))) {
    const cells = fit(graph, rows, columns, wraps);
    if (cells) return shape("grid", cells, { rows, columns, wraps: [false, wraps[0], wraps[1]] });
  }
  return solid(graph) ?? shapeless(n);
}

/** @param {number[]} numbers */
const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

/** A grid of three dimensions whose items are numbered row by row and plane by plane. @param {Adjacency} graph */
function solid(graph) {
  const n = graph.length;
  const sides = upTo(n).slice(2).filter((side) => n % side === 0);
  const sizes = sides.flatMap((p) => sides.filter((r) => n % (p * r) === 0 && n / (p * r) > 1).map((r) => [p, r, n / (p * r)]));
  for (const [size, wraps] of wrapped(n, total(graph.map((near) => near.size)) / 2, sizes)) {
    if (!graph.every((near, item) => isSame(near, around(item, size, wraps)))) continue;
    const [planes, rows, columns] = size;
    return shape("grid", upTo(n), { planes, rows, columns, wraps: [wraps[0], wraps[1], wraps[2]] });
  }
  return null;
}

/** Rows and columns of grids of so many items, the squarest first, wide before tall. @param {number} n */
function flatSizes(n) {
  const sides = upTo(Math.floor(n / 2) + 1).slice(2).filter((side) => n % side === 0);
  sides.sort((a, b) => Math.abs(n / a - a) - Math.abs(n / b - b) || a - b);
  return sides.map((rows) => [rows, n / rows]);
}

/**
 * Sizes of grids of so many items and edges, and along which sides they wrap.
 * @param {number} n
 * @param {number} edges
 * @param {number[][]} sizes
 * @returns {Iterable<[size: number[], wraps: boolean[]]>}
 */
function* wrapped(n, edges, sizes) {
  for (const size of sizes) {
    for (let bits = 0; bits < 2 ** size.length; bits += 1) {
      const wraps = size.map((_, k) => Boolean((bits >> (size.length - 1 - k)) & 1));
      // A wrap of two would join the same pair again.
      if (size.some((side, k) => wraps[k] && side < 3)) continue;
      if (edges === total(size.map((side, k) => (n / side) * (side - Number(!wraps[k]))))) yield [size, wraps];
    }
  }
}

/** The items next to one in a grid that is numbered with its last side first. @param {number} item @param {number[]} size @param {boolean[]} wraps */
function around(item, size, wraps) {
  /** @type {Set<number>} */
  const found = new Set();
  let step = 1;
  for (let k = size.length - 1; k >= 0; k -= 1) {
    const side = size[k];
    const here = Math.floor(item / step) % side;
    for (const there of [here - 1, here + 1]) {
      if (wraps[k] || (there >= 0 && there < side)) found.add(item + (((there + side) % side) - here) * step);
    }
    step *= side;
  }
  return found;
}

/** @param {Adjacency} graph */
function isConnected(graph) {
  const seen = new Set([0]);
  for (const item of seen) for (const other of graph[item]) seen.add(other); // grows while it is walked
  return seen.size === graph.length;
}

/** A connected graph of degree two at most is a line or a ring. @param {Adjacency} graph */
function chain(graph) {
  const end = graph.findIndex((near) => near.size === 1);
  const order = [Math.max(0, end)];
  while (order.length < graph.length) {
    const [before, here] = [order[order.length - 2], order[order.length - 1]];
    order.push(Math.min(...[...graph[here]].filter((other) => other !== before)));
  }
  return shape(end >= 0 ? "line" : "ring", order, { columns: graph.length });
}

/**
 * The item in each cell, row by row, where the graph is exactly this grid. Cells are filled by diagonals, so that all
 * but those of the first row and column follow from two that are filled already.
 * @param {Adjacency} graph
 * @param {number} rows
 * @param {number} columns
 * @param {boolean[]} wraps
 */
function fit(graph, rows, columns, wraps) {
  const cells = upTo(rows + columns - 1).flatMap((d) => upTo(columns).filter((c) => d - c >= 0 && d - c < rows).map((c) => (d - c) * columns + c));
  const near = new Map(cells.map((cell) => [cell, around(cell, [rows, columns], wraps)]));
  /** @param {number} cell */
  const nextTo = (cell) => /** @type {Set<number>} */ (near.get(cell));
  // Most documents number the items row by row: then they stay so.
  if (cells.every((cell) => isSame(graph[cell], nextTo(cell)))) return upTo(graph.length);
  const place = new Map(cells.map((cell, number) => [cell, number]));
  /** @param {number} cell */
  const placeOf = (cell) => /** @type {number} */ (place.get(cell));
  const before = cells.map((cell) => [...nextTo(cell)].map(placeOf).filter((other) => other < placeOf(cell)));
  const degree = cells.map((cell) => nextTo(cell).size);
  const first = graph.findIndex((others) => others.size === degree[0]);
  if (first < 0) return null;
  const filled = [first];
  const used = new Set(filled);
  /** @type {number[][]} what may be in each place still */
  const choices = [[]];
  let tries = TRIES_AN_ITEM * graph.length;
  /** @param {number} number @returns {number[]} joined with exactly those filled cells that the grid joins it with */
  function fitting(number) {
    const taken = new Set(before[number].map((other) => filled[other]));
    const [one, ...others] = [...taken].map((item) => graph[item]);
    const common = [...one].filter((item) => !used.has(item) && others.every((set) => set.has(item)));
    const fits = common.filter((item) => graph[item].size === degree[number] && isSame(new Set([...graph[item]].filter((other) => used.has(other))), taken));
    return fits.sort((a, b) => a - b);
  }
  while (filled.length < cells.length) {
    if (choices.length === filled.length) choices.push(fitting(filled.length));
    const item = choices[choices.length - 1].shift();
    tries -= 1;
    if (tries < 0) return null;
    if (item !== undefined) {
      filled.push(item);
      used.add(item);
      continue;
    }
    choices.pop();
    if (filled.length === 1) return null;
    used.delete(/** @type {number} */ (filled.pop()));
  }
  const byCell = new Map(cells.map((cell, number) => [cell, filled[number]]));
  /** @param {number} cell */
  const at = (cell) => /** @type {number} */ (byCell.get(cell));
  if (cells.some((cell) => !isSame(graph[at(cell)], new Set([...nextTo(cell)].map(at))))) return null;
  return upTo(cells.length).map(at);
}

/** @param {Set<number>} a @param {Set<number>} b */
const isSame = (a, b) => a.size === b.size && [...a].every((one) => b.has(one));
