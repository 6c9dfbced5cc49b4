// @ts-check
// When each phase of a run by cache lines began and ended on each GPU: counterpart of `phase_times` of engine/cacheline/aggregate.py.

/** @import { Engine } from "./types" */

/**
 * From the first start of one of its operations to the last end, up to now while some are under way; -1 where
 * nothing of it has begun. By GPU and phase.
 * @param {Engine} engine
 */
export function phaseTimes(engine) {
  const { ops, blocks, gpus } = engine.tables;
  /** @type {string[]} */
  const names = engine.live.about.scene.phases;
  const now_ps = engine.now_ps();
  const width = Math.max(1, names.length);
  const start = Array.from({ length: gpus.rows }, () => new Float64Array(width).fill(-1));
  const end = Array.from({ length: gpus.rows }, () => new Float64Array(width).fill(-1));
  for (let block = 0; block < blocks.rows; block++) {
    const gpu = blocks.at.gpu(block);
    for (let op = blocks.at.first_op(block); op < blocks.at.last_op(block); op++) {
      const began = ops.at.started_ps(op);
      if (began < 0) continue;
      const [phase, ended] = [ops.at.phase(op), ops.at.ended_ps(op)];
      if (start[gpu][phase] < 0 || began < start[gpu][phase]) start[gpu][phase] = began;
      end[gpu][phase] = Math.max(end[gpu][phase], ended >= 0 ? ended : now_ps);
    }
  }
  return { start, end, names };
}
