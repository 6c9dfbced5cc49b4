// @ts-check
// What both engines of operations show of a rank and of an operation: counterpart of engine/operations/inspection.py.

import { STATES } from "./operations_about.js";
import { commas } from "./text.js";
import { formatTime } from "./units.js";

/** @import { OperationEngine, Place, Shown } from "./operations_types" */

/** Objects of one kind that are listed. */
export const MOST = 64;

/** A time that may not have come yet. @param {number} ps */
export const when = (ps) => (ps >= 0 ? formatTime(ps) : "not yet");

/** Look at an object. @param {OperationEngine} engine @param {Place} place @param {Record<string, (engine: OperationEngine, place: Place) => Shown>} inspectors */
export function inspectPlace(engine, place, inspectors) {
  const found = { title: place.path, kind: place.kind, path: place.path, in_flight: [], children: [], ...inspectors[place.kind](engine, place) };
  return { in_flight_count: found.in_flight.length, ...found };
}

/** Operations as objects to inspect next. @param {OperationEngine} engine @param {number[]} rows */
export function listed(engine, rows) {
  const [{ about }, times] = [engine, engine.times_ps()];
  return rows.map((row) => ({ path: about.path(row), text: `${about.label(row)} · ${STATES[engine.state(row, times)]}` }));
}

/** How many of a rank's operations are in each state, and which are under way. @param {OperationEngine} engine @param {number[]} rows @returns {Shown["state"]} */
export function rankLines(engine, rows) {
  const times = engine.times_ps();
  const states = rows.map((row) => engine.state(row, times));
  const each = STATES.map((word, state) => ({ word, count: states.filter((one) => one === state).length })).filter(({ count }) => count);
  const running = rows.filter((_, at) => states[at] === 2).slice(0, 4).map(engine.about.text).join(", ");
  const counts = each.map(({ word, count }) => `${commas(count)} ${word}`).join(", ");
  return [
    ["operations", rows.length ? `${commas(rows.length)}: ${counts}` : "none"],
    ["under way", running || "nothing"],
  ];
}

/** What an operation is, its state, and when it begins and ends. @param {OperationEngine} engine @param {number} row @returns {Shown["state"]} */
export function operationLines(engine, row) {
  const times = engine.times_ps();
  const [start, end] = [times.start[row], times.end[row]];
  /** @type {Shown["state"]} */
  const lines = [
    ["what", engine.about.what(row)],
    ["state", STATES[engine.state(row, times)]],
    ["begins", when(start)],
    ["ends", when(end)],
  ];
  return start >= 0 && end >= 0 ? [...lines, ["took", formatTime(end - start)]] : lines;
}

/**
 * What an operation still waits for, and what it depends on and what depends on it.
 * @param {OperationEngine} engine
 * @param {number} row
 * @returns {[Shown["state"], Shown["children"]]}
 */
export function neighbours(engine, row) {
  const { about } = engine;
  const [parents, { end }] = [about.parents_of(row), engine.times_ps()];
  const left = parents.filter((one) => end[one] < 0).slice(0, 4).map(about.label).join(", ");
  const others = [...parents.slice(0, MOST), ...about.children_of(row).slice(0, MOST)];
  return [left ? [["waits for", left]] : [], listed(engine, others)];
}
