// @ts-check
// Where a thread block waits for its own stores, and which of its moves are one loop: counterpart of collectives/lowering/fences.py.

/** @import { Operation } from "./plan_program.js" */

export const [ACKNOWLEDGED, SYSTEM_WIDE] = [1, 2];

/**
 * When each operation of all blocks begins.
 * @param {Operation[]} operations block by block
 * @param {Float64Array} firstChunk of each operation, in `numbers`
 * @param {Float64Array} numbers the slice of each source and target
 * @param {Float64Array} blockOf
 * @param {Float64Array} firsts the first operation of each block
 */
export function paces(operations, firstChunk, numbers, blockOf, firsts) {
  const count = operations.length;
  const [fence, ahead] = [new Float64Array(count), new Float64Array(count)];
  /** @type {Map<number, number>} the last operation of the block that has stored to each slice, and read it */
  let stored = new Map();
  /** @type {Map<number, number>} */
  let read = new Map();
  let clean = 0; // stores since this operation are not acknowledged
  let loop = -1; // where the moves began that warps may still execute, -1: there are none
  let store = -1; // the last operation with stores
  operations.forEach(({ kind, sources, targets, relaxed }, op) => {
    if (op === firsts[blockOf[op]]) {
      [clean, loop] = [op, -1];
      [stored, read] = [new Map(), new Map()];
    }
    const middle = firstChunk[op] + sources.length;
    const [reads, writes] = [numbers.subarray(firstChunk[op], middle), numbers.subarray(middle, middle + targets.length)];
    let wait;
    if (kind === "move") {
      let [writer, reader] = [-1, -1];
      for (const slice of reads) writer = Math.max(writer, stored.get(slice) ?? -1);
      for (const slice of writes) {
        writer = Math.max(writer, stored.get(slice) ?? -1);
        reader = Math.max(reader, read.get(slice) ?? -1);
      }
      wait = writer >= clean ? ACKNOWLEDGED : 0;
      if (loop >= 0 && !wait && reader < loop) ahead[op] = 1;
      else loop = op;
    } else {
      loop = -1;
      const dirty = kind === "signal" && !relaxed && store >= clean;
      wait = kind === "fence" || dirty ? ACKNOWLEDGED | SYSTEM_WIDE : 0;
    }
    if (wait) [fence[op], clean] = [wait, op];
    for (const slice of reads) read.set(slice, op);
    for (const slice of writes) stored.set(slice, op);
    if (targets.length) store = op;
  });
  return { fence, ahead };
}
