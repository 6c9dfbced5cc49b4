// @ts-check
// What the file of a plan's run is made of: counterpart of widgets/live/saved_file.py.

import { longBytes } from "./longs.js";
import { put } from "./plan_build.js";
import { descrOf } from "./saved_file.js";
import { allocate, createTables } from "./tables.js";

/** @import { PlanRun } from "./plan_about.js" */
/** @import { Lowered, Records } from "./plan_lower.js" */
/** @import { PlanGpu } from "./plan_machine.js" */
/** @import { Layout, Live, SavedArray } from "./types" */

const PROGRAM = ["blocks", "ops", "operands", "slices", "semaphores", "phases", "tiles"];
/** What runs: in place of it comes the plan. */
const WORK = new Set(["collective", "program", "source", "contract", "exchange", "graph"]);
const THROUGH = "some GPUs reach each other only through other GPUs, which forward their lines";
const TOGETHER = "lines travel as one request: times are not exact";
const CHANGED = JSON.stringify("changed by the user");
const MEMBER = /^"((?:[^"\\]|\\.)*)": /;
const INSIDE = /"(?:[^"\\]|\\.)*"|[{}[\]]|,|[^"{}[\],]+/y;

/**
 * @param {Live} live of the page
 * @param {PlanRun} run
 * @param {(bytes: Uint8Array<ArrayBuffer>) => number} add adds a column
 * @returns {Live["saved"]}
 */
export function savedFile({ saved, tables: layouts }, run, add) {
  const { plan, collective, size, title, program, lowered, presets, together, through } = run;
  /** @type {Map<string, string>} */
  const members = new Map();
  for (const [name, value] of membersOf(saved.document)) {
    if (!WORK.has(name)) members.set(name, value);
    if (name !== "infra") continue;
    members.set("collective", text({
      algorithm: plan.name, name: collective, size, channels: null, root: 0, protocol: plan.protocol, chunk_bytes: null, chunks: null, params: {},
    }));
    members.set("program", text({
      phase_names: [plan.name], name: title, ranks: program.ranks, channels: program.width, line_bytes: presets[0].line_bytes, flags: lowered.flags,
    }));
    members.set("source", "[]");
  }
  members.set("presets", `[${presetsOf(insideOf(members.get("chosen")), presets, together).join(", ")}]`);
  const assumed = /** @type {string[]} */ (JSON.parse(members.get("assumed") ?? "[]")).filter((note) => note !== THROUGH && !note.endsWith(TOGETHER));
  if (through) assumed.push(THROUGH);
  if (presets[0].issue_lines > 1) assumed.push(`${presets[0].issue_lines} ${TOGETHER}`);
  members.set("assumed", text(assumed));

  /** @param {string} name @param {string} descr @param {Uint8Array<ArrayBuffer>} bytes @param {number} length @returns {SavedArray} */
  const array = (name, descr, bytes, length) => ({ name, data: add(bytes), descr, shape: [length] });
  const { ops } = lowered.rows;
  return {
    document: joined(members),
    arrays: [
      ...saved.arrays.filter(({ name }) => name.startsWith("state/")),
      ...PROGRAM.map((table) => {
        const layout = /** @type {Layout} */ (layouts.find(({ name }) => name === table));
        const [name, descr] = [`program/${table}`, descrOf(layout)];
        if (isAtStart(table, run)) return { name, descr, start: table };
        const rows = lowered.rows[/** @type {keyof Lowered["rows"]} */ (table)];
        return array(name, descr, tableBytes({ ...layout, rows }, /** @type {Record<string, Records>} */ (/** @type {object} */ (lowered))[table]), rows);
      }),
      array("program/block_channel", "[('', '<i8')]", longBytes(lowered.channels), lowered.channels.length),
      array("program/lines", "[('', '<i8')]", longBytes(lowered.lines), lowered.lines.length),
      array("source/part", "[('', '<i4')]", new Uint8Array(new Int32Array(ops).fill(-1).buffer), ops),
      array("source/line", "[('', '<i4')]", new Uint8Array(new Int32Array(ops).buffer), ops),
    ],
  };
}

/** Whether a table of the program is what the machine has at its start, which adds routes and may add fences. @param {string} table @param {PlanRun} run */
function isAtStart(table, { lowered, tables }) {
  if (table === "ops") return lowered.ops.fence.every((fence, op) => tables.ops.at.fence(op) === fence);
  return table !== "blocks" && table !== "operands";
}

/** A table with nothing but some fields. @param {Layout} layout @param {Records} records */
function tableBytes(layout, records) {
  const { [layout.name]: table } = createTables(allocate([layout]), [layout]);
  put(table, records);
  return table.bytes().slice();
}

/** JSON in ASCII. @param {unknown} value */
const text = (value) => JSON.stringify(value).replace(/[^\x20-\x7e]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

/**
 * The GPUs with the numbers that they have in this run: counterpart of `coalesced` and `but` of gpu/presets.py.
 * @param {string} chosen the GPUs as they are: objects of JSON
 * @param {PlanGpu[]} presets
 * @param {number} together lines that travel as one request
 */
function presetsOf(chosen, presets, together) {
  /** @type {Map<string, string>} */
  const known = new Map();
  return partsOf(chosen).map((gpu, rank) => {
    const { bulk_lines, issue_lines, max_outstanding, unroll, warps_per_block, blocks_on_sm } = presets[rank];
    /** @type {Record<string, number>} */
    const coalesced = together > 1 ? { bulk_lines, issue_lines, max_outstanding, unroll, warps_per_block, blocks_per_sm: blocks_on_sm } : {};
    const key = `${max_outstanding} ${gpu}`;
    const found = known.get(key) ?? changed(gpu, { ...coalesced, max_outstanding });
    known.set(key, found);
    return found;
  });
}

/** A GPU with other numbers, and that they are changed; numbers that are alone and the same are none. @param {string} gpu @param {Record<string, number>} numbers */
function changed(gpu, numbers) {
  const members = membersOf(insideOf(gpu));
  const entries = Object.entries(numbers);
  if (entries.length === 1 && entries.every(([name, value]) => members.get(name) === String(value))) return gpu;
  const sources = membersOf(insideOf(members.get("sources")));
  for (const [name, value] of entries) {
    members.set(name, String(value));
    sources.set(name, CHANGED);
  }
  return `{${joined(members.set("sources", `{${joined(sources)}}`))}}`;
}

/** An object or array of JSON without its brackets. @param {string | undefined} value */
const insideOf = (value = "{}") => value.slice(1, -1);
/** @param {Map<string, string>} members */
const joined = (members) => Array.from(members, ([name, value]) => `"${name}": ${value}`).join(", ");
/** The members of an object of JSON without its braces, as text: a page knows no difference between 1 and 1.0. @param {string} inside */
const membersOf = (inside) =>
  new Map(partsOf(inside).map((part) => {
    const [head, name] = /** @type {RegExpExecArray} */ (MEMBER.exec(part));
    return [name, part.slice(head.length)];
  }));

/** What commas part in an object or array of JSON without its brackets. @param {string} inside */
function partsOf(inside) {
  /** @type {string[]} */
  const found = [];
  for (let begin = 0; begin < inside.length; ) {
    let [end, depth] = [begin, 0];
    for (; end < inside.length; end = INSIDE.lastIndex) {
      INSIDE.lastIndex = end;
      const part = INSIDE.exec(inside)?.[0] ?? "";
      if (part === "," && depth === 0) break;
      if (part === "{" || part === "[") depth += 1;
      if (part === "}" || part === "]") depth -= 1;
    }
    found.push(inside.slice(begin, end));
    begin = end + ", ".length;
  }
  return found;
}
