// @ts-check
// What a box of the picture represents: a node, an instance with all it holds, or a whole tier. Counterpart of
// export/layout/collapse.py.

/** @import { DrawnNetwork } from "./layout.js" */
/** How much of a system is drawn; of links at most `hot` as lines, 0: all. @typedef {{ level: "everything" | "hot" | "collapsed" | "aggregates", hot: number }} Detail */

/**
 * Parts that may be drawn as one box: copies of instances, or GPUs in a row of a very large one.
 * @typedef {object} Units
 * @property {Int32Array} of the unit of each node; -1 where the node is not used
 * @property {string[]} names by unit; units are in the order of their first rank, then of their names
 * @property {[first: number, last: number][]} ranks -1 where there is no GPU
 * @property {number[]} gpus
 */

const [HOT_FROM, COLLAPSED_FROM, AGGREGATES_FROM] = [32, 128, 1000];
const HOT = 40;
const MOST_IN_ONE = 64; // GPUs of one instance that is drawn as one box
const CHUNK = 32; // GPUs of a box where one instance holds more

/** How much is drawn of so many GPUs. @param {number} gpus @returns {Detail} */
export function detailOf(gpus) {
  if (gpus < HOT_FROM) return { level: "everything", hot: 0 };
  if (gpus < COLLAPSED_FROM) return { level: "hot", hot: HOT };
  return { level: gpus < AGGREGATES_FROM ? "collapsed" : "aggregates", hot: HOT };
}

/** Whether instances are drawn as one box each, or less. @param {Detail} detail */
export const isCollapsed = ({ level }) => level === "collapsed" || level === "aggregates";

/** Sort key of a name: numbers in it count as numbers. @param {string} name @returns {(string | number)[]} */
const natural = (name) => name.split(/(\d+)/).filter((part) => part).map((part) => (/^\d/.test(part) ? Number(part) : part));

/** @param {(string | number)[]} a @param {(string | number)[]} b */
function compareNatural(a, b) {
  for (let k = 0; k < Math.min(a.length, b.length); k += 1) {
    const [one, other] = [a[k], b[k]];
    if (one === other) continue;
    if (typeof one !== typeof other) return typeof one === "string" ? -1 : 1; // text is in front of numbers
    return one < other ? -1 : 1;
  }
  return a.length - b.length;
}

/**
 * Put things into the order of their ranks, and those without one into that of their names.
 * @template T
 * @param {T[]} things
 * @param {(thing: T) => number} rankOf Infinity: it has none
 * @param {(thing: T) => string} nameOf
 * @returns {T[]}
 */
export function inOrder(things, rankOf, nameOf) {
  const keyed = things.map((thing) => ({ thing, rank: rankOf(thing), name: natural(nameOf(thing)) }));
  keyed.sort((a, b) => (a.rank === b.rank ? compareNatural(a.name, b.name) : a.rank - b.rank));
  return keyed.map(({ thing }) => thing);
}

/**
 * Divide used nodes into units. Where they are `collapsed`, units are drawn as one box: then an instance of very many
 * GPUs is several.
 * @param {DrawnNetwork} network
 * @param {number[]} nodes in ascending order
 * @param {boolean} collapsed
 * @returns {Units}
 */
export function unitsOf({ nodes: names, instance, instanceName, gpus, rankOf }, nodes, collapsed) {
  /** @type {Map<number, number>} GPUs of each instance */
  const held = new Map();
  for (const node of gpus) held.set(instance[node], (held.get(instance[node]) ?? 0) + 1);
  const most = names.length;
  /** @type {Map<number, { first: number, gpus: number, size: number, low: number, high: number, part: boolean }>} */
  const found = new Map();
  /** @param {number} node */
  function keyOf(node) {
    const whole = instance[node] * 2 * most;
    if (!collapsed || (held.get(instance[node]) ?? 0) <= MOST_IN_ONE) return whole;
    // GPUs by the chunk, everything else of such an instance by itself.
    const rank = rankOf.get(node);
    return whole + (rank === undefined ? most + node : 1 + Math.floor(rank / CHUNK));
  }
  for (const node of nodes) {
    const [key, rank] = [keyOf(node), rankOf.get(node)];
    const unit = found.get(key) ?? { first: node, gpus: 0, size: 0, low: Infinity, high: -1, part: key % (2 * most) !== 0 };
    found.set(key, unit);
    unit.size += 1;
    if (rank === undefined) continue;
    unit.gpus += 1;
    unit.low = Math.min(unit.low, rank);
    unit.high = Math.max(unit.high, rank);
  }
  const named = [...found].sort(([a], [b]) => a - b).map(([key, unit]) => {
    const { first, part, size, low, high } = unit;
    return { key, ...unit, name: !part ? instanceName(first) : size > 1 ? `gpu[${low}-${high}]` : names[first] };
  });
  const order = inOrder(named, ({ low }) => low, ({ name }) => name);
  const place = new Map(order.map(({ key }, number) => [key, number]));
  const of = new Int32Array(most).fill(-1);
  for (const node of nodes) of[node] = /** @type {number} */ (place.get(keyOf(node)));
  return {
    of, names: order.map(({ name }) => name), gpus: order.map((unit) => unit.gpus),
    ranks: order.map(({ low, high }) => (high >= 0 ? [low, high] : [-1, -1])),
  };
}

/**
 * Used nodes that only forward between a NIC and one other node, and the NIC that represents each.
 * @param {DrawnNetwork} network
 * @param {number[]} nodes
 * @param {number[]} links
 * @returns {Map<number, number>}
 */
export function contracted({ kindOf, src, dst }, nodes, links) {
  /** @type {Map<number, Set<number>>} */
  const near = new Map(nodes.map((node) => [node, new Set()]));
  for (const link of links) {
    near.get(src[link])?.add(dst[link]);
    near.get(dst[link])?.add(src[link]);
  }
  /** @type {Map<number, number>} */
  const found = new Map();
  for (const [node, others] of near) {
    const nics = [...others].filter((other) => kindOf(other) === "nic");
    if (kindOf(node) === "custom" && others.size === 2 && nics.length === 1) found.set(node, nics[0]);
  }
  return found;
}
