// @ts-check
// The file that `Simulation.save` writes, written and read in a page: counterpart of sim/store.py.
// What it is made of comes from Python (widgets/live/saved_file.py).

import { plainBytes, readArchive, writeArchive } from "./archive.js";
import { isRerouted } from "./edits.js";
import { InputError } from "./errors.js";
import { checkedPlan, lineOf } from "./shared_plan.js";
import { checkedState } from "./shared_state.js";
import { fill } from "./tables.js";

/** @import { Layout, PageKernel, SavedArray, SharedPlan, SharedState, Sim } from "./types" */
/** @import { NamedArray } from "./archive.js" */
/** @import { Steps } from "./steps.js" */

const WHAT = "a saved simulation";
const CHANGING = new Set(["edits", "breakpoints", "watches", "notes", "budget_bytes", "events", "hash"]);
const [STATE, START] = ["state/", "start/"];
const INPUTS = "inputs";
const HINT = { hint: "Workbench.load(path) opens it in JupyterLab" };
const NUMBERS = /:\s*(-?)Infinity/g; // which Python's JSON has

const encoder = new TextEncoder();

/** What Python calls the fields of a table's type. @param {Layout} layout */
export function descrOf({ fields }) {
  const typed = fields.map(([name, type]) => `('${name === "value" && fields.length === 1 ? "" : name}', '${type.endsWith("1") ? "|" : "<"}${type}')`);
  return `[${typed.join(", ")}]`;
}

/** A table as it was at the start. @param {Layout} layout @param {Uint8Array[]} columns */
function startOf({ rows, size, parts, data }, columns) {
  const bytes = new Uint8Array(rows * size);
  fill({ size, bytes: () => bytes }, parts, columns[data]);
  return bytes;
}

/**
 * An array of the file.
 * @param {SavedArray} saved
 * @param {Sim} sim
 * @param {Uint8Array[]} columns
 * @returns {NamedArray}
 */
function arrayOf({ now, start, data, descr, shape = [] }, { engine }, columns) {
  if (data !== undefined) return { descr, shape, bytes: columns[data] };
  const layout = /** @type {Layout} */ (engine.live.tables.find(({ name }) => name === (now ?? start)));
  if (start !== undefined) return { descr, shape: [layout.rows], bytes: startOf(layout, columns) };
  const table = engine.tables[layout.name];
  return { descr, shape: [table.rows], bytes: table.bytes() };
}

/**
 * The file of a page's simulation now, in parts.
 * @param {PageKernel} kernel
 * @param {Uint8Array[]} columns
 * @param {Omit<SharedState, "hash">} state the present one
 * @returns {Steps<Uint8Array[] | null>} parts that are bytes of the machine as it is now; null: it was stopped
 */
export function* fileOf({ sim }, columns, { events, breakpoints, watches, shown }) {
  const { saved, plan } = sim.engine.live;
  const notes = { workbench: shown, plan: plan && { name: plan.name, size: plan.size, text: lineOf(plan) } };
  let grown = {};
  if (isRerouted(sim.edits)) {
    const hash = yield* sim.state_hash();
    if (hash === null) return null;
    grown = { events, hash }; // whoever reads it goes there by running
  }
  const changing = { edits: sim.edits, breakpoints, watches, notes, ...grown };
  const text = JSON.stringify(changing, (_, value) => (value === Infinity ? "\0Infinity" : value)).replace(/"\\u0000Infinity"/g, "Infinity");
  const document = `${text.slice(0, -1)}, ${saved.document}}`;
  const arrays = new Map(saved.arrays.map((array) => [array.name, arrayOf(array, sim, columns)]));
  return yield* writeArchive(arrays.set(INPUTS, plainBytes(encoder.encode(document))));
}

/** @typedef {{ arrays: Map<string, NamedArray>, document: Record<string, any>, plan: SharedPlan | null }} SavedFile `plan`: that was opened on the page that wrote it */

/** Read a file, of whatever run. @param {Uint8Array} file @returns {Steps<SavedFile | null>} null: it was stopped */
export function* readSavedFile(file) {
  const arrays = yield* readArchive(file, WHAT);
  if (!arrays) return null;
  const document = documentOf(new TextDecoder().decode(arrays.get(INPUTS)?.bytes));
  const plan = document.notes?.plan;
  return { arrays, document, plan: checkedPlan(plan, plan?.text) };
}

/**
 * The state in a file of the same run as the page's.
 * @param {SavedFile} file
 * @param {PageKernel} kernel
 * @param {Uint8Array[]} columns
 * @returns {Steps<SharedState | null>} null: it was stopped
 */
export function* stateOfFile({ arrays, document }, { sim }, columns) {
  const { saved } = sim.engine.live;
  const own = documentOf(`{${saved.document}}`);
  if (document.format !== own.format) throw new InputError(`written by another version (${String(document.format).slice(0, 80)})`);
  // Where routes have changed, there may be more links, behind those of the start.
  const { links } = document;
  if (document.hash !== undefined && Array.isArray(links) && Array.isArray(own.links)) document.links = links.slice(0, own.links.length);
  for (const name of new Set([...Object.keys(own), ...Object.keys(document)])) {
    if (!CHANGING.has(name) && !isSame(own[name], document[name])) throw ofAnotherRun(name);
  }
  for (const array of saved.arrays) {
    const found = arrays.get(array.name);
    if (found?.descr !== array.descr) throw ofAnotherRun(array.name);
    const ofMachine = array.name.startsWith(STATE) || array.name.startsWith(START);
    if (!ofMachine && !isEqual(arrayOf(array, sim, columns).bytes, found.bytes)) throw ofAnotherRun(array.name);
    if (yield 0) return null;
  }
  if ([...arrays.keys()].some((name) => name.startsWith(START))) {
    const start = yield* stateIn(arrays, START, sim);
    if (start.hash === null) return null;
    if (start.hash !== sim.engine.live.inputs) throw ofAnotherRun("start");
  }
  const { events, hash } = document.hash === undefined ? yield* stateIn(arrays, STATE, sim) : document; // of routes that have changed tables have grown
  if (hash === null) return null;
  const { edits, breakpoints, watches, notes } = document;
  const points = Array.isArray(breakpoints) ? breakpoints.map((point) => ({ object: "", ...point })) : [];
  return checkedState({ events, edits, breakpoints: points, watches, hash, shown: notes?.workbench ?? {} });
}

/** @param {string} name */
const ofAnotherRun = (name) => new InputError(`a file of another run than this page's: it differs in “${name.slice(0, 80)}”`, HINT);

/** @param {string} text @returns {Record<string, any>} */
function documentOf(text) {
  try {
    const found = JSON.parse(text.replace(NUMBERS, ":$11e999"));
    if (typeof found === "object" && found) return found;
  } catch {
    // no JSON: the error is that of what holds no document
  }
  throw new InputError(`not ${WHAT}`);
}

/** Whether two parts of JSON are the same. @param {unknown} a @param {unknown} b @returns {boolean} */
function isSame(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || !a || !b) return false;
  const [one, other] = [Object.entries(a), Object.entries(b)];
  return one.length === other.length && Array.isArray(a) === Array.isArray(b) && one.every(([name, value]) => Object.hasOwn(b, name) && isSame(value, /** @type {any} */ (b)[name]));
}

/** @param {Uint8Array} a @param {Uint8Array} b */
const isEqual = (a, b) => a.length === b.length && a.every((byte, k) => byte === b[k]);

/**
 * How far a saved state is, and its hash: looked at in a copy of the machine.
 * @param {Map<string, NamedArray>} arrays
 * @param {string} folder of the tables among the arrays
 * @param {Sim} sim
 * @returns {Steps<{ events: number, hash: string | null }>}
 */
function* stateIn(arrays, folder, sim) {
  const copy = sim.engine.replica();
  const tables = [...arrays].filter(([name]) => name.startsWith(folder)).map(([name, { bytes }]) => ({ name: name.slice(folder.length), bytes }));
  for (const { name } of tables) if (!Object.hasOwn(copy.tables, name)) throw ofAnotherRun(name);
  copy.resize(Object.fromEntries(tables.map(({ name, bytes }) => [name, bytes.length])));
  for (const { name, bytes } of tables) {
    const own = copy.tables[name].bytes();
    if (own.length !== bytes.length) throw ofAnotherRun(name);
    own.set(bytes);
  }
  return { events: copy.count("events"), hash: yield* copy.digest() };
}
