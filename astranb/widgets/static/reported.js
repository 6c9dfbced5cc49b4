// @ts-check
// A sweep without a kernel: the page (study_page.py) holds what the kernel would send.

import { followTheme, read } from "./packed.js";

/** @import { Model, StudyRecording, StudyTraits } from "./types" */

/**
 * What stands in for the widget's model, and for the kernel behind it.
 * @param {StudyRecording} header
 * @param {DataView[]} columns
 * @returns {Model<StudyTraits>}
 */
function createReport(header, columns) {
  /** @type {Map<string, Set<(...given: any[]) => void>>} as a model has them */
  const listeners = new Map();
  /** @type {StudyTraits} */
  const values = { _modules: header.modules, _progress: {}, _chosen: header.study.message.best[0] ?? -1, _opened: {} };
  /** @param {string} name @param {...unknown} given */
  function emit(name, ...given) {
    for (const listener of [...(listeners.get(name) ?? [])]) listener(...given);
  }
  return {
    get: (name) => values[name],
    set(name, value) {
      values[name] = value;
    },
    save_changes() {},
    on(name, listener) {
      listeners.set(name, (listeners.get(name) ?? new Set()).add(listener));
    },
    off: (name, listener) => listeners.get(name)?.delete(listener),
    send({ type, point }) {
      if (type === "ready") emit("msg:custom", header.study.message, header.study.buffers.map((k) => columns[k]));
      const detail = header.details[String(point)];
      if (type === "detail" && detail) emit("msg:custom", detail, []);
    },
  };
}

/** Show the page's sweep. @param {HTMLElement} host @param {string} text */
export async function openPage(host, text) {
  followTheme();
  const { header, columns } = await read(text);
  const report = /** @type {StudyRecording} */ (header);
  const url = URL.createObjectURL(new Blob([report.entry], { type: "text/javascript" }));
  try {
    const { default: widget } = await import(url);
    host.replaceChildren();
    await widget.render({ model: createReport(report, columns), el: host, host: null, signal: new AbortController().signal });
  } finally {
    URL.revokeObjectURL(url);
  }
}
