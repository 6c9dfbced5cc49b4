// @ts-check
// What the engines of messages and of layers share in a page: counterpart of engine/operations/engine.py and run.py.

import { condition, foundAt, install, isPoint } from "./engine_breakpoints.js";
import { digest } from "./digest.js";
import { InputError } from "./errors.js";
import { needsPython } from "./needs.js";
import { inspectPlace } from "./operations_inspection.js";
import { finish } from "./steps.js";
import { commas } from "./text.js";
import { formatTime } from "./units.js";

/** @import { OperationEngine, Shared, Special } from "./operations_types" */
/** @import { Limits, Table, Tables } from "./types" */

const FOREVER = 2 ** 62;

/**
 * A column of times in picoseconds; -1 stays.
 * @param {Table} table @param {string} field @param {number} scale @param {number} [count]
 */
export function timesOf(table, field, scale, count = table.rows) {
  const read = table.at[field];
  return Float64Array.from({ length: count }, (_, row) => (read(row) >= 0 ? read(row) * scale : -1));
}

/** The rows of recorded phases of chunks in the order of their ends; they are kept in a ring. @param {Tables} tables */
export function recent({ watch, passed }) {
  const count = watch.at.passed(0);
  const first = Math.max(0, count - passed.rows);
  return Array.from({ length: count - first }, (_, at) => (first + at) % passed.rows);
}

/**
 * Write the limits of the next call of the loop.
 * @param {Tables} tables
 * @param {Limits} given
 * @param {{ steps: string, until: string, scale: number, counts: string[] }} names of the fields, and picoseconds of one of time
 */
export function setLimits({ limits, watch }, { steps, until_ps = null, most = {} }, names) {
  const closely = until_ps !== null || Object.keys(most).length > 0 || watch.at.points(0) > 0;
  limits.put[names.steps](0, steps);
  limits.put.closely(0, Number(closely));
  limits.put[names.until](0, until_ps === null ? FOREVER : Math.floor(until_ps / names.scale));
  for (const name of names.counts) limits.put[name](0, most[name] ?? FOREVER);
  watch.put.hit(0, -1);
}

/** Tables but for some. @param {Tables} tables @param {Iterable<string>} without */
export function allBut(tables, without) {
  const left = new Set(["limits", ...without]);
  return Object.values(tables).filter(({ name }) => !left.has(name));
}

/**
 * What both engines do alike.
 * @param {() => OperationEngine} self
 * @param {Special} special what is this engine's own
 * @returns {Shared}
 */
export function shared(self, special) {
  const { tables, about, owners } = special;
  const { watch, points } = tables;
  return {
    finish: () => false,
    check() {},
    done: () => self().count("ended") / Math.max(1, about.own),
    state_bytes: () => special.simulatedTables().reduce((sum, { rows, size }) => sum + rows * size, 0),
    replica: () => finish(self().copy(true)),
    digest: () => digest(self().simulated()),
    recording: () => watch.at.recording(0) === 1,
    rewinding() {},
    rewound() {},
    unrecorded: () => (self().recording() || !self().now_ps() ? [] : [[0, self().now_ps()]]),
    recording_switched(on) {
      if (on === self().recording()) return null;
      const hint = `make it with Simulation(..., record=${on ? "True" : "False"})`;
      throw new InputError("the recording of a run of operations cannot be switched", { where: "record", hint });
    },
    install(given) {
      const found = install(given, points, owners());
      watch.put.points(0, found.length);
      watch.put.noting(0, Number(watch.at.recording(0) === 1 || found.length > 0));
      return found;
    },
    is_point: (point) => isPoint(point, points, owners()),
    hit: () => watch.at.hit(0),
    reason: (point) => [point.object, foundAt(point, owners()) || (point.at_ps === null ? self().narrate() : "")],
    on_event: special.on_event,
    condition(text) {
      /** @param {string} name */
      const find = (name) => {
        const at = name.lastIndexOf(".");
        return special.condition_field(name.slice(0, Math.max(0, at)) || name, name.slice(at + 1));
      };
      return condition(text, find, owners(), { what: -1 }, special.example);
    },
    place: special.place,
    parameters: special.parameters,
    kinds: special.kinds,
    fields: (path) => Object.keys(special.fields[special.place(path).kind] ?? {}),
    recorded: (path) => special.recorded(special.place(path)),
    why: special.why,
    objects: () => [
      ...Array.from({ length: self().ranks }, (_, rank) => `rank[${rank}]`),
      ...about.topology.map((_, dim) => `dim[${dim}]`),
      ...self().others(),
    ],
    part_kinds: ["op", "dim"],
    parts(path) {
      if (!path.startsWith("rank[")) return self().parts_of_others(path);
      const rank = Number(path.slice(5, -1));
      return { op: about.rows_of(rank).map(about.path), dim: about.topology.map((_, dim) => `${path}.dim[${dim}]`) };
    },
    inspect: (path) => inspectPlace(self(), special.place(path), special.inspectors),
    narrate() {
      const events = self().count("events");
      if (!events) return "nothing has happened yet";
      const reported = watch.at.what(0) >= 0 && watch.at.step(0) === events - 1;
      return `${formatTime(self().now_ps())}: ${reported ? special.happened() : `event ${commas(events)}`}`;
    },
    last_phase: () => ["", 0, 0],
    readers: special.readers,
    read_edit: special.read_edit,
    apply: special.apply,
    directions: special.directions,
    next_operation: () => needsPython("next_line"),
    spot_text: () => needsPython("next_line"),
  };
}
