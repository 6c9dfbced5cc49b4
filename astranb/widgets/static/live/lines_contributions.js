// @ts-check
// Whose contributions are in which chunk of which rank: counterpart of engine/cacheline/contributions.py.

import { InputError, near } from "./errors.js";
import { createContents, kept, MIXED, NOTHING, promised } from "./lines_contents.js";
import { repr } from "./text.js";

/** @import { Sim, Table } from "./types" */

export const BUFFERS = ["input", "output", "scratch", "packets"];
const OUTPUT = BUFFERS.indexOf("output");
const MOST_NAMED = 8; // ranks in a sum that are named one by one
const [FIRST_CALLED, FIRST_SENT, FIRST_SLOT] = [2 ** 23, 2 ** 24, 2 ** 25]; // collectives/language/fifo.py

/**
 * @typedef {object} Cell a chunk of a rank's buffer
 * @property {number} rank
 * @property {number} buffer
 * @property {number} chunk
 * @property {number} of_chunk which chunk of the ranks' inputs it is; NOTHING, MIXED
 * @property {number} slices channels that share it
 * @property {number} written slices that something has been written to, and is complete
 * @property {number} writing slices whose write is under way
 * @property {number} promised ranks whose contribution must be there at the end; 0: no promise
 * @property {number} kept 1: it is all that the collective promises
 * @property {Int32Array} least how often each rank's contribution is in the slice that has it least often
 * @property {Int32Array} most and in the one that has it most often
 */

/** The index of a chunk, as errors and views name it. @param {number} index */
export function indexName(index) {
  if (index >= FIRST_SLOT) {
    const [buffer, message] = [Math.floor(index / FIRST_SLOT) - 1, index % FIRST_SLOT];
    return `message ${message}${buffer ? ` of buffer ${buffer}` : ""}`;
  }
  if (index >= FIRST_SENT) return `sent ${index - FIRST_SENT}`;
  return index >= FIRST_CALLED ? `called ${index - FIRST_CALLED}` : String(index);
}

/**
 * How often each rank's contribution is there: the largest number of its columns.
 * @param {ArrayLike<number>} times
 * @param {number} ranks
 */
export function byRank(times, ranks) {
  const each = times.length / ranks;
  const found = new Int32Array(ranks);
  for (let column = 0; column < times.length; column++) {
    const rank = Math.floor(column / each);
    if (times[column] > found[rank]) found[rank] = times[column];
  }
  return found;
}

/**
 * Find whose contributions are in which chunk now: the cells of a buffer among all.
 * @param {Sim} sim
 * @param {Cell[]} cells of all buffers
 * @param {string} buffer "fullest": of each rank and chunk of the data the copy with the most in it
 */
export function contributions(sim, cells, buffer) {
  const { contents, name } = sim.engine.live.about;
  if (buffer === "fullest") {
    if (contents.sums) return fullest(cells);
    throw new InputError(`ranks of ${name} hold different data: there is no fullest copy`, { where: "contributions", hint: "take a buffer, as output" });
  }
  const wanted = BUFFERS.indexOf(buffer);
  if (wanted < 0) throw new InputError(`unknown buffer ${repr(buffer)}`, { where: "contributions", hint: near(buffer, BUFFERS) });
  return cells.filter((cell) => cell.buffer === wanted);
}

/** What every chunk of every rank holds now: by rank, buffer and chunk. @param {Sim} sim @returns {Cell[]} */
export function allCells(sim) {
  const { live, tables } = sim.engine;
  const { layout } = live.about.contents;
  const ranks = tables.gpus.rows;
  const { writing } = tables.slices.at;
  const [held, wanted] = [createContents(live, tables).slices(), promised(live)];
  const right = kept(wanted, held);
  const there = wanted.patterns.map((pattern) => byRank(pattern.map(Number), ranks).filter((times) => times > 0).length);
  return chunksOf(tables.slices).map(([first, ...others]) => {
    const [least, most] = [new Int32Array(ranks).fill(2 ** 31 - 1), new Int32Array(ranks)];
    const cell = {
      ...placeOf(tables.slices, first), of_chunk: 0, slices: 1 + others.length, written: 0, writing: 0, promised: 0, kept: 1, least, most,
    };
    let [low, high] = [Infinity, -Infinity];
    for (const slice of [first, ...others]) {
      const ofChunk = layout && held.chunk[slice] >= 0 ? layout.items[held.chunk[slice]] : held.chunk[slice];
      [low, high] = [Math.min(low, ofChunk), Math.max(high, ofChunk)];
      cell.writing += Number(writing(slice) >= 0);
      cell.written += Number(ofChunk !== NOTHING && writing(slice) < 0);
      if (wanted.pattern[slice] >= 0) cell.promised = Math.max(cell.promised, there[wanted.pattern[slice]]);
      if (!right[slice]) cell.kept = 0;
      byRank(held.times.subarray(slice * held.columns, (slice + 1) * held.columns), ranks).forEach((times, rank) => {
        if (times < least[rank]) least[rank] = times;
        if (times > most[rank]) most[rank] = times;
      });
    }
    cell.of_chunk = low === high || low === NOTHING ? high : MIXED;
    return cell;
  });
}

/** @param {Table} slices @param {number} slice */
const placeOf = ({ at }, slice) => ({ rank: at.gpu(slice), buffer: at.buffer(slice), chunk: at.chunk(slice) });

/** The slices of each chunk, which lie behind one another. @param {Table} slices */
function chunksOf(slices) {
  /** @type {number[][]} */
  const found = [];
  let key = "";
  for (let slice = 0; slice < slices.rows; slice++) {
    if (slices.at.lines(slice) <= 0) continue;
    const next = Object.values(placeOf(slices, slice)).join();
    if (next === key) found[found.length - 1].push(slice);
    else found.push([slice]);
    key = next;
  }
  return found;
}

/** Of each rank and chunk of the data the cell that is final, else has most, else is an output. @param {Cell[]} cells */
function fullest(cells) {
  /** @param {Cell} cell */
  const merits = (cell) => [cell.kept, cell.least.filter((times) => times > 0).length, Number(cell.buffer === OUTPUT)];
  /** @type {Map<string, Cell>} */
  const best = new Map();
  for (const cell of cells) {
    const key = `${cell.rank} ${cell.of_chunk}`;
    const [mine, other] = [merits(cell), best.has(key) ? merits(/** @type {Cell} */ (best.get(key))) : []];
    const at = mine.findIndex((merit, k) => merit !== other[k]);
    if (cell.of_chunk >= 0 && (!other.length || at < 0 || mine[at] > other[at])) best.set(key, cell);
  }
  const most = cells.reduce((found, cell) => Math.max(found, cell.promised), 0);
  const found = [...best.values()].sort((a, b) => a.rank - b.rank || a.of_chunk - b.of_chunk);
  return found.map((cell) => ({ ...cell, promised: most }));
}

/** What a cell holds, as "GPU2 output[3]: 0+1+2 of 8". @param {Cell} cell */
export function cellText({ rank, buffer, chunk, of_chunk, slices, writing, promised: wanted, kept: all, least, most }) {
  const there = [...most.keys()].filter((one) => most[one]);
  let held = there.flatMap((one) => Array(most[one]).fill(one)).join("+");
  if (!there.length) held = of_chunk === NOTHING && !writing ? "nothing" : "nothing complete yet";
  else if (there.length > MOST_NAMED) {
    const lacking = [...most.keys()].filter((one) => !most[one]);
    held = `${there.length} ranks${lacking.length && lacking.length <= MOST_NAMED ? `, all but ${lacking.join("+")}` : ""}`;
  }
  const parts = [wanted && there.length ? `${held} of ${wanted}` : held];
  const twice = there.filter((one) => most[one] > 1);
  if (twice.length) parts.push(`wrong: rank ${twice.join(", ")} is in it more than once`);
  if (of_chunk === MIXED && there.length && !writing) parts.push("of different chunks, or torn");
  if (least.some((times, one) => times !== most[one])) parts.push(`in some of its ${slices} channels`);
  if (writing) parts.push("being written");
  if (all) parts.push("final");
  return `GPU${rank} ${BUFFERS[buffer]}[${indexName(chunk)}]: ${parts.join(", ")}`;
}
