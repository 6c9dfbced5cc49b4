// @ts-check
// Nodes and directed lanes by name: counterpart of net/fabric.py and infragraph/_graph.py.

import { InputError } from "./errors.js";
import { locate } from "./node_names.js";
import { repr } from "./text.js";

/** @import { Engine, Fabric, Live, NodePlan } from "./types" */

/** @type {WeakMap<Live, Fabric>} nothing of it changes during a run */
const made = new WeakMap();

/** What nodes and lanes are called, as widgets/live/node_names.py describes it.
 * @typedef {{ nodes: string[], gpus: number[], links: string[], plan: NodePlan, kinds: string[], kind: number[], forward_ps: number[] }} FabricNames */

/** @param {Engine} engine @returns {Fabric} */
export function fabricOf({ live, tables }) {
  const known = made.get(live);
  if (known) return known;
  const count = live.about.links.length;
  const [src, dst, lane] = ["src", "dst", "lane"].map((name) => tables.links.column(name).slice(0, count));
  const fabric = createFabric(/** @type {FabricNames} */ (/** @type {unknown} */ (live.about)), src, dst, lane);
  made.set(live, fabric);
  return fabric;
}

/**
 * @param {FabricNames} about
 * @param {Float64Array} src of each lane
 * @param {Float64Array} dst
 * @param {Float64Array} lane its number among parallel ones
 * @returns {Fabric}
 */
export function createFabric({ nodes, gpus, links: names, plan, kinds, kind, forward_ps }, src, dst, lane) {
  /** @type {Map<number, Map<number, number[]>>} lanes by their source and target */
  const out = new Map();
  src.forEach((source, link) => {
    const from = out.get(source) ?? new Map();
    from.set(dst[link], [...(from.get(dst[link]) ?? []), link]);
    out.set(source, from);
  });
  /** @type {Fabric} */
  const fabric = {
    nodes, gpus, src, dst, lane,
    links: src.length,
    rankOf: new Map(gpus.map((node, rank) => [node, rank])),
    instance: instancesIn(plan, nodes.length),
    kindName: (node) => kinds[kind[node]],
    forwardPs: (node) => forward_ps[node],
    lanes: (source, target) => out.get(source)?.get(target) ?? [],
    name: (link) => names[link],
    index(name) {
      const found = locate(plan, name);
      return found && found.leaf && found.units === 1 ? found.nodes[0] : -1;
    },
    select: (identifier) => locate(plan, identifier)?.nodes ?? [],
    full: (path) => ends(path).map((end) => end.trim().replace(/^gpu\[(\d+)\](?=#|$)/, (text, rank) => {
      if (Number(rank) < gpus.length) return nodes[gpus[Number(rank)]];
      throw new InputError(`there is no ${text}`, { hint: `ranks are 0 to ${gpus.length - 1}` });
    })).join("->"),
    find(name) {
      const [plain, number] = partition(name, "#");
      const [a, b] = partition(plain, "->");
      const found = fabric.lanes(fabric.index(a.trim()), fabric.index(b.trim()));
      if (found.length && !number) return found;
      if (/^\d+$/.test(number) && Number(number) < found.length) return [found[Number(number)]];
      throw new InputError(`there is no link ${repr(name)}`, { hint: "write A->B or A->B#k with names of the infrastructure" });
    },
  };
  return fabric;
}

/** The number of the instance that each node is in. @param {NodePlan} plan @param {number} nodes */
function instancesIn({ instances, devices }, nodes) {
  const found = new Int32Array(nodes);
  let number = 0;
  for (const { device, count, base } of Object.values(instances)) {
    const { size } = devices[device];
    for (let copy = 0; copy < count; copy += 1, number += 1) found.fill(number, base + copy * size, base + (copy + 1) * size);
  }
  return found;
}

/** The text in front of the first mark, and behind it. @param {string} text @param {string} mark */
export function partition(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + mark.length)];
}

/** Both ends of a link, or one name. @param {string} path */
export const ends = (path) => (path.includes("->") ? partition(path, "->") : [path]);
