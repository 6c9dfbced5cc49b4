// @ts-check
// A trace's graph by module: asks the kernel for one module at a time.

import { watchKernel } from "./heartbeat.js";
import { unpack } from "./messages.js";
import { createModules } from "./modules.js";
import { keepClicks } from "./pressing.js";
import { createTheme, make, settle } from "./theme.js";

/** @import { Model, ModuleSource, TraceGraphTraits } from "./types" */

/** @param {Model<TraceGraphTraits>} model */
export function createTree(model) {
  const modules = createModules({
    selected(entity) {
      model.set("_selected", entity);
      kernel.save();
    },
  });
  const failed = make("p", { class: "anb-failed", role: "status", hidden: "" });
  const element = make("div", { class: "anb-workbench anb-graph", tabindex: "-1" }, failed, modules.element);
  keepClicks(element);
  const kernel = watchKernel(model, (text, gone) => {
    failed.hidden = !text;
    settle(failed, gone ? `${text}; run the cell again` : text);
  });
  const theme = createTheme(element);
  /** @type {Map<number, (answer: any, buffers: DataView[]) => void>} as the kernel answers */
  const asked = new Map();
  let number = 0;

  /** @param {string} question @param {object} options @returns {Promise<[any, DataView[]]>} */
  function ask(question, options) {
    return new Promise((resolve) => {
      number += 1;
      asked.set(number, (answer, buffers) => resolve([answer, buffers]));
      kernel.send({ type: "ask", id: number, question, options });
    });
  }
  /** @param {any} answer @param {DataView[]} buffers */
  function received(answer, buffers) {
    asked.get(answer.id)?.(answer, buffers);
    asked.delete(answer.id);
  }
  /** @type {ModuleSource} */
  const source = {
    async module(module) {
      const [answer, buffers] = await ask("module", { module });
      return { module: answer.module, labels: answer.labels, arrays: unpack("module", buffers) };
    },
    detail: async (entity) => (await ask("module_detail", { entity }))[0],
    search: async (text) => (await ask("module_search", { text }))[0],
  };
  model.on("msg:custom", received);
  modules.show(model.get("_about"), source);
  return {
    element,
    destroy() {
      kernel.stop();
      model.off("msg:custom", received);
      modules.destroy();
      theme.destroy();
    },
  };
}
