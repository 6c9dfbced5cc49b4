// @ts-check
// On the topology of two runs beside each other: which boxes and links were changed in one of them.

/** @import { Context, Geometry, Store } from "./types" */

const DIFFERING = "#d55e00";

/** @param {Context} context @param {Store} store @param {Geometry} laid */
export function drawDiffering(context, store, laid) {
  const differing = store.beside.differing ?? [];
  if (!differing.length) return;
  context.save();
  context.strokeStyle = DIFFERING;
  context.lineWidth = 2.5;
  context.setLineDash([6, 3]);
  const names = new Set(differing);
  for (const { name, x, y, w, h } of store.scene.boxes) {
    if (!names.has(name)) continue;
    const { place } = laid;
    const [wide, tall] = [w * place.box + 8, h * place.box + 8];
    context.strokeRect(x * place.x - wide / 2, y * place.y - tall / 2, wide, tall);
  }
  store.scene.bundles.forEach(({ name }, k) => {
    if (!names.has(name)) return;
    const { x, y, ux, uy, length } = laid.edges[k];
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + ux * length, y + uy * length);
    context.stroke();
  });
  context.restore();
}
