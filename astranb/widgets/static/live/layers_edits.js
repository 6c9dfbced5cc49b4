// @ts-check
// Edits of a layer table's run: counterpart of engine/layers/edits.py.

import { toEven } from "../numpy.js";
import { REROUTE, checkedEdit, parametersOf } from "./edits.js";
import { InputError } from "./errors.js";
import { bandwidthOf, networkAfter } from "./layers_network.js";
import { needsPython } from "./needs.js";
import { noOtherRoutes, readValue, written } from "./operations_changes.js";
import { PhaseTimes } from "./phase_times.js";

/** @import { LayerEngine } from "./layers_engine.js" */
/** @import { OperationEngine, Place } from "./operations_types" */
/** @import { PhaseKind } from "./phase_times.js" */
/** @import { Edit } from "./types" */

const COMPUTE = 0;
const MOST_PS = 2 ** 62;

/** Check a change and make an edit of it. @param {OperationEngine} engine @param {string} path @param {unknown} value */
export function readEdit(engine, path, value) {
  if (path === REROUTE) throw noOtherRoutes(path);
  return checkedEdit(path, value, {
    changes: engine.live.about.changes, resolve: engine.place, read: (field) => readValue(field, value, path),
    hint: "change rank[0].speed, layer[NAME].speed, dim[N].bandwidth or dim[N].latency",
    events: engine.count("events"), at_ps: engine.tables.clock.at.now_ps(0),
  });
}

/** Carry an edit out: computations and phases that have begun keep their times. @param {Edit} edit @param {LayerEngine} engine */
export function applyEdit(edit, engine) {
  if (edit.field !== "speed") retime(edit, engine);
  else setSpeed(edit, engine);
}

/** Give all phases the times that they have on the changed network. @param {Edit} edit @param {LayerEngine} engine */
function retime(edit, { live, edits, program, tables: { phases } }) {
  const { kinds, system, congestion } = live.about;
  if (congestion) needsPython(`${edit.path} with congestion`); // Python simulates each kind of phase
  const times = new PhaseTimes(networkAfter(live, [...edits, edit]), system);
  const found = kinds.map((/** @type {PhaseKind} */ kind) => times.time(kind));
  if (found.flat().some((/** @type {number} */ time) => time > Number.MAX_SAFE_INTEGER)) needsPython(`${edit.path} = ${edit.value}`);
  const fields = ["duration_ps", "last_ps", "message_ps"];
  program.kind.forEach((kind, row) => {
    if (kind >= 0) fields.forEach((field, at) => phases.put[field](row, found[kind][at]));
  });
}

/** @param {Edit} edit @param {LayerEngine} engine */
function setSpeed({ kind, path, rows, number }, { tables: { operations }, program: { time_ps: base } }) {
  const { at, put } = operations;
  const slots = new Set(rows);
  let sum = 0;
  /** @type {[row: number, took: number][]} */
  const changed = [];
  for (let row = 0; row < operations.rows; row++) {
    if (at.kind(row) !== COMPUTE) continue;
    const mine = at.begun_ps(row) < 0 && (kind !== "layer" || slots.has(at.slot(row)));
    const took = mine ? toEven(base[row] / number) : at.time_ps(row);
    sum += took;
    if (mine) changed.push([row, took]);
  }
  if (sum > MOST_PS) {
    const hint = "use fewer passes, or smaller times and sizes";
    throw new InputError("the run takes over 50 days of simulated time", { where: path, hint });
  }
  for (const [row, took] of changed) put.time_ps(row, took);
}

/** What can be changed of an object, as it is now. @param {Place} part @param {OperationEngine} engine  */
export function parametersNow(part, { edits, live }) {
  /** @param {string} field */
  const now = (field) => {
    if (field === "speed") return edits.findLast(({ path }) => path === `${part.path}.speed`)?.number ?? 1;
    const [network, { physical }] = [networkAfter(live, edits), live.about.dims[part.dim]];
    return field === "rate_Bpns" ? bandwidthOf(network, physical) / 1e9 : network.latency_ns[physical];
  };
  return parametersOf(part, live.about.changes, (field) => written(field, now(field)));
}
