// @ts-check
// How often each contribution is in what operations have written, and in every slice of memory: counterpart of
// collectives/proof/check.py. What slices hold at first and what is promised comes with the page (widgets/live/promises.py).

import { INITIAL, MOVE, UNWRITTEN } from "./gpu_numbers.js";

/** @import { Live, Tables } from "./types" */

export const NOTHING = -1; // the chunk of a slice that nothing was written to
export const MIXED = -2; // of one that mixes different chunks or incomplete writes

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
  const { columns, repeatable, layout } = live.about.contents;
  const [kind, lines, sources, firstSource] = ["kind", "lines", "sources", "first_source"].map(ops.column);
  const [firstTarget, issued, started] = ["first_target", "issued_ps", "started_ps"].map(ops.column);
  const [of, seen] = ["slice", "seen"].map(operands.column);
  const column = layout ? spread(layout.inputs, 1) : slices.column("gpu");
  const item = layout ? spread(layout.inputs, 2) : slices.column("chunk");
  const times = new Int32Array(ops.rows * columns);
  const chunk = new Float64Array(ops.rows).fill(NOTHING);
  const begun = new Uint8Array(ops.rows); // to be worked out

  /** @param {number} op */
  const moves = (op) => kind[op] === MOVE && lines[op] > 0 && (issued[op] >= 0 || (open && started[op] >= 0));

  /** What an operation has read that is not worked out yet; -1: nothing. @param {number} op */
  function unknown(op) {
    for (let k = firstSource[op]; moves(op) && k < firstSource[op] + sources[op]; k++) if (seen[k] >= 0 && !begun[seen[k]]) return seen[k];
    return -1;
  }

  /** Add up what an operation has read. @param {number} op */
  function add(op) {
    if (!moves(op)) return;
    const to = op * columns;
    if (!sources[op]) { // what a rank has computed is its contribution, as what it brought is
      const written = of[firstTarget[op]];
      times[to + column[written]] = 1;
      chunk[op] = item[written];
    }
    for (let k = firstSource[op]; k < firstSource[op] + sources[op]; k++) {
      const writer = seen[k];
      let there = MIXED;
      if (writer >= 0) {
        there = chunk[writer];
        for (let c = 0, from = writer * columns; c < columns; c++) times[to + c] = repeatable ? Math.max(times[to + c], times[from + c]) : times[to + c] + times[from + c];
      } else if (writer === INITIAL) {
        there = item[of[k]];
        const place = to + column[of[k]];
        times[place] = repeatable ? Math.max(times[place], 1) : times[place] + 1;
      }
      chunk[op] = k === firstSource[op] || chunk[op] === there ? there : MIXED;
    }
  }

  /** Work out what an operation has written, after what it has read. @param {number} op */
  function workOut(op) {
    const path = begun[op] ? [] : [op];
    while (path.length) {
      const last = path[path.length - 1];
      begun[last] = 1;
      const next = unknown(last);
      if (next >= 0) path.push(next);
      else add(/** @type {number} */ (path.pop()));
    }
  }

  return {
    /** How often each contribution is in what an operation has written. @param {number} op */
    of(op) {
      workOut(op);
      return times.subarray(op * columns, (op + 1) * columns);
    },
    /** What every slice holds. @returns {Contents} */
    slices() {
      const held = { columns, times: new Int32Array(slices.rows * columns), chunk: new Float64Array(slices.rows).fill(MIXED) };
      for (let slice = 0; slice < slices.rows; slice++) {
        if (slices.at.writing(slice) >= 0) continue;
        const writer = slices.at.writer(slice);
        if (writer >= 0) {
          workOut(writer);
          held.times.set(times.subarray(writer * columns, (writer + 1) * columns), slice * columns);
          held.chunk[slice] = chunk[writer];
        } else if (writer === INITIAL) {
          held.times[slice * columns + column[slice]] = 1;
          held.chunk[slice] = item[slice];
        } else if (writer === UNWRITTEN) held.chunk[slice] = NOTHING;
      }
      return held;
    },
  };
}
