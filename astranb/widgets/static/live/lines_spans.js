// @ts-check
// What every thread block did when, from the times in the table of operations: counterpart of engine/cacheline/spans.py.

import { NOTIFY } from "./gpu_numbers.js";

/** @import { Engine } from "./types" */

export const [MOVING, SIGNALLING, WAITING, DRAINING] = [0, 1, 2, 3]; // states of a span
const STATE_OF = [MOVING, SIGNALLING, WAITING, DRAINING, MOVING, MOVING, SIGNALLING, MOVING]; // by the kind of an operation

/**
 * Call with what every thread block did from its first operation on, in a window of time, block after block.
 * @param {Engine} engine
 * @param {number} start_ps
 * @param {number} end_ps
 * @param {Float64Array | null} since the operation that each thread block was at when the window began: earlier ones are
 *   not looked at; spans that begin before the window may then begin too late
 * @param {(block: number, op: number, state: number, start_ps: number, end_ps: number) => void} found
 */
export function eachOperationSpan(engine, start_ps, end_ps, since, found) {
  const { blocks, ops } = engine.tables;
  const now_ps = engine.now_ps();
  /** @param {number} block @param {number} op @param {number} state @param {number} from @param {number} to */
  const give = (block, op, state, from, to) => {
    if (to >= start_ps && from <= end_ps && to > from) found(block, op, state, from, to);
  };
  for (let block = 0; block < blocks.rows; block++) {
    const [first, last] = reached(engine, block, since);
    let [op, left, issued] = [-1, 0, 0]; // the operation that has begun, and not been given
    const over = (/** @type {number} */ next_ps) => {
      const until = next_ps >= 0 ? next_ps : now_ps;
      if (left >= 0 && until > issued) give(block, op, DRAINING, issued, until); // a fence is the gap up to the next one's start
    };
    for (let k = first; k < last; k++) {
      const began = ops.at.started_ps(k);
      if (began < 0) continue;
      // Warps run ahead into the next move; a block is at one operation at a time.
      const started = op < 0 ? began : Math.max(began, issued);
      if (op >= 0) over(started);
      const kind = ops.at.kind(k);
      // A signal behind stores is issued later: its block has gone on at once.
      left = kind === NOTIFY && ops.at.before(k) > 0 ? began : ops.at.issued_ps(k);
      issued = Math.max(op < 0 ? 0 : issued, left >= 0 ? left : now_ps);
      op = k;
      give(block, op, STATE_OF[kind], started, issued);
    }
    if (op >= 0) over(op + 1 >= blocks.at.last_op(block) ? blocks.at.ended_ps(block) : -1);
  }
}

/**
 * Operations that a block may have been at since: the one before included, whose fence may last still. Warps run ahead
 * into moves marked so, which follow each other.
 * @param {Engine} engine
 * @param {number} block
 * @param {Float64Array | null} since
 */
function reached({ tables: { blocks, ops } }, block, since) {
  const [begins, ends] = [blocks.at.first_op(block), blocks.at.last_op(block)];
  if (!since) return [begins, ends];
  let last = Math.min(blocks.at.op(block) + 1, ends);
  while (last < ends && ops.at.ahead(last)) last += 1;
  return [Math.max(since[block] - 1, begins), last];
}
