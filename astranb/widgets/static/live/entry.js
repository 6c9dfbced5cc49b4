// @ts-check
// The compiled event loop in a page: the same kernel as Python's, as WebAssembly (core/wasm.py).

/** @import { Memory, Tables } from "./types" */

const LENGTHS = 768 * 1024; // of the arguments; tables begin at 1 MiB
const STACK_TOP = 512 * 1024; // it grows down, to the constants that begin at 0

/**
 * Bind an entry to tables.
 * @param {WebAssembly.Module} module
 * @param {string} symbol
 * @param {Memory} room
 * @param {Tables} tables
 * @param {[table: string, size: number][]} given the entry's arguments in order: which table, and bytes of what it takes as one
 * @returns {() => number}
 */
export function bind(module, symbol, room, tables, given) {
  /** @type {Record<string, WebAssembly.ImportValue>} */
  const env = {};
  for (const { name, kind } of WebAssembly.Module.imports(module)) {
    if (kind === "memory") env[name] = room.memory;
    else if (kind === "global") env[name] = new WebAssembly.Global({ value: "i32", mutable: true }, STACK_TOP);
    else if (kind === "table") env[name] = new WebAssembly.Table({ element: "anyfunc", initial: 0 });
    else {
      env[name] = () => {
        throw new Error(`the kernel has called ${name}`); // helpers that raise Python's exceptions
      };
    }
  }
  const call = /** @type {(...addresses: number[]) => bigint} */ (new WebAssembly.Instance(module, { env }).exports[symbol]);
  return () => {
    given.forEach(([name, size], k) => room.view.setBigInt64(LENGTHS + 8 * k, BigInt((tables[name].rows * tables[name].size) / size), true));
    return Number(call(LENGTHS, ...given.map(([name]) => tables[name].address)));
  };
}
