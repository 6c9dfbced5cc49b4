// @ts-check
// Edits of a layer table's run: counterpart of engine/layers/edits.py. What phases take on another network is
// worked out by Python.

import { toEven } from "../numpy.js";
import { REROUTE, checkedEdit, parametersOf } from "./edits.js";
import { InputError } from "./errors.js";
import { needsPython } from "./needs.js";
import { noOtherRoutes, readValue, written } from "./operations_changes.js";

/** @import { Numbers, OperationEngine, Place } from "./operations_types" */
/** @import { Edit, Tables } from "./types" */

const COMPUTE = 0;
const MOST_PS = 2 ** 62;

/** Check a change and make an edit of it. @param {OperationEngine} engine @param {string} path @param {unknown} value */
export function readEdit(engine, path, value) {
  if (path === REROUTE) throw noOtherRoutes(path);
  const edit = checkedEdit(path, value, {
    changes: engine.live.about.changes, resolve: engine.place, read: (field) => readValue(field, value, path),
    hint: "change rank[0].speed, layer[NAME].speed, dim[N].bandwidth or dim[N].latency",
    events: engine.count("events"), at_ps: engine.tables.clock.at.now_ps(0),
  });
  return edit.field === "speed" ? edit : needsPython(edit.path);
}

/** Carry an edit out: computations that have begun keep their times. @param {Edit} edit @param {Tables} tables @param {Numbers} base times before any edit */
export function applyEdit({ kind, path, rows, number }, { operations }, base) {
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
    const { bandwidth_Bps, latency_ns } = live.about.dims[part.dim];
    return field === "rate_Bpns" ? bandwidth_Bps / 1e9 : latency_ns;
  };
  return parametersOf(part, live.about.changes, (field) => written(field, now(field)));
}
