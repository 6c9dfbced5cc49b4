// @ts-check
// A run of ASTRA-sim 1.0's layer tables in a page: counterpart of engine/layers/engine.py, state.py and run.py.
// One rank represents all.

import { applyEdit, parametersNow, readEdit } from "./layers_edits.js";
import { InputError } from "./errors.js";
import { layerFlights } from "./layers_flights.js";
import { INSPECTORS, explainWait, happened } from "./layers_inspection.js";
import { EVENTS, FIELDS, PARTS, conditionField, onEvent, resolve } from "./layers_paths.js";
import { copyMachine, createMachine } from "./machine.js";
import { shortened } from "./messages_paths.js";
import { createAbout, numbersOf } from "./operations_about.js";
import { allBut, recent, setLimits, shared } from "./operations_engine.js";
import { spansOf } from "./operations_spans.js";

/** @import { About, Numbers, OperationEngine, Times } from "./operations_types" */
/** @import { Engine, Live, Machine } from "./types" */

const COMPUTE = 0;
const WAIT = 2;
const END = 5;
const NOT_KEPT = ["chunks", "points", "passed"];
const NOT_SIMULATED = ["watch", "points", "passed"];
const COUNTS = ["turns", "ended", "phases", "passes"];
const LIMITS = { steps: "events", until: "until_ps", scale: 1, counts: COUNTS };

/** @typedef {Record<"at" | "of" | "slot" | "algorithm" | "crossing" | "sent" | "time_ps", Numbers>} Program the program's rows and its phases, see engine/layers/about.py */
/** @typedef {OperationEngine & { program: Program }} LayerEngine */

/**
 * @param {Live} live
 * @param {WebAssembly.Module} module
 * @param {Uint8Array[]} columns
 * @returns {Engine}
 */
export function createLayerEngine(live, module, columns) {
  const { program, phases, base, crossings } = live.about;
  const rows = /** @type {Program} */ ({ ...numbersOf(program, columns), ...numbersOf(phases, columns), ...numbersOf(base, columns) });
  const crossed = crossings.map((/** @type {any} */ one) => numbersOf(one, columns));
  const made = { live, module, machine: createMachine(live, module, columns), about: createAbout(live, columns), program: rows, crossed };
  return /** @type {Engine} */ (/** @type {object} */ (engineOf(made)));
}

/**
 * @param {{ live: Live, module: WebAssembly.Module, machine: Machine, about: About, program: Program, crossed: Record<string, Numbers>[] }} made
 * @returns {LayerEngine}
 */
function engineOf(made) {
  const { live, module, machine, about, program, crossed } = made;
  const { tables } = machine;
  const { clock, operations, slots, queues, collectives, phases, streams, events, watch, passed } = tables;
  const { ranks, stands_for, tracks } = live.about;
  /** The waits of the program: for which operation, from when and until when (-1: it still waits). */
  function waits() {
    const { at } = operations;
    const found = [];
    for (let row = 0; row < operations.rows; row++) {
      const kind = at.kind(row);
      if ((kind === WAIT || kind === END) && at.begun_ps(row) >= 0) found.push({ kind, what: program.of[row], start: at.begun_ps(row), end: at.ended_ps(row) });
    }
    const last = found[found.length - 1];
    if (last?.kind === END) {
      // The end waits for all collectives under way: for the one that ends last.
      const { start, end } = times();
      const begun = [...start.keys()].filter((row) => about.kind[row] === 1 && start[row] >= 0);
      const left = begun.filter((row) => end[row] < 0);
      last.what = left.length ? left[left.length - 1] : begun.reduce((latest, row) => (end[row] > end[latest] ? row : latest));
    }
    return found;
  }
  /** @returns {Times} */
  function times() {
    const { begun_ps, ended_ps } = operations.at;
    return { start: Float64Array.from(program.at, begun_ps), end: Float64Array.from(program.at, ended_ps) };
  }
  /** @param {string} path */
  const find = (path) => resolve(path, about, live);
  const owners = () => [clock, operations, slots, collectives, queues];
  /** @type {LayerEngine} */
  const engine = {
    ...shared(() => engine, {
      tables, about, owners, simulatedTables: () => allBut(tables, NOT_SIMULATED),
      place: find, kinds: Object.keys(EVENTS), fields: FIELDS, recorded: () => [], why: (path) => explainWait(engine, path), inspectors: INSPECTORS, happened: () => happened(engine), example: "rank[0].waiting > 0",
      condition_field: (path, word) => conditionField(find(path), word, tables, about, program),
      on_event: (kind, path) => onEvent(kind, path, about, live, program),
      readers(path) {
        const place = find(path);
        const words = Object.keys(FIELDS[place.kind]).filter((word) => place.kind !== "op" || about.kind[place.operation] !== COMPUTE || !word.startsWith("chunks"));
        return [
          place.path,
          Object.fromEntries(
            words.map((word) => {
              const { owner, field, rows } = conditionField(place, word, tables, about, program);
              return [word, (/** @type {LayerEngine} */ { tables: of }) => {
                const table = [of.clock, of.operations, of.slots, of.collectives, of.queues][owner];
                return rows.reduce((all, row) => all + table.at[field](row), 0);
              }];
            }),
          ),
        ];
      },
      read_edit: (path, value) => readEdit(engine, path, value),
      apply: (edit) => applyEdit(edit, tables, program.time_ps),
      directions(link) {
        const hint = "change dim[N].bandwidth, or take ASTRA-sim 2.0's files";
        throw new InputError("a layer table's network has no single links", { where: shortened(link, 80), hint });
      },
      parameters: (path) => (path ? parametersNow(find(path), engine) : []),
    }),
    live, tables, about, program, ranks, stands_for, track_names: tracks, edits: [], as_of_ps: -1,
    now_ps: () => Math.max(clock.at.now_ps(0), engine.as_of_ps),
    next_ps: () => (clock.at.heaped(0) ? events.at.time_ps(events.at.heap(0)) : -1),
    finished: () => clock.at.heaped(0) === 0,
    count: (name) => (name === "now_ps" ? clock.at.now_ps(0) : clock.at[name](0)),
    counts: () => Object.fromEntries(["events", ...COUNTS, "now_ps"].map((name) => [name, engine.count(name)])),
    go(given) {
      setLimits(tables, given, LIMITS);
      return machine.run();
    },
    kept: () => allBut(tables, NOT_KEPT),
    resize: () => {}, // no table ever grows
    *copy() {
      const other = engineOf({ ...made, machine: yield* copyMachine(machine, live, module) });
      other.edits = [...engine.edits];
      return other;
    },
    simulated: () => allBut(tables, NOT_SIMULATED).map(({ name, rows, bytes }) => [name, rows, bytes()]),
    parts_of_others: (path) => Object.fromEntries(path.startsWith("layer[") ? [["part", PARTS.map((word) => `${path}.${word.toLowerCase()}`)]] : []),
    others: () => live.about.layers.map((/** @type {string} */ name) => `layer[${name}]`),
    concerned: () => (engine.count("events") && watch.at.what(0) >= 0 ? "rank[0]" : ""),
    times_ps: times,
    ends_ps: () => [clock.at.ending(0) === 2 ? clock.at.end_ps(0) : -1],
    state(row, { start, end }) {
      if (end[row] >= 0) return 3;
      if (start[row] >= 0) return 2;
      return Number(about.waited_for(row).every((one) => end[one] >= 0)); // ready where all that it waits for is done
    },
    progress(row) {
      if (about.kind[row] === COMPUTE) return [0, 0];
      const one = operations.at.slot(program.at[row]);
      return [collectives.at.over(one), collectives.at.chunks(one)];
    },
    passed() {
      const rows = recent(tables);
      const each = clock.at.queues(0);
      const phase = rows.map(passed.at.phase);
      return {
        npu: rows.map(() => 0), operation: rows.map((row) => program.of[passed.at.operation(row)]), chunk: rows.map(passed.at.chunk),
        phase: rows.map(passed.at.nth), dim: phase.map((one) => Math.floor(phases.at.queue(one) / each)),
        algorithm: phase.map((one) => program.algorithm[one]),
        queued_ps: rows.map(passed.at.queued_ps), begun_ps: rows.map(passed.at.begun_ps), end_ps: rows.map(passed.at.end_ps),
      };
    },
    running() {
      const each = clock.at.queues(0);
      const rows = Array.from({ length: streams.rows }, (_, row) => row).filter((row) => streams.at.running(row) === 1);
      return {
        npu: rows.map(() => 0), dim: rows.map((row) => Math.floor(phases.at.queue(streams.at.phase(row)) / each)),
        operation: rows.map((row) => program.of[collectives.at.operation(streams.at.collective(row))]), begun_ps: rows.map(streams.at.started_ps),
      };
    },
    ready_ps: () => new Float64Array(about.own), // at once: all ranks do the same at the same time
    track_spans() {
      const now = engine.now_ps();
      const [spans, waited] = [spansOf(engine), waits().filter(({ what }) => what >= 0)];
      return {
        row: [...spans.row, ...waited.map(({ what }) => what)], npu: [...spans.npu, ...waited.map(() => 0)],
        track: [...spans.track, ...waited.map(() => 2)], start_ps: [...spans.start_ps, ...waited.map(({ start }) => start)],
        end_ps: [...spans.end_ps, ...waited.map(({ end }) => (end >= 0 ? end : now))],
      };
    },
    whose: () => ({ operation: -1, phase: -1, chunk: -1 }), // no single messages are recorded
    link_path: () => "",
    recorded_flights: () => watch.at.passed(0),
    flights: (since) => layerFlights(tables, { of: program.of, crossing: program.crossing, crossings: crossed }, since),
    queues: (of) => [Array.from(of, () => 0), Array.from(of, () => false)], // phases wait for one another, messages for no link
    computed_ps() {
      const row = clock.at.computing(0);
      const left = row >= 0 ? operations.at.begun_ps(row) + operations.at.time_ps(row) - engine.now_ps() : 0;
      return [clock.at.compute_ps(0) - left];
    },
  };
  return engine;
}
