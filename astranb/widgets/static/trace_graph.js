// @ts-check
// The widget of a trace: its graph by module.

import { load } from "./loader.js";

/** @import { Host, Model, TraceGraphTraits } from "./types" */

export default {
  /** @param {{ model: Model<TraceGraphTraits>, el: HTMLElement, host: Host | null, signal: AbortSignal }} widget */
  async render({ model, el }) {
    /** @type {typeof import("./tree.js")} */
    const { createTree } = await load(model.get("_modules"), "tree");
    const tree = createTree(model);
    el.append(tree.element);
    return tree.destroy;
  },
};
