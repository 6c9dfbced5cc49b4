// @ts-check
// The begins and ends of recorded operations (recording.py), through which a page without a kernel steps.

import { unpack } from "./messages.js";

/** @import { Recording, RecordedWorkload, Replayed } from "./types" */

/**
 * @param {Recording} recording
 * @param {RecordedWorkload} workload
 * @param {(numbers: number[]) => DataView[]} buffersOf
 * @returns {Replayed}
 */
export function createReplayed(recording, { operations, texts }, buffersOf) {
  const { rank, text } = unpack("recorded_operations", buffersOf(operations));
  const { ends, operation: row, time, event } = unpack("recorded_steps", buffersOf(recording.moments));

  /** The moment of the n-th end of an operation from here, or the last one. @param {number} n @param {number} done */
  function operation(n, done) {
    let left = n;
    for (let k = done; k < ends.length; k++) {
      left -= ends[k];
      if (left === 0) return k + 1;
    }
    return ends.length;
  }
  return {
    operation,
    moments: { time, event },
    narration: (k) => `rank ${rank[row[k]]} ${ends[k] ? "ends" : "begins"} ${texts[text[row[k]]]}`,
    changed: (k) => `rank[${rank[row[k]]}]`,
  };
}
