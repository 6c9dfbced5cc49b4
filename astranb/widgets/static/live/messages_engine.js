// @ts-check
// A run of ASTRA-sim 2.0's workloads in a page: counterpart of engine/messages/engine.py, state.py and run.py.

import { REROUTE } from "./edits.js";
import { InputError } from "./errors.js";
import { copyMachine, createMachine } from "./machine.js";
import { check } from "./messages_deadlock.js";
import { applyEdit, directions, parametersNow, readEdit, takeDown } from "./messages_edits.js";
import { flightsOf, forgetStale, linksOf, queuesOf, whose } from "./messages_flights.js";
import { INSPECTORS, RECORDED_WORDS, happened, readersOf } from "./messages_inspection.js";
import { readyTimes } from "./messages_pairs.js";
import { EVENTS, FIELDS, conditionField, onEvent, resolve } from "./messages_paths.js";
import { reroute } from "./messages_reroute.js";
import { RECORDED, enlarge, inUse, simulated } from "./messages_tables.js";
import { COMPUTE, createAbout, numbersOf } from "./operations_about.js";
import { explainWait } from "./messages_why.js";
import { allBut, recent, setLimits, shared, timesOf } from "./operations_engine.js";
import { spansOf } from "./operations_spans.js";
import { RoutedLinks } from "./routed_links.js";
import { GROW } from "./stops.js";
import { resize } from "./tables.js";

/** @import { About, Numbers, OperationEngine, Place, Times } from "./operations_types" */
/** @import { Edit, Engine, Live, Machine } from "./types" */

const PS = 1000; // a nanosecond: the unit of this engine's times
const NATIVE_TAGS = 500_000_000; // tags of messages of collectives begin here
const ON_CPU = 0;
const FIXED = ["config", "implementations", "groups", "members", "children"];
const NOT_KEPT = [...FIXED, "points", "passed", "flights", "drawn", "fold", "meeting", "last_use"];
const COUNTS = ["turns", "ended", "delivered", "phases"];
const LIMITS = { steps: "steps", until: "until_ns", scale: PS, counts: COUNTS };

/**
 * @param {Live} live
 * @param {WebAssembly.Module} module
 * @param {Uint8Array[]} columns
 * @returns {Engine}
 */
export function createMessageEngine(live, module, columns) {
  const machine = createMachine(live, module, columns);
  const base = numbersOf(live.about.base, columns).duration_ns;
  const made = { live, module, machine, about: createAbout(live, columns), base, routed: RoutedLinks.of(live, columns) };
  return /** @type {Engine} */ (/** @type {object} */ (engineOf(made)));
}

/**
 * @param {{ live: Live, module: WebAssembly.Module, machine: Machine, about: About, base: Numbers, routed: RoutedLinks | null }} made
 * @returns {OperationEngine}
 */
function engineOf(made) {
  const { live, module, machine, base, routed } = made;
  const { tables } = machine;
  const about = { ...made.about }; // names of links come with other routes
  const { clock, queue, timesteps, npus, operations, queues, config, streams, links, watch, passed } = tables;
  const { margin, streams: chunks, ranks, stands_for, tracks } = live.about;
  const network = linksOf(tables);
  /** The time of the next event in ns, -1 if none is left. */
  function waiting() {
    const now = queue.at.now(0);
    if (clock.at.cursor(0) >= 0 || clock.at.fired(0) < npus.rows) return now;
    const open = queue.at.open(0);
    if (open >= 0 && timesteps.at.head(open) >= 0) return now;
    return queue.at.heaped(0) > 0 ? timesteps.at.time(timesteps.at.heap(0)) : -1;
  }
  /** @returns {Times} */
  function times() {
    const { parts } = about;
    const count = parts ? operations.rows : about.own;
    const [start, end] = [timesOf(operations, "start_ns", PS, count), timesOf(operations, "end_ns", PS, count)];
    parts?.first.forEach((first, at) => {
      // Each part begins with the first of its rows. It ends with the last: as an operation that has
      // received all, where that is a computation that waits for the others, whatever is still sent.
      const last = parts.until[at] - 1;
      const begun = start.subarray(first, last + 1).filter((time) => time >= 0);
      const ends = end.subarray(first, last + 1);
      const over = operations.at.kind(last) === COMPUTE ? end[last] : ends.every((time) => time >= 0) ? Math.max(...ends) : -1;
      start[first] = begun.length ? Math.min(...begun) : -1;
      end[first] = over;
    });
    return { start, end };
  }
  /** What a path names; of an infrastructure's link those that messages take, maybe none. @param {string} path @returns {Place} */
  function named(path) {
    if (!routed || !path.includes("->")) return resolve(path, about, tables);
    const lanes = routed.lanesOf(path);
    return { kind: "link", path: routed.fabric.full(path), rows: routed.over(tables, lanes), npu: -1, operation: -1, dim: -1, layer: -1, part: -1 };
  }
  /** @param {string} path */
  function find(path) {
    const part = named(path);
    if (!part.rows.length) throw new InputError("no message takes this link", { where: path, hint: "name another one" });
    return part;
  }
  /** Carry an edit out. @param {Edit} edit */
  function apply(edit) {
    if (edit.path === REROUTE && routed) {
      reroute(machine, routed, routed.closed(tables, engine.edits), edit.number, { margin, streams: chunks });
      about.links = routed.names(tables);
    } else if (edit.field === "up" && edit.path.includes("->") && routed) {
      // A link of several lanes is up where all of them are.
      const closed = routed.closed(tables, [...engine.edits, edit]);
      const { lanes } = routed.known(tables);
      for (const row of edit.rows) if (lanes[row].some((lane) => closed.has(lane))) takeDown(tables, row);
    } else applyEdit(edit, tables, base);
  }
  /** @type {OperationEngine & import("./messages_edits.js").Routed} */
  const engine = {
    ...shared(() => engine, {
      tables, about, owners: () => [npus, operations, queues], simulatedTables: () => allBut(tables, RECORDED),
      place: find, kinds: Object.keys(EVENTS), fields: FIELDS, recorded: ({ kind }) => RECORDED_WORDS[kind] ?? [], inspectors: INSPECTORS,
      why: (path) => explainWait(engine, path), happened: () => happened(engine), example: "rank[3].waiting > 0",
      condition_field: (path, word) => conditionField(find(path), word),
      on_event: (kind, path) => onEvent(kind, path, about, tables),
      readers: (path) => [find(path).path, readersOf(find(path))],
      read_edit: (path, value) => readEdit(engine, path, value),
      apply,
      directions: (link, both) => directions(engine, link, both),
      parameters: (path) => (path ? parametersNow(find(path), engine) : []),
    }),
    check: () => check(engine),
    live, tables, about, routed, named, ranks, stands_for, track_names: tracks, edits: [], as_of_ps: -1,
    now_ps: () => Math.max(queue.at.now(0) * PS, engine.as_of_ps),
    next_ps: () => (waiting() >= 0 ? waiting() * PS : -1),
    finished: () => waiting() < 0,
    count(name) {
      if (name === "now_ps") return engine.now_ps();
      return name === "turns" ? queue.at.turns(0) : clock.at[name === "events" ? "steps" : name](0);
    },
    counts: () => Object.fromEntries(["events", ...COUNTS, "now_ps"].map((name) => [name, engine.count(name)])),
    go(given) {
      setLimits(tables, given, LIMITS);
      tables.limits.put.margin(0, margin);
      tables.limits.put.streams(0, chunks);
      for (;;) {
        const why = machine.run();
        const none = clock.at.no_route(0);
        if (none) {
          const [source, target] = [Math.floor((none - 1) / npus.rows), (none - 1) % npus.rows];
          throw new Error(`rank ${source} sends to rank ${target}, and there is no route`);
        }
        if (why !== GROW) return why;
        enlarge(machine, margin, chunks);
      }
    },
    kept: () => allBut(tables, NOT_KEPT),
    resize(sizes) {
      const changed = new Set();
      for (const [name, bytes] of Object.entries(sizes)) {
        const rows = bytes / tables[name].size;
        if (tables[name].rows === rows) continue;
        resize(machine.room, tables[name], rows);
        changed.add(name);
      }
      if (changed.has("ports")) config.put.ports(0, tables.ports.rows / (2 * npus.rows)); // there are as many as routes have taken
      if (!changed.has("routes")) return;
      forgetStale(tables);
      if (routed) about.links = routed.names(tables);
    },
    parts_of_others: () => ({}),
    others: () => Array.from({ length: config.at.congestion(0) ? links.rows : 0 }, (_, link) => `link[${link}]`),
    *copy() {
      const other = engineOf({ ...made, machine: yield* copyMachine(machine, live, module), about, routed: routed && routed.copy() });
      other.edits = [...engine.edits];
      return other;
    },
    simulated: () => simulated(tables),
    concerned: () => (engine.count("events") && watch.at.what(0) >= 0 ? `rank[${watch.at.npu(0)}]` : ""),
    times_ps: times,
    ends_ps: () => [...timesOf(npus, "end_ns", PS)],
    state(row, { start, end }) {
      if (end[row] >= 0) return 3;
      return start[row] >= 0 ? 2 : Number(operations.at.waits(row) <= 0);
    },
    progress: (row) => [operations.at.streams_done(row), operations.at.streams(row)],
    passed() {
      const rows = recent(tables);
      /** @param {string} name @param {number} [scale] */
      const column = (name, scale = 1) => rows.map((row) => passed.at[name](row) * scale);
      return {
        npu: column("npu"), operation: column("operation"), phase: column("phase"), dim: column("dim"), algorithm: column("algorithm"),
        chunk: column("tag").map((tag) => tag % NATIVE_TAGS),
        queued_ps: column("queued_ns", PS), begun_ps: column("begun_ns", PS), end_ps: column("end_ns", PS),
      };
    },
    running() {
      const rows = inUse(tables, "streams").filter((row) => streams.at.running(row) === 1);
      const [each, dims] = [config.at.queues(0), config.at.dims(0)];
      return {
        npu: rows.map(streams.at.npu), operation: rows.map(streams.at.operation),
        dim: rows.map((row) => Math.floor(streams.at.queue(row) / each) % dims),
        begun_ps: rows.map((row) => streams.at.begun_ns(row) * PS),
      };
    },
    ready_ps: () => readyTimes(engine),
    track_spans: () => spansOf(engine),
    whose: (row) => whose(engine, row, tables.flights.at.phase(row) > 0 ? tables.flights.at.tag(row) % NATIVE_TAGS : -1),
    link_path(link) {
      if (config.at.congestion(0)) return `link[${link}]`;
      return config.at.routed(0) ? "" : `dim[${network.first.findLastIndex((first) => first <= link)}]`;
    },
    recorded_flights: () => watch.at.flights(0),
    flights: (since) => flightsOf(engine, network, since),
    queues: (some) => queuesOf(tables, some),
    computed_ps() {
      const now = queue.at.now(0);
      const found = [...npus.column("compute_ns")];
      const { parts } = about;
      for (let row = 0; row < about.own; row++) {
        const begun = operations.at.start_ns(row);
        if (operations.at.kind(row) === COMPUTE && operations.at.place(row) !== ON_CPU && begun >= 0 && operations.at.end_ns(row) < 0) {
          found[operations.at.npu(row)] -= begun + operations.at.duration_ns(row) - now;
        }
      }
      if (parts) {
        const { start, end } = times();
        parts.first.forEach((row, at) => {
          if (parts.kind[at] !== COMPUTE || start[row] < 0) return;
          found[about.npu[row]] += (end[row] >= 0 ? end[row] / PS : now) - start[row] / PS;
        });
      }
      return found.map((ns) => ns * PS);
    },
  };
  return engine;
}
