// @ts-check
// Nodes and directed lanes by name: counterpart of net/fabric.py and infragraph/_graph.py.

import { InputError } from "./errors.js";
import { locate } from "./node_names.js";
import { repr } from "./text.js";

/** @import { Engine, Fabric, Live, NodePlan } from "./types" */

/** @type {WeakMap<Live, Fabric>} nothing of it changes during a run */
const made = new WeakMap();

/** @param {Engine} engine @returns {Fabric} */
export function fabricOf({ live, tables }) {
  const known = made.get(live);
  if (known) return known;
  const { nodes, gpus, links: names, plan, kinds, kind, forward_ps } = live.about;
  const [src, dst, lane] = ["src", "dst", "lane"].map((name) => tables.links.column(name).slice(0, names.length));
  /** @type {Fabric} */
  const fabric = {
    ...laneFinder({ plan, src, dst, ranks: gpus.map((/** @type {number} */ node) => nodes[node]) }),
    nodes, gpus, src, dst, lane,
    links: names.length,
    rankOf: new Map(gpus.map((/** @type {number} */ node, /** @type {number} */ rank) => [node, rank])),
    kindName: (node) => kinds[kind[node]],
    forwardPs: (node) => forward_ps[node],
    name: (link) => names[link],
  };
  made.set(live, fabric);
  return fabric;
}

/**
 * What finds nodes and lanes by name.
 * @param {{ plan: NodePlan, ranks: string[], src: ArrayLike<number>, dst: ArrayLike<number> }} given how nodes are named, the name of each rank, the ends of each lane
 * @returns {Pick<Fabric, "lanes" | "index" | "select" | "full" | "find">}
 */
export function laneFinder({ plan, ranks, src, dst }) {
  /** @type {Map<number, Map<number, number[]>>} lanes by their source and target */
  const out = new Map();
  for (let lane = 0; lane < src.length; lane++) {
    const from = out.get(src[lane]) ?? new Map();
    from.set(dst[lane], [...(from.get(dst[lane]) ?? []), lane]);
    out.set(src[lane], from);
  }
  /** @type {Fabric["lanes"]} */
  const lanes = (source, target) => out.get(source)?.get(target) ?? [];
  /** @param {string} name */
  const index = (name) => {
    const found = locate(plan, name);
    return found && found.leaf && found.units === 1 ? found.nodes[0] : -1;
  };
  return {
    lanes, index,
    select: (identifier) => locate(plan, identifier)?.nodes ?? [],
    full: (path) => ends(path).map((end) => end.trim().replace(/^gpu\[(\d+)\](?=#|$)/, (text, rank) => {
      if (Number(rank) < ranks.length) return ranks[Number(rank)];
      throw new InputError(`there is no ${text}`, { hint: `ranks are 0 to ${ranks.length - 1}` });
    })).join("->"),
    find(name) {
      const [plain, number] = partition(name, "#");
      const [a, b] = partition(plain, "->");
      const found = lanes(index(a.trim()), index(b.trim()));
      if (found.length && !number) return found;
      if (/^\d+$/.test(number) && Number(number) < found.length) return [found[Number(number)]];
      throw new InputError(`there is no link ${repr(name)}`, { hint: "write A->B or A->B#k with names of the infrastructure" });
    },
  };
}

/** The text in front of the first mark, and behind it. @param {string} text @param {string} mark */
export function partition(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + mark.length)];
}

/** Both ends of a link, or one name. @param {string} path */
export const ends = (path) => (path.includes("->") ? partition(path, "->") : [path]);
