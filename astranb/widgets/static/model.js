// @ts-check
// What stands in for a widget's model in a page without Jupyter: named values, and who listens to them.

/** @import { Model, ToKernel, Traits } from "./types" */

/**
 * @param {Partial<Traits>} values
 * @param {(message: ToKernel) => void} receive what becomes of messages to the kernel
 * @returns {{ model: Model, send: (message: object, buffers?: DataView[]) => void }} the model, and what sends it a kernel's messages
 */
export function createModel(values, receive) {
  /** @type {Map<string, Set<(...given: any[]) => void>>} as a model has them */
  const listeners = new Map();
  /** @param {string} name @param {...unknown} given */
  function emit(name, ...given) {
    for (const listener of [...(listeners.get(name) ?? [])]) listener(...given);
  }
  return {
    model: {
      busy: "Python starts, or is busy",
      get: (name) => /** @type {Traits[typeof name]} */ (values[name]),
      set(name, value) {
        if (values[name] === value) return;
        values[name] = value;
        emit(`change:${name}`);
      },
      save_changes() {},
      on(name, listener) {
        listeners.set(name, (listeners.get(name) ?? new Set()).add(listener));
      },
      off: (name, listener) => listeners.get(name)?.delete(listener),
      send: receive,
    },
    send: (message, buffers = []) => emit("msg:custom", message, buffers),
  };
}
