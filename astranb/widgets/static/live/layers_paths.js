// @ts-check
// Paths of the objects of a layer table's run, and breakpoints on them: counterpart of engine/layers/paths.py and breakpoints.py.

import { unknownKind } from "./engine_breakpoints.js";
import { own } from "./edits.js";
import { InputError, near } from "./errors.js";
import { eventBreakpoint, numberOf, operationRow, place, shortened } from "./messages_paths.js";
import { repr } from "./text.js";

/** @import { About, Place } from "./operations_types" */
/** @import { Live, Tables } from "./types" */
/** @import { ConditionField } from "./engine_breakpoints.js" */
/** @import { Program } from "./layers_engine.js" */

/** The parts of a layer: forward pass, input gradient, weight gradient. */
export const PARTS = ["FWD", "IG", "WG"];
const [CLOCK, OPERATIONS, SLOTS, COLLECTIVES, QUEUES] = Array(5).keys(); // tables that conditions may name, as the loop knows them

/** What a condition may name: by kind of object, the word, its table and the table's field. @type {Record<string, Record<string, [owner: number, field: string]>>} */
export const FIELDS = {
  rank: {
    waiting: [CLOCK, "waiting"], ongoing: [CLOCK, "under_way"], chunks: [CLOCK, "streams_left"], passes: [CLOCK, "passes"],
    compute_ps: [CLOCK, "compute_ps"], end_ps: [CLOCK, "end_ps"],
  },
  op: {
    start_ps: [OPERATIONS, "begun_ps"], end_ps: [OPERATIONS, "ended_ps"],
    chunks: [COLLECTIVES, "chunks"], chunks_done: [COLLECTIVES, "over"],
  },
  layer: {
    ongoing: [SLOTS, "under_way"], waiting: [SLOTS, "waiting"], compute_ps: [SLOTS, "compute_ps"], exposed_ps: [SLOTS, "exposed_ps"],
    total_ps: [SLOTS, "total_ps"],
  },
  dim: { running: [QUEUES, "running"], inside: [QUEUES, "inside"], chunks_done: [QUEUES, "chunks"] },
};
const PATH = /^(?:rank|npu)\[([^\]]*)\](?:\.(op|dim)\[(.*)\])?$/;
const DIM = /^dim\[([^\]]*)\]$/;
const LAYER = /^layer\[(.*)\](?:\.([\p{L}\p{N}_]+))?$/u;
const HINT = "write rank[0], rank[0].op[0], layer[NAME], layer[NAME].wg or dim[0]";

/** The rows of a layer's parts, or of one of them. @param {number} layer @param {number} part -1: all */
const slotsOf = (layer, part) => (part < 0 ? [0, 1, 2] : [part]).map((one) => 3 * layer + one);

/** @param {number} layer @param {string[]} names @param {string | undefined} part @param {string} path @returns {Place} */
function layerPlace(layer, names, part, path) {
  const words = PARTS.map((word) => word.toLowerCase());
  const full = `layer[${names[layer]}]`;
  if (part === undefined) return place({ kind: "layer", path: full, rows: slotsOf(layer, -1), layer });
  const number = words.indexOf(part.toLowerCase());
  if (number < 0) throw new InputError(`a layer has no ${repr(shortened(part, 40))}`, { where: shortened(path, 80), hint: near(part, words) });
  return place({ kind: "layer", path: `${full}.${words[number]}`, rows: slotsOf(layer, number), layer, part: number });
}

/** Find what a path names; a layer's name alone names the layer. @param {string} path @param {About} about @param {Live} live @returns {Place} */
export function resolve(path, about, { about: { layers, stands_for } }) {
  const text = path.trim();
  if (layers.includes(text)) return layerPlace(layers.indexOf(text), layers, undefined, path);
  const asLayer = LAYER.exec(text);
  if (asLayer) {
    const which = asLayer[1].trim();
    const layer = layers.includes(which) ? layers.indexOf(which) : numberOf(which, layers.length, "layer", path, layers);
    return layerPlace(layer, layers, asLayer[2], path);
  }
  /** @param {string} which */
  const dimension = (which) => {
    const dim = numberOf(which, about.topology.length, "dimension", path);
    return place({ kind: "dim", path: `dim[${dim}]`, rows: [dim], dim });
  };
  const asDim = DIM.exec(text);
  if (asDim) return dimension(asDim[1]);
  const found = PATH.exec(text);
  if (!found) throw new InputError("names nothing", { where: shortened(path, 80) || "an empty path", hint: HINT });
  const rank = numberOf(found[1], stands_for, "rank", path);
  if (rank) {
    const hint = `write rank[0], which stands for all ${stands_for}`;
    throw new InputError(`rank ${rank} does what rank 0 does, at the same time`, { where: shortened(path, 80), hint });
  }
  if (found[2] === "dim") return dimension(found[3]);
  if (found[2] === "op") {
    const operation = operationRow(found[3].trim(), 0, about, path);
    return place({ kind: "op", path: about.path(operation), rows: [-1], operation });
  }
  return place({ kind: "rank", path: "rank[0]", rows: [-1] });
}

/** The field that a condition's word means. @param {Place} found @param {string} word @param {Tables} tables @param {About} about @param {Program} program @returns {ConditionField} */
export function conditionField({ kind, path, rows: slots, operation, dim }, word, { clock, operations }, about, program) {
  const known = FIELDS[kind];
  const field = own(known, word);
  if (!field) throw new InputError(`no field ${repr(word)}`, { where: path, hint: near(word, Object.keys(known)) });
  let rows = [0];
  if (kind === "op") {
    rows = [program.at[operation]];
    if (field[0] === COLLECTIVES) {
      if (about.kind[operation] === 0) throw new InputError(`a computation has no ${word}`, { where: path, hint: "name a collective" });
      rows = [operations.at.slot(rows[0])];
    }
  } else if (kind === "layer") rows = slots;
  else if (kind === "dim") {
    const each = clock.at.queues(0);
    rows = Array.from({ length: each }, (_, at) => dim * each + at);
  }
  return { path, owner: field[0], rows, field: field[1], word };
}

/** The events that one can stop on: what happens, and in which of the program's rows. @type {Record<string, [what: number, kind: number]>} */
export const EVENTS = {
  operation_begin: [0, -1], operation_end: [1, -1], compute_begin: [0, 0], compute_end: [1, 0],
  collective_begin: [0, 1], collective_end: [1, 1], phase_begin: [4, -1], phase_end: [5, -1],
};

/** Stop after an event of a kind that concerns an object. @param {string | null} kind @param {string | null} path @param {About} about @param {Live} live @param {Program} program */
export function onEvent(kind, path, about, live, program) {
  unknownKind(kind, path, Object.keys(EVENTS));
  const found = path === null ? place({ kind: "rank", path: "", rows: [] }) : resolve(path, about, live);
  const operation = found.operation >= 0 ? program.at[found.operation] : -1;
  return eventBreakpoint(kind, found.path, EVENTS, { operation, layer: found.layer, part: found.part, dim: found.dim });
}
