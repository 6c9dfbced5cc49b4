// @ts-check
// What the file of a plan's run is made of: counterpart of widgets/live/saved_file.py.

import { longBytes } from "./longs.js";
import { put } from "./plan_build.js";
import { descrOf } from "./saved_file.js";
import { allocate, createTables } from "./tables.js";

/** @import { PlanRun } from "./plan_about.js" */
/** @import { Layout, Live, SavedArray } from "./types" */

const PROGRAM = ["blocks", "ops", "operands", "slices", "semaphores", "phases", "tiles"];
const THROUGH = "some GPUs reach each other only through other GPUs, which forward their lines";
const TOGETHER = /lines travel as one request/;
const MEMBER = /"((?:[^"\\]|\\.)*)": /y;
const INSIDE = /"(?:[^"\\]|\\.)*"|[{}[\]]|,|[^"{}[\],]+/y;

/**
 * @param {Live} live of the page
 * @param {PlanRun} run
 * @param {(bytes: Uint8Array<ArrayBuffer>) => number} add adds a column
 * @returns {Live["saved"] | null} null: only Python can write it
 */
export function savedFile({ saved, tables: layouts }, run, add) {
  const { plan, collective, size, title, program, lowered, samePresets, through, lineBytes } = run;
  if (!saved || !samePresets) return null;
  const members = membersOf(saved.document);
  if (!members.has("collective")) return null; // a workload: its program is not in the file
  members.set("collective", text({
    algorithm: plan.name, name: collective, size, channels: null, root: 0, protocol: plan.protocol, chunk_bytes: null, chunks: null, params: {},
  }));
  members.set("program", text({
    phase_names: [plan.name], name: title, ranks: program.ranks, channels: program.width, line_bytes: lineBytes, flags: lowered.flags,
  }));
  members.set("source", "[]");
  members.delete("contract");
  const assumed = /** @type {string[]} */ (JSON.parse(members.get("assumed") ?? "[]")).filter((note) => note !== THROUGH);
  if (through) assumed.splice(assumed.length - (assumed.some((note) => TOGETHER.test(note)) ? 1 : 0), 0, THROUGH);
  members.set("assumed", text(assumed));

  const rows = /** @type {Record<string, number>} */ ({ ...lowered.rows, tiles: 0 });
  const own = layouts.filter(({ name }) => PROGRAM.includes(name)).map((layout) => ({ ...layout, rows: rows[layout.name] }));
  const tables = createTables(allocate(own), own);
  const records = /** @type {Record<string, Record<string, Float64Array>>} */ (/** @type {object} */ (lowered));
  for (const { name } of own) if (records[name]) put(tables[name], records[name]);
  /** @param {string} name @param {string} descr @param {Uint8Array<ArrayBuffer>} bytes @param {number} length @returns {SavedArray} */
  const array = (name, descr, bytes, length) => ({ name, data: add(bytes), descr, shape: [length] });
  const { ops } = lowered.rows;
  return {
    document: Array.from(members, ([name, value]) => `"${name}": ${value}`).join(", "),
    arrays: [
      ...saved.arrays.filter(({ name }) => name.startsWith("state/")),
      ...PROGRAM.map((name) => {
        const layout = /** @type {Layout} */ (own.find((one) => one.name === name));
        return array(`program/${name}`, descrOf(layout), tables[name].bytes().slice(), layout.rows);
      }),
      array("program/block_channel", "[('', '<i8')]", longBytes(lowered.channels), lowered.channels.length),
      array("program/lines", "[('', '<i8')]", longBytes(lowered.lines), lowered.lines.length),
      array("source/part", "[('', '<i4')]", new Uint8Array(new Int32Array(ops).fill(-1).buffer), ops),
      array("source/line", "[('', '<i4')]", new Uint8Array(new Int32Array(ops).buffer), ops),
    ],
  };
}

/** JSON in ASCII. @param {unknown} value */
const text = (value) => JSON.stringify(value).replace(/[^\x20-\x7e]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** The members of a document without its braces, as text. @param {string} document */
function membersOf(document) {
  /** @type {Map<string, string>} */
  const found = new Map();
  for (let at = 0; at < document.length; ) {
    MEMBER.lastIndex = at;
    const name = MEMBER.exec(document)?.[1] ?? "";
    const begin = MEMBER.lastIndex;
    let end = begin;
    for (let depth = 0; end < document.length; end = INSIDE.lastIndex) {
      INSIDE.lastIndex = end;
      const part = INSIDE.exec(document)?.[0] ?? "";
      if (part === "," && depth === 0) break;
      if (part === "{" || part === "[") depth += 1;
      if (part === "}" || part === "]") depth -= 1;
    }
    found.set(name, document.slice(begin, end));
    at = end + ", ".length;
  }
  return found;
}
