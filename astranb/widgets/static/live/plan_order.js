// @ts-check
// One execution of a plan without time: counterpart of `execute` of collectives/proof/order.py.

/** @import { Operation } from "./plan_program.js" */

/**
 * Execute the operations of blocks, each of which continues as long as it can.
 * @param {Operation[][]} blocks
 * @returns {{ done: [block: number, place: number][], at: number[] }} operations in an order in which they can happen, and the next one of each block
 */
export function execute(blocks) {
  const at = blocks.map(() => 0);
  /** @type {[number, number][]} */
  const done = [];
  /** @type {Map<number, number>} */
  const risen = new Map();
  const written = new Set();
  /** @type {Map<unknown, number[]>} blocks that wait, by semaphore or packets */
  const waiting = new Map();
  const ready = [...blocks.keys()];
  /** @param {unknown} key @param {number} b */
  const wait = (key, b) => void waiting.set(key, [...(waiting.get(key) ?? []), b]);
  /** @param {unknown} key */
  const release = (key) => {
    ready.push(...(waiting.get(key) ?? []));
    waiting.delete(key);
  };
  for (let next = 0; next < ready.length; next += 1) {
    const b = ready[next];
    for (const operations = blocks[b]; at[b] < operations.length; at[b] += 1) {
      const { kind, semaphore, value, sources, targets } = operations[at[b]];
      if (kind === "wait" && (risen.get(semaphore) ?? 0) < value) {
        wait(semaphore, b);
        break;
      }
      const missing = sources.find((chunk) => chunk.buffer === "packets" && !written.has(chunk));
      if (missing) {
        wait(missing, b);
        break;
      }
      done.push([b, at[b]]);
      if (kind === "signal") {
        risen.set(semaphore, (risen.get(semaphore) ?? 0) + value);
        release(semaphore);
      }
      for (const chunk of targets) {
        if (chunk.buffer !== "packets") continue;
        written.add(chunk);
        release(chunk);
      }
    }
  }
  return { done, at };
}
