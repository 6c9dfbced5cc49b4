// @ts-check
// A collective or workload by cache lines, in a page: counterpart of engine/cacheline/engine.py and state.py.

import { stopping } from "./lines_breakpoints.js";
import { check } from "./lines_check.js";
import { stateHash } from "./lines_digest.js";
import { editing } from "./lines_edits.js";
import { runWhileUp } from "./lines_faults.js";
import { looking } from "./lines_looking.js";
import { createRecorder, unrecorded } from "./lines_recorder.js";
import { reroute } from "./lines_reroute.js";
import { createTracks } from "./lines_tracks.js";
import { copyMachine, createMachine } from "./machine.js";
import { lanesOf } from "./routes.js";
import { finish } from "./steps.js";
import { REACHED } from "./stops.js";
import { resize } from "./tables.js";

/** @import { Lanes } from "./routes.js" */
/** @import { Engine, Live, Machine, Recorder, Tracks } from "./types" */

const LAST_PS = 2 ** 61 - 256; // shortly before NEVER (engine/cacheline/faults.py), exact as a number
const FOREVER = 2 ** 62;
const COUNTED = ["instructions", "hops", "lines", "messages", "phases"]; // one event may leave them as they are
/** Tables that are not simulated, and of them those that a checkpoint of a run that is recorded holds. */
const NOT_SIMULATED = new Set(["control", "breaks", "recorder", "flights", "activity", "trace", "bursts", "current", "landed", "places"]);
const ROUTES = ["routes", "route_links"];
const RECORDED = ["recorder", "activity", "current"];
/** The bytes of both tables. @typedef {Record<string, Uint8Array>} FirstRoutes */
/** Rings have one row in a copy that does not record. */
const NO_RECORDING = { flights: 1, bursts: 1, activity: 1, current: 1 };

/**
 * @param {Live} live
 * @param {WebAssembly.Module} module
 * @param {Uint8Array[]} columns
 * @returns {Engine}
 */
export function createLineEngine(live, module, columns) {
  const machine = createMachine(live, module, columns);
  const { links, machine: proxies } = live.about;
  return engineOf({ live, module, machine, lanes: lanesOf(machine.tables.links, links.length, proxies) });
}

/**
 * @param {{ live: Live, module: WebAssembly.Module, machine: Machine, lanes: Lanes, first_routes?: FirstRoutes | null }} made `lanes`
 *   are those of the start; `first_routes` the routes of the start, where they have changed
 * @param {Recorder | null} [recorder] of the run whose recording it shows; null: it has its own
 * @returns {Engine}
 */
function engineOf(made, recorder = null) {
  const { live, module, machine, lanes } = made;
  let { first_routes = null } = made;
  const { tables } = machine;
  const { clock, near, control, ops } = tables;
  const simulated = Object.values(tables).filter(({ name }) => !NOT_SIMULATED.has(name));
  const changing = simulated.filter(({ name }) => !ROUTES.includes(name));
  const lines = Math.max(1, total(ops.column("lines")));
  /** @param {boolean} record @returns {import("./steps.js").Steps<typeof made>} */
  const copyOf = function* (record) {
    const copy = yield* copyMachine(machine, live, module, record ? {} : NO_RECORDING);
    if (!record) copy.tables.recorder.put.on(0, 0);
    return { ...made, machine: copy, first_routes };
  };
  const { phases } = live.about.scene;
  /** @type {Record<string, Tracks>} */
  const tracks = {};
  /** Change the routes, so that they avoid what is down. @param {number} at_ps when what waited goes on */
  function changeRoutes(at_ps) {
    first_routes ??= Object.fromEntries(ROUTES.map((name) => [name, tables[name].bytes().slice()]));
    reroute(machine, lanes, live.about.gpus, at_ps);
  }
  /** @type {Omit<Engine, "recorder" | keyof ReturnType<typeof stopping> | keyof ReturnType<typeof editing> | keyof ReturnType<typeof looking>>} */
  const moved = {
    live, tables, edits: [], as_of_ps: -1,
    now_ps: () => Math.max(0, clock.at.now_ps(0), engine.as_of_ps),
    next_ps: () => (clock.at.queued(0) ? near.at.time_ps(0) : -1),
    finished: () => clock.at.queued(0) === 0,
    count: (name) => (name === "now_ps" ? engine.now_ps() : clock.at[name](0)),
    counts: () => Object.fromEntries([...Object.values(live.units), "now_ps"].map((name) => [name, clock.at[name](0)])),
    go({ steps, until_ps = null, most = {} }) {
      control.put.until_ps(0, until_ps === null ? LAST_PS : Math.min(until_ps, LAST_PS));
      control.put.max_timesteps(0, most.timesteps ?? FOREVER);
      control.put.counted(0, 0);
      for (const name of COUNTED) {
        control.put[`max_${name}`](0, most[name] ?? FOREVER);
        if (name in most) {
          control.put.counted(0, 1);
          if (engine.count(name) >= most[name]) return REACHED;
        }
      }
      return runWhileUp(engine, Math.min(steps, FOREVER), (most_events) => {
        control.put.max_events(0, most_events);
        return machine.run();
      });
    },
    finish: () => false,
    done: () => 1 - Math.min(total(ops.column("left")), lines) / lines,
    kept: () => [
      ...(first_routes ? simulated : changing),
      ...(tables.recorder.at.on(0) ? RECORDED.map((name) => tables[name]) : []),
      ...(tables.recorder.at.landing(0) ? [tables.landed] : []),
    ],
    resize(sizes) {
      if (!first_routes) return; // tables change only where routes do
      for (const { name, size } of simulated) if (name in sizes) resize(machine.room, tables[name], sizes[name] / size);
      if (ROUTES[0] in sizes) return;
      for (const name of ROUTES) {
        resize(machine.room, tables[name], first_routes[name].length / tables[name].size);
        tables[name].bytes().set(first_routes[name]);
      }
      first_routes = null;
    },
    state_bytes: () => simulated.reduce((sum, { rows, size }) => sum + rows * size, 0),
    *copy(record) {
      const other = Object.assign(engineOf(yield* copyOf(record)), { edits: [...engine.edits] });
      other.recorder.most = engine.recorder.most;
      other.recorder.most_bursts = engine.recorder.most_bursts;
      return other;
    },
    replica: () => Object.assign(engineOf(finish(copyOf(false)), engine.recorder), { edits: [...engine.edits] }),
    digest: () => stateHash(tables, simulated),
    recording: () => Boolean(tables.recorder.at.on(0)),
    rewinding: () => void engine.recorder.mark(),
    rewound: () => Object.values(tracks).forEach((one) => one.rewound()),
    tracks: (kind) => (tracks[kind] ??= createTracks(engine, kind)),
    late_ps: live.about.late_ps,
    last_phase() {
      const { left, started_ps, ended_ps } = tables.phases.at;
      let last = -1;
      for (let row = 0; row < tables.phases.rows; row++) {
        if (left(row) === 0 && ended_ps(row) >= 0 && (last < 0 || ended_ps(row) > ended_ps(last))) last = row;
      }
      return last < 0 ? ["", 0, 0] : [phases[last], started_ps(last), ended_ps(last)];
    },
    check: (why) => check(engine, why),
    unrecorded: (switches) => unrecorded(engine, switches),
  };
  const engine = /** @type {Engine} */ (moved);
  Object.assign(engine, stopping(engine), editing(engine, changeRoutes), looking(engine));
  engine.recorder = recorder ?? createRecorder(engine);
  return engine;
}

/** @param {Float64Array} column */
const total = (column) => column.reduce((sum, value) => sum + value, 0);
