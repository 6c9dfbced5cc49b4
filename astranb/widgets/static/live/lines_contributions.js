// @ts-check
// Whose contributions are in which chunk of which rank: counterpart of engine/cacheline/contributions.py.

import { InputError, near } from "./errors.js";
import { createContents, kept, MIXED, NOTHING, promised } from "./lines_contents.js";
import { repr } from "./text.js";

/** @import { Engine, Table } from "./types" */

export const BUFFERS = ["input", "output", "scratch", "packets", "panels"];
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

/** What is in every slice of memory, and what is promised of it: worked out once for several buffers. @param {Engine} engine */
export function sliceContents({ live, tables }) {
  const [held, wanted] = [createContents(live, tables).slices(), promised(live)];
  return { held, wanted, right: kept(wanted, held) };
}

/**
 * Find whose contributions are in which chunk now: by rank, buffer and chunk.
 * @param {Engine} engine
 * @param {ReturnType<typeof sliceContents>} found
 * @param {string} buffer "fullest": of each rank and chunk of the data the copy with the most in it
 */
export function contributions(engine, found, buffer) {
  const { contents } = engine.live.about;
  if (buffer === "fullest") {
    if (contents.sums) return fullest(cellsOf(engine, found, () => true));
    throw new InputError(`ranks of ${contents.collective} hold different data: there is no fullest copy`, { where: "contributions", hint: "take a buffer, as output" });
  }
  const of = BUFFERS.indexOf(buffer);
  if (of < 0) throw new InputError(`unknown buffer ${repr(buffer)}`, { where: "contributions", hint: near(buffer, BUFFERS) });
  return cellsOf(engine, found, (slice) => engine.tables.slices.at.buffer(slice) === of);
}

/** @param {Engine} engine @param {ReturnType<typeof sliceContents>} found @param {(slice: number) => boolean} within @returns {Cell[]} */
function cellsOf({ live, tables }, { held, wanted, right }, within) {
  const { layout } = live.about.contents;
  const ranks = tables.gpus.rows;
  const { at } = tables.slices;
  const there = wanted.patterns.map((pattern) => byRank(pattern.map(Number), ranks).filter((times) => times > 0).length);
  return chunksOf(tables.slices, within).map(([first, ...others]) => {
    const [least, most] = [new Int32Array(ranks).fill(2 ** 31 - 1), new Int32Array(ranks)];
    const cell = {
      rank: at.gpu(first), buffer: at.buffer(first), chunk: at.chunk(first), of_chunk: 0,
      slices: 1 + others.length, written: 0, writing: 0, promised: 0, kept: 1, least, most,
    };
    let [low, high] = [Infinity, -Infinity];
    for (const slice of [first, ...others]) {
      const ofChunk = layout && held.chunk[slice] >= 0 ? layout.items[held.chunk[slice]] : held.chunk[slice];
      [low, high] = [Math.min(low, ofChunk), Math.max(high, ofChunk)];
      cell.writing += Number(at.writing(slice) >= 0);
      cell.written += Number(ofChunk !== NOTHING && at.writing(slice) < 0);
      if (wanted.pattern[slice] >= 0) cell.promised = Math.max(cell.promised, there[wanted.pattern[slice]]);
      if (!right[slice]) cell.kept = 0;
      const times = held.times.subarray(slice * held.columns, (slice + 1) * held.columns);
      const each = layout ? byRank(times, ranks) : times;
      for (let rank = 0; rank < ranks; rank++) {
        if (each[rank] < least[rank]) least[rank] = each[rank];
        if (each[rank] > most[rank]) most[rank] = each[rank];
      }
    }
    cell.of_chunk = low === high || low === NOTHING ? high : MIXED;
    return cell;
  });
}

/** The slices of each chunk, which lie behind one another. @param {Table} slices @param {(slice: number) => boolean} within */
function chunksOf({ rows, at }, within) {
  /** @type {number[][]} */
  const found = [];
  let last = -1;
  for (let slice = 0; slice < rows; slice++) {
    if (at.lines(slice) <= 0 || !within(slice)) continue;
    const same = last >= 0 && at.chunk(slice) === at.chunk(last) && at.buffer(slice) === at.buffer(last) && at.gpu(slice) === at.gpu(last);
    if (same) found[found.length - 1].push(slice);
    else found.push([slice]);
    last = slice;
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
