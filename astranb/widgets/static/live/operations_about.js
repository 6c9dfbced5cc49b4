// @ts-check
// What does not change in a run of operations: counterpart of engine/operations/about.py and parts.py.

import { reversed } from "../graph_layout.js";
import { unpack } from "../messages.js";
import { searchSorted } from "../numpy.js";
import { formatBytes } from "./units.js";

/** @import { About, Footprint, Numbers, Parts } from "./operations_types" */
/** @import { Live } from "./types" */

export const KINDS = ["compute", "collective", "send", "receive", "memory", "broadcast", "delay"];
export const [COMPUTE, COLLECTIVE, SEND, RECV, MEMORY, REPLAY, DELAY] = KINDS.keys();
export const STATES = ["waiting", "ready", "running", "done"];
export const ALGORITHMS = ["ring", "direct", "halvingDoubling", "doubleBinaryTree", "custom", "inNetwork", "rooted"];
const NO_LABEL = { name: "", collective: "", algorithm: "", job: "" };

/**
 * Columns of numbers by name, see widgets/live/operations.py.
 * @param {Record<string, [column: number, type: "i4" | "f8"]>} given
 * @param {Uint8Array[]} columns
 * @returns {Record<string, Numbers>}
 */
export function numbersOf(given, columns) {
  return Object.fromEntries(
    Object.entries(given).map(([name, [column, type]]) => {
      const { buffer } = columns[column].slice();
      return [name, type === "i4" ? new Int32Array(buffer) : new Float64Array(buffer)];
    }),
  );
}

/** @param {Uint8Array} bytes */
const viewOf = ({ buffer, byteOffset, byteLength }) => new DataView(buffer, byteOffset, byteLength);

/** @param {any} given @param {Uint8Array[]} columns @returns {Parts | null} */
function partsOf(given, columns) {
  if (given === null) return null;
  const { own, labels, ...rest } = given;
  const found = /** @type {Parts} */ (/** @type {object} */ ({ own, labels, ...numbersOf(rest, columns) }));
  const { first, shows, owner, label } = found;
  const hidden = new Uint8Array(own + shows.length);
  shows.forEach((row, at) => void (hidden[own + at] = Number(row !== own + at)));
  owner.forEach((row) => void (hidden[row] = 1));
  /** @param {number} row */
  const at = (row) => {
    const place = searchSorted(first, row);
    return place < first.length && first[place] === row ? place : -1;
  };
  /** @param {number} row */
  const shown = (row) => (row < own ? row : shows[row - own]);
  return {
    ...found, hidden, at, shown,
    of: (row) => (at(shown(row)) >= 0 ? labels[label[at(shown(row))]] : NO_LABEL),
  };
}

/** @param {any} given @param {Uint8Array[]} columns @returns {Footprint | null} */
function footprintOf(given, columns) {
  if (given === null) return null;
  const { axes, used, width, fullest, ...rest } = given;
  return /** @type {Footprint} */ (/** @type {object} */ ({ axes, used, width, fullest, ...numbersOf(rest, columns) }));
}

/** The modules of ranks, see widgets/live/operations.py. @param {any[]} given @param {Uint8Array[]} columns @returns {About["trees"]} */
const treesOf = (given, columns) =>
  given.map(({ buffers, ...tree }) => {
    const named = Object.entries(/** @type {Record<string, number[]>} */ (buffers)).map(([name, numbers]) => [name, numbers.map((one) => viewOf(columns[one]))]);
    return { ...tree, buffers: Object.fromEntries(named) };
  });

/** @param {Live} live @param {Uint8Array[]} columns @returns {About} */
export function createAbout({ about: given }, columns) {
  const { names, topology, network, own, boxes, absent, links } = given;
  const { drawn, kind_of } = numbersOf(given.picture, columns);
  const link_ends = numbersOf(given.link_ends, columns);
  const buffers = given.scene.buffers.map((/** @type {number} */ number) => viewOf(columns[number]));
  const { npu, kind, collective, size, name, first, parents } = numbersOf(given.operations, columns);
  const parts = partsOf(given.parts, columns);
  const ranks = Array.from(npu).reduce((most, one) => Math.max(most, one), -1) + 1;
  const starts = (/** @type {ArrayLike<number>} */ of) => Int32Array.from({ length: ranks + 1 }, (_, rank) => searchSorted(of, rank));
  const start = starts(npu.subarray(0, own));
  const partStart = parts ? starts(Int32Array.from(parts.first, (row) => npu[row])) : new Int32Array(ranks + 1);
  const before = new Int32Array(own + 1); // how many of the ranks' own operations are shown before each
  for (let row = 0; row < own; row++) before[row + 1] = before[row] + (parts?.hidden[row] ? 0 : 1);
  /** @type {ReturnType<typeof reversed> | null} */
  let children = null;
  /** @param {number} row @param {Numbers} begins @param {Numbers} lists */
  function around(row, begins, lists) {
    const at = parts ? parts.at(row) : -1;
    if (!parts || at < 0) return Array.from(lists.subarray(begins[row], begins[row + 1]));
    const all = lists.subarray(begins[row], begins[parts.until[at]]);
    return [...new Set(Array.from(all, parts.shown))].sort((a, b) => a - b).filter((one) => one !== row);
  }
  /** @type {About} */
  const about = {
    npu, kind, collective, size, name, names, topology, network, own, parts, start, boxes, absent, links, drawn, kind_of,
    scene: [given.scene.message, buffers], bundles: given.scene.message.bundles.length, link_ends,
    bundle_of: unpack("scene", buffers).bundle_of,
    footprint: footprintOf(given.footprint, columns),
    trees: treesOf(given.trees, columns), tree_of: given.tree_of,
    rows_of(rank) {
      const rows = Array.from({ length: start[rank + 1] - start[rank] }, (_, at) => start[rank] + at);
      if (!parts) return rows;
      return [...rows.filter((row) => !parts.hidden[row]), ...parts.first.subarray(partStart[rank], partStart[rank + 1])];
    },
    leaves_of(rank) {
      const rows = Array.from({ length: start[rank + 1] - start[rank] }, (_, at) => start[rank] + at);
      if (!parts) return rows;
      const [from, to] = [partStart[rank], partStart[rank + 1]];
      const inner = from < to ? Array.from({ length: parts.until[to - 1] - parts.first[from] }, (_, at) => parts.first[from] + at) : [];
      return [...rows.filter((row) => !parts.hidden[row]), ...inner];
    },
    waited_for: (row) => parents.subarray(first[row], first[row + 1]),
    parents_of: (row) => around(row, first, parents),
    children_of(row) {
      children ??= reversed(first, parents);
      return around(row, children.first, children.lists);
    },
    number(row) {
      const rank = npu[row];
      if (!parts) return row < own ? row - start[rank] : row;
      if (row < own) return before[row] - before[start[rank]];
      const place = searchSorted(parts.first, parts.shown(row), true) - 1;
      return before[start[rank + 1]] - before[start[rank]] + place - partStart[rank];
    },
    label: (row) => names[name[row]] || about.what(row),
    label_of: (row) => (parts ? parts.of(row) : NO_LABEL),
    what: (row) => about.label_of(row).collective || (kind[row] === COLLECTIVE ? given.collectives[collective[row]] : KINDS[kind[row]]),
    text(row) {
      const label = about.label(row);
      if (parts && row < own && parts.hidden[row]) return label; // a replay: what it does are its parts
      const what = about.what(row);
      const bytes = size[row] && kind[row] ? `, ${formatBytes(size[row])}` : "";
      return label !== what ? `${label} (${what}${bytes})` : `${what}${bytes}`;
    },
    path: (row) => `rank[${npu[row]}].op[${about.number(row)}]`,
  };
  return about;
}
