// @ts-check
// Which links are drawn as one line, what it is called, and what a picture leaves out: counterpart of
// export/layout/bundles.py, and of `picture_of` in widgets/feed/lines.py.

import { isRail, layOut } from "./layout.js";
import { commas } from "./text.js";

/** @import { Engine, Fabric, Live, Picture } from "./types" */
/** @import { DrawnNetwork, Layout } from "./layout.js" */

/** @param {Live} live @param {Fabric} fabric @returns {DrawnNetwork} */
const networkOf = (live, { nodes, src, dst, gpus, rankOf, instance }) => ({
  nodes, src, dst, gpus, rankOf, instance,
  kindOf: (node) => live.about.classes[live.about.kind[node]],
  instanceName: (node) => nodes[node].split(".", 2).join("."),
});

/**
 * A picture of a run.
 * @param {Engine} engine
 * @param {Fabric} fabric
 * @param {number[]} used links on the program's routes, in ascending order
 * @param {{ opened?: string[], focus?: string }} [look]
 * @returns {Picture}
 */
export function pictureOf({ live, tables }, fabric, used, look) {
  const layout = layOut(networkOf(live, fabric), used, look);
  const { boxes, bundles, inside, detail } = layout;
  const bundleOf = new Int32Array(tables.links.rows).fill(-1);
  bundles.forEach(([, , lanes], number) => lanes.forEach((link) => void (bundleOf[link] = number)));
  inside.forEach((lanes, number) => lanes.forEach((link) => void (bundleOf[link] = -2 - number)));
  const { families, of: typeOf } = live.about.link_types;
  const meta = {
    level: detail.level,
    hot: detail.hot,
    note: describe(layout),
    focus: layout.focus,
    width: layout.width,
    height: layout.height,
    hidden: layout.hidden,
    boxes: boxes.map((box) => {
      const { name, label, kind, rank, last, count, x, y, w, h } = box;
      return { name, label, kind, rank: count === 1 ? rank : -1, ranks: [rank, last], count, x, y, w, h, rail: isRail(box) };
    }),
    frames: layout.frames,
    bundles: bundles.map(([from, to, lanes], number) => ({
      from, to, name: bundleName(fabric, layout, number), bent: layout.bent[number], port: layout.ports[number], family: families[typeOf[lanes[0]]],
    })),
    tiles: layout.tiles,
  };
  return { meta, bundle_of: bundleOf, bundles: bundles.map(([, , lanes]) => lanes), inside, units: layout.units };
}

/** Of its link where it is one, else of the boxes at its ends. @param {Fabric} fabric @param {Layout} layout @param {number} number */
function bundleName({ src, dst, name }, { boxes, bundles }, number) {
  const [a, b, lanes] = bundles[number];
  const one = lanes.every((link) => src[link] === src[lanes[0]] && dst[link] === dst[lanes[0]]);
  return one ? name(lanes[0]).split("#")[0] : `${boxes[a].name}->${boxes[b].name}`;
}

/** What is drawn and what is left out. @param {Layout} layout */
function describe({ shapes, boxes, bundles, detail: { level, hot }, focus }) {
  const words = [...shapes];
  const gpus = boxes.reduce((sum, { rank, kind, count }) => sum + (rank >= 0 && kind !== "tier" ? count : 0), 0);
  const some = hot > 0 && bundles.length > hot;
  if (focus) words.unshift(`only ${focus} and what it is joined with`);
  else if (level === "aggregates") words.push("too many to draw one by one: a tile is an instance, a band is a tier");
  else {
    if (level === "collapsed") words.push(`${commas(gpus)} GPUs: each instance is one box`);
    else if (some) words.push(`${commas(gpus)} GPUs`);
    if (some) words.push(`of many lines in flight those on the ${hot} hottest of ${commas(bundles.length)} links are drawn`);
  }
  return words.join(" · ");
}
