// @ts-check
// A page without a kernel: the workbench of a notebook, and a recording behind it (recorded_kernel.js).

import { createModel } from "./model.js";
import { followTheme, read } from "./packed.js";
import { createRecordedKernel } from "./recorded_kernel.js";

/** @import { Model, Recording, ToKernel } from "./types" */

/**
 * What stands in for the widget's model, with the recording behind it.
 * @param {Recording} recording
 * @param {DataView[]} columns
 * @returns {Model}
 */
export function createRecording(recording, columns) {
  const { model, send } = createModel(
    { _engine: recording.engine, _modules: recording.modules, _selection: recording.selection, _cursor_ps: -1, _panels: recording.panels },
    (message) => receive(message),
  );
  /** @type {(message: ToKernel) => void} */
  const receive = createRecordedKernel(recording, columns, send);
  return model;
}

/** Show the page's recording. @param {HTMLElement} host @param {string} text */
export async function openPage(host, text) {
  followTheme();
  const { header, columns } = await read(text);
  const recording = /** @type {Recording} */ (header);
  const url = URL.createObjectURL(new Blob([recording.entry], { type: "text/javascript" }));
  try {
    const widget = (await import(url)).default();
    const model = createRecording(recording, columns);
    await widget.initialize({ model });
    host.replaceChildren();
    await widget.render({ model, el: host });
  } finally {
    URL.revokeObjectURL(url);
  }
}
