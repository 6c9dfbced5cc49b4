// @ts-check
// Into how many pieces a plan cuts chunks, how many operations that makes, and what they take.

import { InputError } from "./errors.js";
import { commas, repr } from "./text.js";

/** @import { Plan, PlanStep } from "./plan.js" */

const MOST_PIECES = 1 << 10;
const LINE_BYTES = 128;
const MOST_BYTES = 2e9; // of a page, as in widgets/live_page.py
// Of an operation with one or two chunks, until it can run: measured in Node, up to 2.8 million of them.
const BYTES_EACH = 1400;
const US_EACH = 7;
export const MOST_OPERATIONS = Math.floor(MOST_BYTES / BYTES_EACH);
const MANY = 100_000; // what fewer take is not worth a word

/** @param {number} a @param {number} b @returns {number} */
const gcd = (a, b) => (b ? gcd(b, a % b) : a);
/** @param {number} a @param {number} b */
export const lcm = (a, b) => (a / gcd(a, b)) * b;

/**
 * Into how many pieces a slice is cut, so that each iteration of each loop has whole ones; and the iterations of each
 * loop, with how many pieces each is for.
 * @param {Plan} plan @param {number} bytes
 * @returns {{ cut: number, loops: [count: number, pieces: number][], uneven: boolean }} uneven: an iteration is for other bytes than the plan says
 */
export function cutsOf(plan, bytes) {
  if (!plan.pipelines.length) return { cut: 1, loops: [], uneven: false };
  const size = Math.ceil(bytes / (Math.max(plan.inputs, plan.outputs) * plan.slices));
  let [cut, uneven] = [1, false];
  for (const { unit } of plan.pipelines) if (cut <= MOST_PIECES) cut = lcm(cut, size / gcd(size, unit));
  if (cut > MOST_PIECES || size % (cut * LINE_BYTES)) {
    cut = Math.min(MOST_PIECES, Math.max(...plan.pipelines.map(({ unit }) => Math.ceil(size / unit))));
    uneven = true;
  }
  const loops = plan.pipelines.map(({ unit, chunks }) => {
    const pieces = Math.max(1, Math.floor((unit * cut) / size));
    return /** @type {[number, number]} */ ([Math.ceil((chunks * plan.slices * cut) / pieces), pieces]);
  });
  return { cut, loops, uneven };
}

/**
 * The steps of a block in the order of execution, each with the pieces of slices that it is for.
 * @param {PlanStep[]} steps @param {number} cut @param {[count: number, pieces: number][]} iterations
 */
export function* unrolled(steps, cut, iterations) {
  for (let first = 0; first < steps.length; ) {
    const number = steps[first].pipeline;
    let last = first + 1;
    while (last < steps.length && steps[last].pipeline === number) last += 1;
    const body = steps.slice(first, last);
    first = last;
    if (!number || !iterations.length) {
      for (const one of body) yield { one, from: 0, until: cut };
      continue;
    }
    const [count, pieces] = iterations[number - 1];
    for (let iteration = 0; iteration < count; iteration += 1) {
      for (const one of body) {
        const begin = one.part * cut;
        const from = Math.max(0, iteration * pieces - begin);
        const until = Math.min(cut, (iteration + 1) * pieces - begin);
        if (one.kind !== "move" || from < until) yield { one, from, until };
      }
    }
  }
}

/** How many operations a plan has for a size, as far as it is known without NICs; it counts to one more than a page can have. @param {Plan} plan @param {number} size */
function operationsOf(plan, size) {
  const { cut, loops } = cutsOf(plan, size);
  let count = 0;
  for (const { steps } of plan.blocks) {
    for (const { one: { kind, flags }, from, until } of unrolled(steps, cut, loops)) {
      count += flags.length;
      if (kind === "move") count += until - from;
      else if (kind === "fence" || kind === "compute") count += 1;
      if (count > MOST_OPERATIONS) return MOST_OPERATIONS + 1;
    }
  }
  return count;
}

/** @param {string} where */
export const tooMany = (where) =>
  new InputError(`more than ${commas(MOST_OPERATIONS)} operations, which take ${BYTES_EACH / 1000} kB of memory each, and a page has 2 GB at most`, {
    where, hint: "run it in JupyterLab, or reduce the size",
  });

/** What a large plan takes until it can run, in words; empty: not worth a word. One that a page has no memory for is refused. @param {Plan} plan @param {number} size */
export function costOf(plan, size) {
  const count = operationsOf(plan, size);
  if (count > MOST_OPERATIONS) throw tooMany(`plan ${repr(plan.name)}`);
  return count < MANY ? "" : `${commas(count)} operations: about ${commas(Math.ceil((count * BYTES_EACH) / 1e6))} MB of memory, and ${Math.ceil(count * US_EACH / 1e6)} s until it can run`;
}
