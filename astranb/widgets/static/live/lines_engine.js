// @ts-check
// A collective or workload by cache lines, in a page: counterpart of engine/cacheline/engine.py and state.py.

import { REACHED } from "./stops.js";
import { copyMachine, createMachine } from "./machine.js";

/** @import { Engine, Live, Machine } from "./types" */

const LAST_PS = 2 ** 61 - 256; // shortly before NEVER (engine/cacheline/faults.py), exact as a number
const FOREVER = 2 ** 62;
const COUNTED = ["instructions", "hops", "lines", "messages", "phases"]; // one event may leave them as they are
/** Tables that are no part of what a checkpoint holds. */
const NOT_KEPT = new Set(["routes", "route_links", "control", "breaks", "flights", "bursts", "trace", "places"]);

/**
 * @param {Live} live
 * @param {WebAssembly.Module} module
 * @param {Uint8Array[]} columns
 * @returns {Engine}
 */
export const createLineEngine = (live, module, columns) => engineOf(live, module, createMachine(live, module, columns));

/** @param {Live} live @param {WebAssembly.Module} module @param {Machine} machine @returns {Engine} */
function engineOf(live, module, machine) {
  const { tables } = machine;
  const { clock, near, control } = tables;
  /** @type {Engine} */
  const engine = {
    live, tables, edits: [], as_of_ps: -1,
    now_ps: () => Math.max(0, clock.at.now_ps(0), engine.as_of_ps),
    next_ps: () => (clock.at.queued(0) ? near.at.time_ps(0) : -1),
    finished: () => clock.at.queued(0) === 0,
    count: (name) => (name === "now_ps" ? engine.now_ps() : clock.at[name](0)),
    counts: () => Object.fromEntries([...new Set([...Object.values(live.units), "now_ps"])].map((name) => [name, clock.at[name](0)])),
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
      control.put.max_events(0, steps);
      return machine.run();
    },
    kept: () => Object.values(tables).filter(({ name }) => !NOT_KEPT.has(name)),
    copy: (record) => engineOf(live, module, copyMachine(machine, live, module, record ? {} : { flights: 1, bursts: 1, activity: 1 })),
    digest: () => "",
    inspect: () => ({}),
    narrate: () => "",
    concerned: () => "",
  };
  return engine;
}
