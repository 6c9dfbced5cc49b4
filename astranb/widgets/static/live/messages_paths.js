// @ts-check
// Paths of the objects of a workload's run, and breakpoints on them: counterpart of engine/messages/paths.py and breakpoints.py.

import { breakpoint, unknownKind } from "./engine_breakpoints.js";
import { own } from "./edits.js";
import { InputError, near } from "./errors.js";
import { repr } from "./text.js";

/** @import { About, Place } from "./operations_types" */
/** @import { Tables } from "./types" */
/** @import { ConditionField } from "./engine_breakpoints.js" */

/** What a condition may name: by kind of object, the word and the field of the table. @type {Record<string, Record<string, string>>} */
export const FIELDS = {
  rank: { waiting: "ready", ongoing: "ongoing", compute_ns: "compute_ns", end_ns: "end_ns" },
  op: { waits: "waits", start_ns: "start_ns", end_ns: "end_ns", chunks: "streams", chunks_done: "streams_done" },
  queue: { running: "running" },
};
/** @type {Record<string, number>} */
const OWNERS = { rank: 0, op: 1, queue: 2 };
const PART = /^(rank|npu|op|dim|link)\[([^\]]*)\]$/;
const HINT = "write rank[3], rank[3].op[0], rank[3].dim[1], dim[0] or link[5]";
const KNOWN = ["rank", "rank op", "rank dim", "dim", "link"];

/** The first characters of a text. @param {string} text @param {number} most */
export const shortened = (text, most) => Array.from(text).slice(0, most).join("");

/** An object, as far as nothing else is said. @param {Pick<Place, "kind" | "path" | "rows"> & Partial<Place>} said @returns {Place} */
export const place = (said) => ({ npu: -1, operation: -1, dim: -1, layer: -1, part: -1, ...said });

/** The number of an object in a path; `names` are what one may write instead. @param {string} text @param {number} count @param {string} what @param {string} path @param {string[]} [names] */
export function numberOf(text, count, what, path, names = []) {
  if (!/^[0-9]{1,11}$/.test(text) || Number(text) >= count) {
    const [short, where] = [shortened(text, 40), shortened(path, 80)];
    throw new InputError(`no ${what} ${repr(short)}`, { where, hint: names.length ? near(short, names) : `0 to ${count - 1}` });
  }
  return Number(text);
}

/** An operation of a rank by its number within the rank, or by its name. @param {string} text @param {number} rank @param {About} about @param {string} path */
export function operationRow(text, rank, about, path) {
  const rows = about.rows_of(rank);
  if (/^[0-9]+$/.test(text)) return rows[numberOf(text, rows.length, "operation", path)];
  const names = rows.map(about.label);
  if (!names.includes(text)) {
    const short = shortened(text, 40);
    throw new InputError(`rank ${rank} has no operation ${repr(short)}`, { where: shortened(path, 80), hint: near(text, names) });
  }
  return rows[names.indexOf(text)];
}

/** Find what a path names. @param {string} path @param {About} about @param {Tables} tables @returns {Place} */
export function resolve(path, about, { config, npus, links }) {
  const parts = path.trim().split(/\.(?=(?:op|dim)\[)/).map((part) => PART.exec(part));
  const found = parts.flatMap((part) => (part ? [{ kind: part[1] === "npu" ? "rank" : part[1], which: part[2].trim() }] : []));
  const kinds = found.map(({ kind }) => kind).join(" ");
  if (found.length !== parts.length || !KNOWN.includes(kinds)) {
    throw new InputError("names nothing", { where: shortened(path, 80) || "an empty path", hint: HINT });
  }
  const dims = config.at.dims(0);
  if (kinds === "dim") {
    const dim = numberOf(found[0].which, dims, "dimension", path);
    return place({ kind: "dim", path: `dim[${dim}]`, rows: [dim], dim });
  }
  if (kinds === "link") {
    const count = config.at.congestion(0) ? links.rows : 0;
    if (!count) throw new InputError("this run has no links", { where: path, hint: "links are simulated with congestion (--fidelity congestion)" });
    const link = numberOf(found[0].which, count, "link", path);
    return place({ kind: "link", path: `link[${link}]`, rows: [link] });
  }
  const npu = numberOf(found[0].which, npus.rows, "rank", path);
  if (kinds === "rank") return place({ kind: "rank", path: `rank[${npu}]`, rows: [npu], npu });
  if (kinds === "rank dim") {
    const dim = numberOf(found[1].which, dims, "dimension", path);
    const [each, lanes] = [config.at.queues(0), config.at.lanes(0)];
    const rows = Array.from({ length: lanes * each }, (_, at) => ((npu * lanes + Math.floor(at / each)) * dims + dim) * each + (at % each));
    return place({ kind: "queue", path: `rank[${npu}].dim[${dim}]`, rows, npu, dim });
  }
  const operation = operationRow(found[1].which, npu, about, path);
  return place({ kind: "op", path: about.path(operation), rows: [operation], npu, operation });
}

/** The field that a condition's word means. @param {Place} found @param {string} word @returns {ConditionField} */
export function conditionField({ kind, path, rows }, word) {
  const known = own(FIELDS, kind) ?? {};
  const field = own(known, word);
  if (field === undefined) {
    const words = Object.keys(known);
    const hint = words.length ? near(word, words) : "ranks, operations and a rank's dimensions have some";
    throw new InputError(`no field ${repr(word)}`, { where: path, hint });
  }
  return { path, owner: OWNERS[kind], rows, field, word };
}

const [BEGINS, ENDS, SENT, DELIVERED, PHASE_BEGINS, PHASE_ENDS] = Array(6).keys();
/** The events that one can stop on: what happens, and of which kind of operation. @type {Record<string, [what: number, kind: number]>} */
export const EVENTS = {
  operation_begin: [BEGINS, -1], operation_end: [ENDS, -1], compute_begin: [BEGINS, 0], compute_end: [ENDS, 0],
  collective_begin: [BEGINS, 1], collective_end: [ENDS, 1], send: [SENT, -1], message: [DELIVERED, -1],
  phase_begin: [PHASE_BEGINS, -1], phase_end: [PHASE_ENDS, -1],
};

/** Stop after an event of a kind that concerns an object. @param {string | null} kind @param {string | null} path @param {About} about @param {Tables} tables */
export function onEvent(kind, path, about, tables) {
  unknownKind(kind, path, Object.keys(EVENTS));
  const found = path === null ? place({ kind: "rank", path: "", rows: [] }) : resolve(path, about, tables);
  if (found.kind === "link") throw new InputError("nothing stops at a link", { where: found.path, hint: "name a rank, an operation, a dim" });
  return eventBreakpoint(kind, found.path, EVENTS, { npu: found.npu, operation: found.operation, dim: found.dim });
}

/**
 * A breakpoint on events of a kind, or of all kinds.
 * @param {string | null} kind
 * @param {string} path the object's, in full; empty: any
 * @param {Record<string, [what: number, kind: number]>} events
 * @param {Record<string, number>} row the object, as the compiled table describes it
 */
export function eventBreakpoint(kind, path, events, row) {
  const every = [...new Set(Object.values(events).map(([what]) => what))].sort((a, b) => a - b);
  /** @type {[what: number, kind: number][]} */
  const possible = kind === null || kind === "" ? every.map((what) => [what, -1]) : [events[kind]];
  const found = possible.filter(
    ([what]) =>
      (row.dim < 0 || what === PHASE_BEGINS || what === PHASE_ENDS) && (row.operation < 0 || (what !== SENT && what !== DELIVERED)),
  );
  if (!found.length) {
    throw new InputError(`no ${kind} is known by that`, { where: path, hint: row.operation >= 0 ? "name a rank" : "take phase_begin or phase_end" });
  }
  const text = (kind || "whatever happens").replaceAll("_", " ");
  const rows = found.map(([what, sort]) => ({ ...row, what, kind: sort }));
  return breakpoint({ text: `${text}${path ? ` of ${path}` : ""}`, rows, object: path });
}
