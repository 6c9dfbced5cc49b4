// @ts-check
// The tables of a simulated machine, and the compiled loop bound to them: counterpart of engine/*/machine.py.

import { bind } from "./entry.js";
import { allocate, createTables, fill } from "./tables.js";

/** @import { Steps } from "./steps.js" */
/** @import { Live, Machine } from "./types" */

const STEP = 2 ** 22; // bytes copied in a step

/**
 * A machine at its start.
 * @param {Live} live
 * @param {WebAssembly.Module} module
 * @param {Uint8Array[]} columns
 * @returns {Machine}
 */
export function createMachine(live, module, columns) {
  const machine = empty(live, module, live.tables);
  for (const { name, parts, data } of live.tables) fill(machine.tables[name], parts, columns[data]);
  return machine;
}

/**
 * An independent machine in the same state.
 * @param {Machine} machine
 * @param {Live} live
 * @param {WebAssembly.Module} module
 * @param {Record<string, number>} [fewer] rows of tables that the copy has fewer of: of rings that record nothing
 * @returns {Steps<Machine>}
 */
export function* copyMachine(machine, live, module, fewer = {}) {
  const layouts = live.tables.map((layout) => ({ ...layout, rows: fewer[layout.name] ?? machine.tables[layout.name].rows }));
  const copy = empty(live, module, layouts);
  for (const { name } of layouts) {
    const to = copy.tables[name].bytes();
    for (let at = 0; at < to.length; at += STEP) {
      to.set(machine.tables[name].bytes().subarray(at, Math.min(to.length, at + STEP)), at);
      yield (copy.tables[name].address + at) / copy.room.end;
    }
  }
  return copy;
}

/** @param {Live} live @param {WebAssembly.Module} module @param {Live["tables"]} layouts @returns {Machine} */
function empty(live, module, layouts) {
  const room = allocate(layouts);
  const tables = createTables(room, layouts);
  return { room, tables, run: bind(module, live.symbol, room, tables, live.arguments) };
}
