// @ts-check
// The widget of a timeline of recorded traces.

import { load } from "./loader.js";

/** @import { Model } from "./types" */

export default {
  /** @param {{ model: Model, el: HTMLElement }} widget */
  async render({ model, el }) {
    /** @type {typeof import("./recordings.js")} */
    const { createRecordings } = await load(model.get("_modules"), "recordings");
    const recordings = createRecordings(model);
    el.append(recordings.element);
    recordings.begin();
    return recordings.destroy;
  },
};
