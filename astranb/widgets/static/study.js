// @ts-check
// The widget of a sweep.

import { load } from "./loader.js";

/** @import { Host, Model, StudyTraits } from "./types" */

export default {
  /** @param {{ model: Model<StudyTraits>, el: HTMLElement, host: Host | null, signal: AbortSignal }} widget */
  async render({ model, el, host, signal }) {
    /** @type {typeof import("./sweep.js")} */
    const { createSweep } = await load(model.get("_modules"), "sweep");
    const sweep = createSweep(model, host, signal);
    el.append(sweep.element);
    return sweep.destroy;
  },
};
