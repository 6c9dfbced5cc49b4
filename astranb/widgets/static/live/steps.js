// @ts-check
// Work that is done a little at a time, so that the page stays alive: counterpart of widgets/session/background.py.

import { breathe } from "./breathing.js";

/**
 * Work in steps of some milliseconds at most. Each yields the share that is done, 0 to 1, and receives whether to stop
 * there; work that cannot stop goes on.
 * @template T
 * @typedef {Generator<number, T, boolean>} Steps
 */

export const SLICE_MS = 8; // of work, between two rounds of the page's other work

/** What is thrown where an answer needs work first: whoever asked does it, and asks once more. */
export class Unready extends Error {
  /** @param {Steps<unknown>} steps */
  constructor(steps) {
    super("this is not worked out yet");
    this.steps = steps;
  }
}

/** Whether something is work in steps. @param {unknown} value @returns {value is Steps<any>} */
export const isSteps = (value) => typeof value === "object" && value !== null && typeof Reflect.get(value, "next") === "function";

/** Work for a slice of time. @template T @param {Steps<T>} steps @param {boolean} [stop] @returns {IteratorResult<number, T>} */
export function slice(steps, stop = false) {
  const until_ms = performance.now() + SLICE_MS;
  for (;;) {
    const step = steps.next(stop);
    if (step.done || performance.now() >= until_ms) return step;
  }
}

/** Do all of it at once. @template T @param {Steps<T>} steps @returns {T} */
export function finish(steps) {
  for (;;) {
    const step = steps.next(false);
    if (step.done) return step.value;
  }
}

/** Do it between the page's other work. @template T @param {Steps<T>} steps @returns {Promise<T>} */
export async function inSlices(steps) {
  for (;;) {
    const step = slice(steps);
    if (step.done) return step.value;
    await breathe();
  }
}
