// @ts-check
// What a page that simulates answers about a graph by module, of which it has all modules.

import { pack, unpack } from "./messages.js";

/** @import { Columns, ModuleAbout, ModuleDetail, ModuleLink, WholeTree } from "./types" */

const MOST_FOUND = 50;
const MOST_LINKS = 12;
const SHOWN_AROUND = 4; // modules around one that was found
const BY_EDGE = new Set(["before", "after", "data", "control", "implied"]);

/**
 * @param {ModuleAbout} about
 * @param {Omit<WholeTree, "buffers">} tree
 * @param {{ module: DataView[], module_tree: DataView[] }} buffers
 * @param {(row: number) => string[][]} factsOf names and values that are known of the node in a row
 */
export function createModuleAnswers(about, tree, buffers, factsOf) {
  const drawn = unpack("module", buffers.module);
  const { first, edge, around, module_of: moduleOf, name, id, from, to } = unpack("module_tree", buffers.module_tree);
  const { modules, nodes } = about;
  const lower = tree.names.map((text) => text.toLowerCase());

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
  return {
    about,
    /** The id of each node. */
    id,
    /** The name of the node in a row. @param {number} row */
    nameOf: (row) => tree.names[name[row]],
    /** The children of a module, in an order in which they can begin. @param {number} module */
    children: (module) => drawn.entity.subarray(first[module], first[module + 1]),
    /** How many nodes each module has for which something holds, with all that is inside. @param {(row: number) => boolean} holds */
    counts(holds) {
      const found = new Float64Array(modules);
      for (let row = 0; row < nodes; row++) {
        if (holds(row)) for (let at = moduleOf[row]; at >= 0; at = around[at]) found[at] += 1;
      }
      return found;
    },
    /** The drawing of one module. @param {number} module @returns {[answer: { module: number, labels: string[] }, buffers: DataView[]]} */
    module(module) {
      if (!(module >= 0 && module < modules)) return [{ module: 0, labels: [] }, pack("module", {})];
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
    /** What is known of one node, what it waits for and what waits for it. @param {number} entity @returns {ModuleDetail} */
    detail(entity) {
      const row = entity - modules;
      if (!(row >= 0 && row < nodes)) return { entity, facts: [], before: [], after: [], counts: [0, 0] };
      /** @type {number[]} */
      const before = [];
      /** @type {number[]} */
      const after = [];
      for (let k = 0; k < from.length; k += 1) {
        if (to[k] === row) before.push(from[k] + modules);
        if (from[k] === row) after.push(to[k] + modules);
      }
      const [some, others] = [before, after].map((all) => all.slice(0, MOST_LINKS).map(link));
      return { entity, facts: factsOf(row), before: some, after: others, counts: [before.length, after.length] };
    },
    /** Nodes and modules whose names hold every word, or the node with that number; the best first. @param {string} text @returns {{ found: ModuleLink[], total: number }} */
    search(text) {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
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
      return { found: found.slice(0, MOST_FOUND).map(link), total: found.length };
    },
  };
}
