// @ts-check
// What a page is given to describe the run of a plan: counterpart of what widgets/live/ writes of a run.

import { BUFFERS } from "./plan.js";
import { COLLECTIVES } from "./plan_collectives.js";
import { formatBytes } from "./units.js";

/** @import { Plan } from "./plan.js" */
/** @import { Lowered } from "./plan_lower.js" */
/** @import { PlanGpu } from "./plan_machine.js" */
/** @import { Program } from "./plan_program.js" */
/** @import { Live, Tables } from "./types" */
/**
 * The run of a plan. `through`: some GPUs forward for others; `presets`: of each rank; `together`: lines that travel as one request.
 * @typedef {{
 *   plan: Plan, collective: string, size: number, title: string, program: Program, lowered: Lowered, tables: Tables,
 *   through: boolean, presets: PlanGpu[], together: number,
 * }} PlanRun
 */

const SUMS = ["all_reduce", "reduce_scatter", "reduce", "broadcast", "scatter"];
const OUTPUT = BUFFERS.indexOf("output");

/**
 * @param {Live} live of the page
 * @param {PlanRun} run
 * @returns {Pick<Live, "title" | "answers" | "about">}
 */
export function describe(live, run) {
  const { plan, collective, size, title, program, lowered } = run;
  const { about } = live;
  const ranks = program.ranks;
  const on = live.title.slice(live.title.lastIndexOf(", on "));
  return {
    title: `${title}, ${formatBytes(size)}${on}`,
    answers: [{ question: "source", options: {}, message: { title, parts: [] }, buffers: [] }],
    about: {
      ...about,
      scene: { ...about.scene, phases: [plan.name] },
      parameters: parameters(about, run),
      program: { name: title, parts: [] },
      work: { size, bus_factor: COLLECTIVES[collective].busFactor(ranks) },
      contents: contents(run),
      lines: lines(lowered),
    },
  };
}

/** What can be changed of the whole run. @param {Live["about"]} about @param {PlanRun} run */
function parameters(about, { plan, collective, size }) {
  /** @type {Record<string, object>} */
  const changed = {
    algorithm: { value: plan.name, choices: about.machine.algorithms[collective] },
    size: { value: formatBytes(size) }, protocol: { value: plan.protocol }, channels: { value: "auto" },
  };
  return about.parameters.map((/** @type {{ path: string }} */ one) => ({ ...one, ...changed[one.path] }));
}

/** Contributions: where they are at first, and what is promised. @param {PlanRun} run */
function contents({ collective, title, program, lowered }) {
  const { slices, rows } = lowered;
  const kind = COLLECTIVES[collective];
  const outputs = slices.chunk.filter((_, k) => slices.buffer[k] === OUTPUT).reduce((most, chunk) => Math.max(most, chunk), 0) + 1;
  /** @type {Map<string, number[]>} the ranks whose contributions a slice must hold */
  const sets = new Map();
  /** @type {[ranks: string, chunk: number][]} */
  const promised = Array.from({ length: rows.slices }, (_, k) => {
    if (slices.buffer[k] !== OUTPUT || slices.lines[k] === 0) return ["", 0];
    const found = kind.promise(program.ranks, outputs, slices.gpu[k], slices.chunk[k]);
    if (!found) return ["", 0];
    sets.set(String(found.ranks), found.ranks);
    return [String(found.ranks), found.chunk];
  });
  const patterns = [...sets].sort(([, a], [, b]) => compared(a, b, program.ranks));
  const numbers = new Map(patterns.map(([key], number) => [key, number]));
  return {
    collective, program: title, channels: program.width, columns: program.ranks, repeatable: false, sums: SUMS.includes(collective),
    patterns: patterns.map(([, ranks]) => ranks),
    promised: runs(promised.map(([key, chunk]) => [numbers.get(key) ?? -1, chunk])),
  };
}

/** The order of rows of truth values. @param {number[]} a @param {number[]} b @param {number} ranks */
function compared(a, b, ranks) {
  for (let rank = 0; rank < ranks; rank += 1) {
    const order = Number(a.includes(rank)) - Number(b.includes(rank));
    if (order) return order;
  }
  return 0;
}

/** How many rows have the same values, and these, run by run. @param {number[][]} rows */
function runs(rows) {
  /** @type {number[][]} */
  const found = [];
  for (const row of rows) {
    const last = found[found.length - 1];
    if (last && row.every((value, k) => value === last[k + 1])) last[0] += 1;
    else found.push([1, ...row]);
  }
  return found;
}

/** No line of the operations is known: a file has none. @param {Lowered} lowered */
function lines({ blocks }) {
  /** @type {Map<number, number>} the number of each length */
  const sequences = new Map();
  const numbers = Array.from(blocks.first_op, (first, b) => {
    const length = blocks.last_op[b] - first;
    sequences.set(length, sequences.get(length) ?? sequences.size);
    return sequences.get(length);
  });
  return { parts: [], places: [[-1, 0]], sequences: Array.from(sequences.keys(), (length) => Array(length).fill(0)), blocks: numbers };
}
