// @ts-check
// Edits in the middle of a workload's run: counterpart of engine/messages/edits.py. Bringing a link up again sends
// what waits for it, which Python simulates.

import { DOWN, FULLY_CONNECTED, ROUTED } from "./dimension_links.js";
import { REROUTE, checkedEdit, parametersOf, rerouteEdit } from "./edits.js";
import { InputError } from "./errors.js";
import { partition } from "./fabric.js";
import { NEVER } from "./messages_deadlock.js";
import { reverseLink } from "./messages_links.js";
import { needsPython } from "./needs.js";
import { noOtherRoutes, readValue, written } from "./operations_changes.js";

/** @import { Numbers, OperationEngine, Place } from "./operations_types" */
/** @import { Edit, Tables } from "./types" */

const COMPUTE = 0;

/** Whether a part is the dimension that stands for the links of an infrastructure. @param {Place} part @param {Tables} tables */
const isRouted = ({ kind, dim }, { dims }) => kind === "dim" && dims.at.kind(dim) === ROUTED;

/** What only runs of messages have: whether links are those of an infrastructure, and what a path names, of these maybe none.
 * @typedef {{ routed: object | null, named: (path: string) => Place }} Routed */

/** Check a change and make an edit of it. @param {OperationEngine & Routed} engine @param {string} path @param {unknown} value */
export function readEdit(engine, path, value) {
  const { live, tables } = engine;
  if (path === REROUTE) {
    if (!engine.routed) throw noOtherRoutes(REROUTE);
    return rerouteEdit(engine.count("events"), value, engine.now_ps());
  }
  /** @param {string} field @param {Place} part */
  const read = (field, part) => {
    if (isRouted(part, tables)) {
      const hint = "change link[N], which exists with congestion (--fidelity congestion)";
      throw new InputError("the links of an infrastructure have no dimension", { where: path, hint });
    }
    if (part.path.includes("->") && field !== "up") {
      const hint = part.rows.length ? `change link[${part.rows[0]}]` : "no message takes it";
      throw new InputError("a link of several lanes may stand for it", { where: path, hint });
    }
    if (field === "outage_ns" && !tables.config.at.cut_through(0)) {
      throw new InputError("ASTRA-sim 2.0's links have no outage", { where: path, hint: "leave compat out" });
    }
    const number = readValue(field, value, path);
    if (field === "up" && number && part.rows.some((row) => tables.links.at.busy(row) & DOWN)) needsPython("repair");
    return number;
  };
  return checkedEdit(path, value, {
    changes: live.about.changes, resolve: engine.named, read, hint: "change rank[N].speed, dim[N].bandwidth or dim[N].latency",
    events: engine.count("events"), at_ps: engine.now_ps(),
  });
}

/** @param {Tables} tables @param {number} link */
export const takeDown = ({ links }, link) => links.put.busy(link, links.at.busy(link) | DOWN);

/** Carry an edit out: what has begun keeps its times. @param {Edit} edit @param {Tables} tables @param {Numbers} base durations before any edit */
export function applyEdit({ kind, field, rows, number }, tables, base) {
  const { operations, links, wires, queue } = tables;
  if (kind === "rank") {
    const { at, put } = operations;
    const chosen = new Set(rows);
    for (let row = 0; row < operations.rows; row++) {
      if (!chosen.has(at.npu(row)) || at.kind(row) !== COMPUTE || at.start_ns(row) >= 0) continue;
      put.duration_ns(row, Math.min(Math.floor(base[row] / number), NEVER));
    }
  } else if (field === "up") {
    for (const row of rows) if (!number) takeDown(tables, row);
  } else if (field === "outage_ns") {
    const until = queue.at.now(0) + number; // what is not sent until then begins to cross then
    if (number) for (const row of rows) links.put.free_ns(row, Math.max(links.at.free_ns(row), until));
  } else if (kind === "link") {
    for (const row of rows) wires.put[field](row, number);
  } else {
    for (const row of rows) setDimension(tables, row, field, number);
  }
}

/** Set a number of a dimension, of all its links, and in the scheduler of chunks. @param {Tables} tables @param {number} dim @param {string} field @param {number} number */
function setDimension({ dims, wires, config, schedule }, dim, field, number) {
  dims.put[field](dim, number);
  if (config.at.congestion(0)) {
    const last = dim + 1 < dims.rows ? dims.at.first_link(dim + 1) : wires.rows;
    for (let row = dims.at.first_link(dim); row < last; row++) wires.put[field](row, number);
  }
  if (field !== "rate_Bpns") return;
  const whole = dims.at.kind(dim) === FULLY_CONNECTED ? Math.max(1, dims.at.nodes(dim) - 1) : 1; // all links of an NPU
  for (let row = 0; row < schedule.rows; row++) if (schedule.at.links(row) === dim) schedule.put.rate(row, number * whole);
}

/** What can be changed of an object, as it is after the edits. @param {Place} part @param {OperationEngine} engine */
export function parametersNow(part, { live, tables, edits }) {
  if (isRouted(part, tables)) return [];
  return parametersOf(part, live.about.changes, (field) => written(field, valueOf(part.kind, field, part.rows[0], tables, edits)));
}

/** The present value of something that can be changed. @param {string} kind @param {string} field @param {number} row @param {Tables} tables @param {Edit[]} edits */
export function valueOf(kind, field, row, { links, queue, dims, wires }, edits) {
  if (field === "speed") return edits.findLast((edit) => edit.kind === "rank" && edit.rows.includes(row))?.number ?? 1;
  if (field === "up") return links.at.busy(row) & DOWN ? 0 : 1;
  if (field === "outage_ns") {
    const ends = edits.filter((edit) => edit.field === field && edit.rows.includes(row)).map(({ at_ps, number }) => at_ps / 1000 + number);
    return Math.max(0, Math.max(0, ...ends) - queue.at.now(0));
  }
  return (kind === "dim" ? dims : wires).at[field](row);
}

/** A link's full path, and, if wanted, that of its other direction. @param {OperationEngine & Routed} engine @param {string} link @param {boolean} both */
export function directions({ named, tables }, link, both) {
  const place = named(link);
  if (place.kind !== "link") throw new InputError(`${place.path} is not a link`, { where: "take_down", hint: "write link[7]" });
  if (place.path.includes("->")) {
    const [ends, lane] = partition(place.path, "#");
    const [a, b] = partition(ends, "->");
    return both ? [place.path, `${b}->${a}${place.path.includes("#") ? "#" : ""}${lane}`] : [place.path];
  }
  const back = both ? reverseLink(tables, place.rows[0]) : -1;
  if (both && back < 0) {
    const hint = "name both ends: A->B; or take down each of the two";
    throw new InputError("its other direction is not known", { where: place.path, hint });
  }
  return both ? [place.path, `link[${back}]`] : [place.path];
}
