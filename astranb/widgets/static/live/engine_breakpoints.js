// @ts-check
// Breakpoints: at a time, on an event of an object, when a condition becomes true. Counterpart of engine/breakpoints.py.

import { InputError, near } from "./errors.js";
import { commas, repr } from "./text.js";
import { bandwidthBps, formatBandwidth, formatBytes, formatTime, sizeBytes, timePs } from "./units.js";

/** @import { Breakpoint, Table } from "./types" */
/**
 * A field that a condition names: its object's full path, the number of its table among those that conditions may
 * name, rows of it, and what the table and what people call it.
 * @typedef {{ path: string, owner: number, rows: number[], field: string, word: string }} ConditionField
 */

const RELATIONS = ["<", "<=", "==", "!=", ">=", ">"];
const CONDITION = /^([^\n]+?)\s*(<=|>=|==|!=|<|>)\s*([^<>=!]+)$/;

/** What a breakpoint is, as far as nothing else is said. */
const PLAIN = { at_ps: null, rows: [], object: "", enabled: true };

/** @param {Partial<Breakpoint> & { text: string }} said @returns {Breakpoint} */
export const breakpoint = (said) => ({ ...PLAIN, ...said });

/** Stop when everything up to a time has happened. @param {unknown} when */
export function atTime(when) {
  const at_ps = timePs(when, "breakpoint");
  return breakpoint({ text: `at ${formatTime(at_ps)}`, at_ps });
}

/**
 * Stop when a condition on a field becomes true: `<path>.<field> <op> <number>`.
 * @param {string} text
 * @param {(left: string) => ConditionField} find
 * @param {Table[]} owners the tables that conditions may name
 * @param {Record<string, number>} base what a row of the compiled table says of a condition besides
 * @param {string} example for the error message
 */
export function condition(text, find, owners, base, example) {
  const match = CONDITION.exec(text.trim());
  if (!match) throw new InputError(`cannot read the condition ${repr(text)}`, { hint: `write <path>.<field> <op> <number>, as ${example}` });
  const [, left, relation] = match;
  const found = find(left);
  const value = match[3].trim();
  const names = namesOf(owners[found.owner]);
  const number = numberOf(value, found.field);
  const rows = found.rows.map((row) => ({
    ...base, owner: found.owner, place: row * names.length + names.indexOf(found.field), relation: RELATIONS.indexOf(relation), value: number,
  }));
  return breakpoint({ text: `${found.path}.${found.word} ${relation} ${value}`, rows, object: found.path });
}

/**
 * Whether a breakpoint from a file is one, and names fields that there are.
 * @param {any} point
 * @param {Table} table that breakpoints are written into
 * @param {Table[]} owners
 * @returns {point is Breakpoint}
 */
export function isPoint(point, table, owners) {
  const { text, at_ps, rows, object, enabled } = point;
  const known = new Set(namesOf(table));
  const numbers = [at_ps ?? 0, ...rows.flatMap((/** @type {object} */ row) => Object.values(row))];
  const fine = typeof text === "string" && typeof object === "string" && typeof enabled === "boolean";
  if (!fine || !rows.flatMap(Object.keys).every((/** @type {string} */ name) => known.has(name)) || !numbers.every((number) => Number.isInteger(number) && Math.abs(number) < 2 ** 63)) return false;
  return rows.filter(isCondition).every((/** @type {Record<string, number>} */ { owner, place, relation }) => {
    const words = owner < owners.length ? owners[owner].rows * namesOf(owners[owner]).length : 0;
    return place >= 0 && place < words && relation >= 0 && relation < RELATIONS.length;
  });
}

/**
 * Write the enabled breakpoints into a compiled table; returns the breakpoint of each row.
 * @param {Breakpoint[]} points
 * @param {Table} table
 * @param {Table[]} owners
 */
export function install(points, table, owners) {
  const enabled = points.filter((point) => point.enabled).flatMap((point) => point.rows.map((row) => ({ point, row })));
  if (enabled.length > table.rows) {
    const hint = "remove some, or name one lane of a link";
    throw new InputError(`${enabled.length} compiled breakpoints, ${table.rows} fit`, { where: "breakpoints", hint });
  }
  enabled.forEach(({ row }, number) => {
    table.put.owner(number, -1); // unless the row says which table it reads
    for (const [name, value] of Object.entries(row)) table.put[name](number, value);
    table.put.was(number, Number(isCondition(row) && holds(row, owners)));
  });
  return enabled.map(({ point }) => point);
}

/**
 * What a condition's field is now, in words; empty for an event or a time.
 * @param {Breakpoint} point
 * @param {Table[]} owners
 */
export function foundAt({ rows }, owners) {
  if (!rows.length || !isCondition(rows[0])) return "";
  const names = namesOf(owners[rows[0].owner]);
  const name = names[rows[0].place % names.length];
  const values = rows.map((row) => valueOf(row, owners)).sort((a, b) => a - b);
  const [least, most] = [values[0], values[values.length - 1]];
  return `${name} is ${withUnit(name, least)}${least === most ? "" : ` to ${withUnit(name, most)}`}`;
}

/** A field's number with the unit that the end of its name says. @param {string} name @param {number} number */
export function withUnit(name, number) {
  if (name.endsWith("_ps")) return number >= 0 ? formatTime(number) : "not yet";
  if (name.endsWith("_ns")) return number >= 0 ? formatTime(number * 1000) : "not yet";
  if (name.endsWith("_Bps")) return formatBandwidth(number);
  return name === "bytes" || name.endsWith("_bytes") ? formatBytes(number) : commas(number);
}

/**
 * Refuse a breakpoint on an event that has neither a known kind nor an object.
 * @param {string | null} kind
 * @param {string | null} path
 * @param {string[]} kinds
 */
export function unknownKind(kind, path, kinds) {
  const where = "break_on";
  if (kind === null && path === null) throw new InputError("a breakpoint needs an event kind or an object", { where });
  if (kind !== null && !kinds.includes(kind)) throw new InputError(`unknown event kind ${repr(kind)}`, { where, hint: near(kind, kinds) });
}

/** @param {Table} table */
const namesOf = ({ fields }) => fields.map(([name]) => name);

/** @param {Record<string, number>} row */
const isCondition = (row) => (row.owner ?? -1) >= 0;

/** @param {Record<string, number>} row @param {Table[]} owners */
function valueOf({ owner, place }, owners) {
  const names = namesOf(owners[owner]);
  return owners[owner].at[names[place % names.length]](Math.floor(place / names.length));
}

/** Whether a condition holds now: it stops the run only when it becomes true. @param {Record<string, number>} row @param {Table[]} owners */
function holds(row, owners) {
  const [found, value] = [valueOf(row, owners), row.value];
  return [found < value, found <= value, found === value, found !== value, found >= value, found > value][row.relation];
}

/** The number of a condition, with the unit that the field's name says. @param {string} text @param {string} name */
function numberOf(text, name) {
  const where = "condition";
  if (/^[+-]?\d{1,18}$/.test(text)) return Number(text);
  if (name.endsWith("_ps")) return timePs(text, where);
  if (name.endsWith("_ns")) return Math.floor(timePs(text, where) / 1000);
  if (name.endsWith("_Bps")) return bandwidthBps(text, where);
  if (name === "bytes" || name.endsWith("_bytes")) return sizeBytes(text, where);
  throw new InputError(`${repr(text)} is not a whole number`, { where });
}
