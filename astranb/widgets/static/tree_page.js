// @ts-check
// A trace's graph without a kernel: the page (graph_page.py) holds all modules, and answers in the kernel's place.

import { unpack } from "./messages.js";
import { createModuleAnswers } from "./module_answers.js";
import { followTheme, read } from "./packed.js";

/** @import { Model, TraceGraphRecording, TraceGraphTraits } from "./types" */

/**
 * What stands in for the widget's model, and for the kernel behind it.
 * @param {TraceGraphRecording} header
 * @param {DataView[]} columns
 * @returns {Model<TraceGraphTraits>}
 */
function createRecordedGraph(header, columns) {
  const { about, tree } = header;
  const buffersOf = (/** @type {"module" | "module_tree" | "module_values"} */ name) => tree.buffers[name].map((k) => columns[k]);
  const values = unpack("module_values", buffersOf("module_values")).value;
  const drawn = { module: buffersOf("module"), module_tree: buffersOf("module_tree") };
  const graph = createModuleAnswers(about, tree, drawn, (row) => {
    const facts = tree.attributes.map(({ name, values: texts }, k) => [name, texts[values[k * about.nodes + row]] ?? ""]);
    return [["name", graph.nameOf(row)], ["id", String(graph.id[row])], ...facts.filter(([, text]) => text)];
  });
  /** @type {(answer: object, buffers: DataView[]) => void} */
  let listener = () => {};
  /** @type {Record<string, (options: any) => [object, DataView[]]>} */
  const answers = {
    module: ({ module }) => graph.module(module),
    module_detail: ({ entity }) => [graph.detail(entity), []],
    module_search: ({ text }) => [graph.search(String(text)), []],
  };
  /** @type {TraceGraphTraits} */
  const traits = { _modules: header.modules, _about: about, _selected: -1 };
  return {
    get: (trait) => traits[trait],
    set(trait, value) {
      traits[trait] = value;
    },
    save_changes() {},
    on(event, called) {
      if (event === "msg:custom") listener = /** @type {typeof listener} */ (called);
    },
    off() {},
    send({ id: number, question, options }) {
      const [answer, buffers] = answers[String(question)](options);
      queueMicrotask(() => listener({ type: "answer", id: number, ...answer }, buffers));
    },
  };
}

/** Show the page's graph. @param {HTMLElement} host @param {string} text */
export async function openPage(host, text) {
  followTheme();
  const { header, columns } = await read(text);
  const graph = /** @type {TraceGraphRecording} */ (header);
  const url = URL.createObjectURL(new Blob([graph.entry], { type: "text/javascript" }));
  try {
    const { default: widget } = await import(url);
    host.replaceChildren();
    await widget.render({ model: createRecordedGraph(graph, columns), el: host, host: null, signal: new AbortController().signal });
  } finally {
    URL.revokeObjectURL(url);
  }
}
