// @ts-check
// A trace's graph without a kernel: the page (graph_page.py) holds the drawing of every module, and all nodes and edges. Here
// they are looked up, and names found by words.

import { pack, unpack } from "./messages.js";
import { followTheme, read } from "./packed.js";

/** @import { Columns, Model, ModuleDetail, ModuleLink, TraceGraphRecording, TraceGraphTraits } from "./types" */

const MOST_FOUND = 50;
const MOST_LINKS = 12;
const BY_EDGE = new Set(["before", "after", "data", "control", "implied"]);

/**
 * Looks up what the page holds of modules and nodes.
 * @param {TraceGraphRecording} header
 * @param {(name: "module" | "module_tree" | "module_values") => DataView[]} buffersOf
 */
function createShelf({ about, tree }, buffersOf) {
  const drawn = unpack("module", buffersOf("module"));
  const { first, edge, around, module_of: moduleOf, name, id, from, to } = unpack("module_tree", buffersOf("module_tree"));
  const values = unpack("module_values", buffersOf("module_values")).value;
  const { modules, nodes } = about;
  const lower = tree.names.map((text) => text.toLowerCase());

  /** An entity, what it is called, and the modules around it, the outermost first. @param {number} entity @returns {ModuleLink} */
  function link(entity) {
    const row = entity - modules;
    const chain = [];
    for (let at = row < 0 ? around[entity] : moduleOf[row]; at >= 0; at = around[at]) chain.unshift(at);
    return [entity, row < 0 ? tree.links[entity] : `${tree.names[name[row]]} (${id[row]})`, chain];
  }
  return {
    /** The drawing of one module. @param {number} module @returns {[answer: { module: number, labels: string[] }, buffers: DataView[]]} */
    module(module) {
      /** @type {Record<string, ArrayLike<number>>} */
      const mine = {};
      for (const [column, all] of Object.entries(drawn)) {
        const starts = BY_EDGE.has(column) ? edge : first;
        mine[column] = all.subarray(starts[module], starts[module + 1]);
      }
      return [{ module, labels: tree.labels }, pack("module", /** @type {Columns<"module">} */ (mine))];
    },
    /** One node, what it waits for and what waits for it. @param {number} entity @returns {ModuleDetail} */
    detail(entity) {
      const row = entity - modules;
      if (!(row >= 0 && row < nodes)) return { entity, facts: [], before: [], after: [], counts: [0, 0] };
      const facts = tree.attributes.map(({ name: fact, values: texts }, k) => [fact, texts[values[k * nodes + row]] ?? ""]);
      const edges = [...from.keys()];
      const before = edges.filter((k) => to[k] === row).map((k) => from[k] + modules);
      const after = edges.filter((k) => from[k] === row).map((k) => to[k] + modules);
      const [some, others] = [before, after].map((all) => all.slice(0, MOST_LINKS).map(link));
      return {
        entity, facts: [["name", tree.names[name[row]]], ["id", String(id[row])], ...facts.filter(([, text]) => text)],
        before: some, after: others, counts: [before.length, after.length],
      };
    },
    /** The node with that number, modules and nodes whose names hold every word. @param {string} text @returns {{ found: ModuleLink[], total: number }} */
    search(text) {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      if (!words.length) return { found: [], total: 0 };
      /** @param {string} one */
      const holds = (one) => words.every((word) => one.includes(word));
      const hits = new Set(lower.flatMap((one, k) => (holds(one) ? [k] : [])));
      const numbered = words.length === 1 && /^\d+$/.test(words[0]) ? id.indexOf(Number(words[0])) : -1;
      const found = [
        ...(numbered < 0 ? [] : [numbered + modules]),
        ...tree.modules.flatMap((one, module) => (module && holds(one.toLowerCase()) ? [module] : [])),
        ...[...name.keys()].filter((row) => hits.has(name[row])).map((row) => row + modules),
      ];
      return { found: found.slice(0, MOST_FOUND).map(link), total: found.length };
    },
  };
}

/**
 * What stands in for the widget's model, and for the kernel behind it.
 * @param {TraceGraphRecording} header
 * @param {DataView[]} columns
 * @returns {Model<TraceGraphTraits>}
 */
export function createRecordedGraph(header, columns) {
  const { about, tree } = header;
  const graph = createShelf(header, (name) => tree.buffers[name].map((k) => columns[k]));
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
