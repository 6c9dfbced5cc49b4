// @ts-check
// A trace's graph without a kernel: the page (graph_page.py) holds all modules, and answers in the kernel's place.

import { unpack, pack } from "./messages.js";
import { followTheme, read } from "./packed.js";

/** @import { Columns, Model, ModuleLink, TraceGraphRecording, TraceGraphTraits } from "./types" */

const MOST_FOUND = 50;
const MOST_LINKS = 12;
const SHOWN_AROUND = 2; // modules around one that was found
const BY_EDGE = new Set(["before", "after", "data", "control", "implied"]);

/**
 * What stands in for the widget's model, and for the kernel behind it.
 * @param {TraceGraphRecording} header
 * @param {DataView[]} columns
 * @returns {Model<TraceGraphTraits>}
 */
function createRecordedGraph(header, columns) {
  const { about, tree } = header;
  const buffersOf = (/** @type {"module" | "module_tree" | "module_values"} */ name) => tree.buffers[name].map((k) => columns[k]);
  const drawn = unpack("module", buffersOf("module"));
  const { first, edge, around, module_of: moduleOf, name, id, from, to } = unpack("module_tree", buffersOf("module_tree"));
  const values = unpack("module_values", buffersOf("module_values")).value;
  const { modules, nodes } = about;
  const lower = tree.names.map((text) => text.toLowerCase());
  /** @type {(answer: object, buffers: DataView[]) => void} */
  let listener = () => {};

  /** @param {number} entity @returns {number[]} the modules around it, the outermost first */
  function chain(entity) {
    const found = [];
    for (let at = entity < modules ? around[entity] : moduleOf[entity - modules]; at >= 0; at = around[at]) found.unshift(at);
    return found;
  }
  const labels = new Map(); // of modules, by number
  /** @param {number} module */
  function labelOf(module) {
    if (!labels.size) drawn.entity.forEach((entity, k) => entity < modules && labels.set(entity, tree.labels[drawn.text[k]]));
    return labels.get(module) ?? about.title;
  }
  /** @param {number} entity @returns {ModuleLink} */
  function link(entity) {
    const its = chain(entity);
    if (entity >= modules) return [entity, `${tree.names[name[entity - modules]]} (${id[entity - modules]})`, its];
    const within = its.slice(1).slice(-SHOWN_AROUND).map(labelOf).join(" / ");
    return [entity, `${labelOf(entity)} (module)${within ? `, in ${within}` : ""}`, its];
  }
  /** @type {Record<string, (options: any) => [object, DataView[]]>} */
  const answers = {
    module({ module }) {
      /** @type {Record<string, ArrayLike<number>>} */
      const mine = {};
      for (const [column, all] of Object.entries(drawn)) {
        const starts = BY_EDGE.has(column) ? edge : first;
        mine[column] = all.subarray(starts[module], starts[module + 1]);
      }
      const own = new Map([...new Set(Array.from(mine.text))].map((text, k) => [text, k]));
      mine.text = Array.from(mine.text, (text) => own.get(text) ?? 0);
      return [{ module, labels: [...own.keys()].map((text) => tree.labels[text]) }, pack("module", /** @type {Columns<"module">} */ (mine))];
    },
    module_detail({ entity }) {
      const row = entity - modules;
      /** @type {number[]} */
      const before = [];
      /** @type {number[]} */
      const after = [];
      for (let k = 0; k < from.length; k += 1) {
        if (to[k] === row) before.push(from[k] + modules);
        if (from[k] === row) after.push(to[k] + modules);
      }
      const facts = tree.attributes.map(({ name: of, values: texts }, k) => [of, texts[values[k * nodes + row]] ?? ""]).filter(([, text]) => text);
      facts.unshift(["name", tree.names[name[row]]], ["id", String(id[row])]);
      return [{ entity, facts, before: before.slice(0, MOST_LINKS).map(link), after: after.slice(0, MOST_LINKS).map(link), counts: [before.length, after.length] }, []];
    },
    module_search({ text }) {
      const words = String(text).toLowerCase().split(/\s+/).filter(Boolean);
      /** @type {number[]} */
      const found = [];
      if (words.length === 1 && /^\d+$/.test(words[0])) {
        const row = id.indexOf(Number(words[0]));
        if (row >= 0) found.push(row + modules);
      }
      if (words.length) {
        for (let module = 1; module < modules; module += 1) {
          const label = labelOf(module).toLowerCase();
          if (words.every((word) => label.includes(word))) found.push(module);
        }
        const hits = new Set(lower.flatMap((one, k) => (words.every((word) => one.includes(word)) ? [k] : [])));
        name.forEach((one, row) => hits.has(one) && found.push(row + modules));
      }
      return [{ found: found.slice(0, MOST_FOUND).map(link), total: found.length }, []];
    },
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
