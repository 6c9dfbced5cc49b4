// @ts-check
// How often each contribution is in what operations have written, and in every slice of memory: counterpart of
// collectives/proof/check.py. What slices hold at first and what is promised comes with the page (widgets/live/promises.py).

import { INITIAL, MOVE, UNWRITTEN } from "./gpu_numbers.js";

/** @import { Live, Tables } from "./types" */

export const NOTHING = -1; // the chunk of a slice that nothing was written to
export const MIXED = -2; // of one that mixes different chunks or incomplete writes
const FIRST_ROWS = 1024;

/**
 * @typedef {object} Contents of slices
 * @property {number} columns contributions that are counted apart
 * @property {Int32Array} times how often each is in the slice, slice by slice
 * @property {Float64Array} chunk of the ranks' inputs that it is; NOTHING or MIXED
 */
/**
 * @typedef {object} Promises of slices
 * @property {boolean[][]} patterns for each column, whether it must be there
 * @property {Int32Array} pattern number of each slice's; -1: nothing is promised
 * @property {Int32Array} chunk that it must be
 * @property {Int32Array | null} column of what is in each slice at first, and its item; null: the rank, and the chunk
 * @property {Int32Array | null} item
 */

/** One number for each slice, of runs that begin with how many slices they are of. @param {number[][]} runs @param {number} which */
export function spread(runs, which) {
  const found = new Int32Array(runs.reduce((sum, [slices]) => sum + slices, 0));
  let from = 0;
  for (const run of runs) found.fill(run[which], from, (from += run[0]));
  return found;
}

/** @type {WeakMap<Live, Promises>} */
const promises = new WeakMap();

/** What the collective promises of every slice. @param {Live} live @returns {Promises} */
export function promised(live) {
  const { contents } = live.about;
  const known = promises.get(live) ?? {
    patterns: contents.patterns.map((/** @type {number[]} */ there) => {
      const pattern = Array(contents.columns).fill(false);
      for (const column of there) pattern[column] = true;
      return pattern;
    }),
    pattern: spread(contents.promised, 1),
    chunk: spread(contents.promised, 2),
    column: contents.layout ? spread(contents.layout.inputs, 1) : null,
    item: contents.layout ? spread(contents.layout.inputs, 2) : null,
  };
  promises.set(live, known);
  return known;
}

/** For which slices the promise is kept. @param {Promises} wanted @param {Contents} held */
export function kept({ patterns, pattern, chunk }, held) {
  const { columns, times } = held;
  return Array.from(pattern, (number, slice) => {
    let right = number >= 0 && held.chunk[slice] === chunk[slice];
    for (let column = 0; right && column < columns; column++) right = times[slice * columns + column] === Number(patterns[number][column]);
    return right;
  });
}

/**
 * What operations have written, as far as it is asked for.
 * @param {Live} live
 * @param {Tables} tables
 * @param {{ open?: boolean }} [settings] whether of operations under way, too
 */
export function createContents(live, { ops, operands, slices }, { open = false } = {}) {
  const { columns, repeatable } = live.about.contents;
  const { kind, lines, sources, first_source: firstSource, first_target: firstTarget, issued_ps: issuedPs, started_ps: startedPs } = ops.at;
  const { slice: sliceOf, seen } = operands.at;
  const first = promised(live);
  /** @param {number} slice */
  const columnOf = (slice) => (first.column ? first.column[slice] : slices.at.gpu(slice));
  /** @param {number} slice */
  const itemOf = (slice) => (first.item ? first.item[slice] : slices.at.chunk(slice));
  const place = new Int32Array(ops.rows); // of each operation, one more than its row of what follows; 0: it is not worked out
  const chunk = [NOTHING]; // the first row is of operations that have written nothing
  let times = new Int32Array(FIRST_ROWS * columns);

  /** @param {number} op */
  const moves = (op) => kind(op) === MOVE && lines(op) > 0 && (issuedPs(op) >= 0 || (open && startedPs(op) >= 0));

  /** What an operation has read that is not worked out yet; -1: nothing. @param {number} op */
  function unknown(op) {
    const end = moves(op) ? firstSource(op) + sources(op) : 0;
    for (let k = firstSource(op); k < end; k++) if (seen(k) >= 0 && !place[seen(k)]) return seen(k);
    return -1;
  }

  /** A new row; returns where it begins. */
  function newRow() {
    const from = chunk.length * columns;
    if (from === times.length) {
      const more = new Int32Array(2 * times.length);
      more.set(times);
      times = more;
    }
    chunk.push(MIXED);
    return from;
  }

  /** Add up what an operation has read. @param {number} op */
  function add(op) {
    if (!moves(op)) return;
    const [to, row, begin] = [newRow(), chunk.length - 1, firstSource(op)];
    place[op] = row + 1;
    if (!sources(op)) { // what a rank has computed is its contribution, as what it brought is
      const written = sliceOf(firstTarget(op));
      times[to + columnOf(written)] = 1;
      chunk[row] = itemOf(written);
    }
    for (let k = begin; k < begin + sources(op); k++) {
      const writer = seen(k);
      let there = MIXED;
      if (writer >= 0) {
        const from = (place[writer] - 1) * columns;
        there = chunk[place[writer] - 1];
        for (let c = 0; c < columns; c++) times[to + c] = repeatable ? Math.max(times[to + c], times[from + c]) : times[to + c] + times[from + c];
      } else if (writer === INITIAL) {
        there = itemOf(sliceOf(k));
        const at = to + columnOf(sliceOf(k));
        times[at] = repeatable ? Math.max(times[at], 1) : times[at] + 1;
      }
      chunk[row] = k === begin || chunk[row] === there ? there : MIXED;
    }
  }

  /** The row of what an operation has written, which is worked out after what it has read. @param {number} op */
  function rowOf(op) {
    const path = place[op] ? [] : [op];
    while (path.length) {
      const last = path[path.length - 1];
      place[last] = 1;
      const next = unknown(last);
      if (next >= 0) path.push(next);
      else add(/** @type {number} */ (path.pop()));
    }
    return place[op] - 1;
  }

  return {
    /** How often each contribution is in what an operation has written. @param {number} op */
    of(op) {
      const row = rowOf(op);
      return times.subarray(row * columns, (row + 1) * columns);
    },
    /** What every slice holds. @returns {Contents} */
    slices() {
      const held = { columns, times: new Int32Array(slices.rows * columns), chunk: new Float64Array(slices.rows).fill(MIXED) };
      for (let slice = 0; slice < slices.rows; slice++) {
        if (slices.at.writing(slice) >= 0) continue;
        const writer = slices.at.writer(slice);
        if (writer >= 0) {
          const row = rowOf(writer);
          held.times.set(times.subarray(row * columns, (row + 1) * columns), slice * columns);
          held.chunk[slice] = chunk[row];
        } else if (writer === INITIAL) {
          held.times[slice * columns + columnOf(slice)] = 1;
          held.chunk[slice] = itemOf(slice);
        } else if (writer === UNWRITTEN) held.chunk[slice] = NOTHING;
      }
      return held;
    },
  };
}
