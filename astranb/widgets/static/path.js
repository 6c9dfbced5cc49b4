// @ts-check
// The critical path drawn over the topology and over the timelines, and the colours of its causes.

import { momentOf } from "./asker.js";
import { alongTrack, sizeOf, trace, trackOf } from "./edges.js";
import { timeColour } from "./theme.js";

/** @import { Box, Context, Edge, Path, Place, Row, Scale, Store, Theme } from "./types" */

/**
 * Where dots are drawn.
 * @typedef {{ tracks: Float32Array, sparse: Uint32Array, bundleOf: Int32Array }} Dots
 */

/** @type {Record<string, string>} Okabe and Ito: links are warm, GPUs are cool, waits are grey. */
const COLOURS = {
  queue: "#d55e00", wire: "#e69f00", latency: "#f0e442", switch: "#cc79a7", pacing: "#cc79a7",
  "on chip": "#56b4e9", stalled: "#0072b2",
  L2: "#009e73", "L2 queue": "#009e73", HBM: "#009e73", "HBM queue": "#009e73",
  collective: "#e69f00", message: "#d55e00", others: "#f0e442", memory: "#009e73", broadcast: "#cc79a7",
  start: "#999999",
  poll: "#999999", launch: "#999999", "no SM": "#999999", ended: "#bbbbbb",
};

/** @param {string} cause */
export function causeColour(cause) {
  return timeColour(cause) ?? COLOURS[cause] ?? "#999999";
}

/** The segment of the path at a time, -1 where there is none. @param {Path} path @param {number} time */
function segmentAt(path, time) {
  let [low, high] = [0, path.start.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (path.start[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return path.start.length && path.start[low] <= time && time <= path.end[low] ? low : -1;
}

/**
 * Over the topology: the links that a selected line has crossed (thin), is on, and has still to cross.
 * @param {Store} store
 * @param {Theme} theme
 * @param {(bundle: number, colour: string, width: number, dash: number[]) => void} stroke
 */
function drawRoute(store, theme, stroke) {
  const route = store.selection.startsWith("line[") ? store.inspection?.found?.route : null;
  for (const hop of route ?? []) {
    const colon = hop.lastIndexOf(": ");
    const name = hop.slice(0, colon).split("#")[0];
    const number = store.scene.bundles.findIndex((bundle) => bundle.name === name);
    if (number >= 0) stroke(number, theme.brand, hop.endsWith("crossed") ? 2 : 4, hop.endsWith("to go") ? [2, 6] : []);
  }
}

/**
 * Over the topology: links and GPUs of the path, wider where more of its time passes, and where it is at the cursor.
 * @param {Context} context
 * @param {Store} store
 * @param {Theme} theme
 * @param {{ edges: Edge[], bundleOf: Int32Array, boxes: Box[], place: Place }} picture
 */
export function drawPath(context, store, theme, { edges, bundleOf, boxes, place }) {
  /** @type {(bundle: number, colour: string, width: number, dash: number[]) => void} */
  const stroke = (number, colour, width, dash) => {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    trace(context, edges[number]);
    context.setLineDash([]);
  };
  drawRoute(store, theme, stroke);
  const { path } = store;
  if (!path) return;
  const total = path.end[path.end.length - 1] - path.start[0] || 1;
  const onBundle = new Float64Array(edges.length);
  /** @type {Map<number, number>} */
  const onGpu = new Map();
  for (let k = 0; k < path.start.length; k++) {
    const length = path.end[k] - path.start[k];
    if (path.link[k] >= 0) onBundle[bundleOf[path.link[k]]] += length;
    else if (path.rank[k] >= 0) onGpu.set(path.rank[k], (onGpu.get(path.rank[k]) ?? 0) + length);
  }
  const now = segmentAt(path, store.cursor);
  context.save();
  context.lineCap = "round";
  onBundle.forEach((time, number) => {
    if (time > 0) stroke(number, theme.ink, Math.min(6, 1.5 + (12 * time) / total), [7, 4]);
  });
  if (now >= 0 && path.link[now] >= 0 && bundleOf[path.link[now]] >= 0) {
    stroke(bundleOf[path.link[now]], causeColour(path.names[path.cause[now]]), 5, []);
  }
  for (const box of boxes) {
    const time = onGpu.get(box.rank) ?? 0;
    const here = now >= 0 && box.rank >= 0 && path.rank[now] === box.rank;
    if (!time && !here) continue;
    const [w, h] = sizeOf(box, place).map((side) => side + 6);
    context.setLineDash(here ? [] : [7, 4]);
    context.strokeStyle = here ? causeColour(path.names[path.cause[now]]) : theme.ink;
    context.lineWidth = here ? 4 : Math.min(4, 1.25 + (8 * time) / total);
    context.strokeRect(box.x * place.x - w / 2, box.y * place.y - h / 2, w, h);
  }
  context.restore();
}

/**
 * The line in flight whose dot is alone at a point: {link, end_ps}; null where there are several, or none.
 * @param {Store} store
 * @param {number} x
 * @param {number} y
 * @param {Dots} dots
 */
function lineAt(store, x, y, { tracks, sparse, bundleOf }) {
  const { start, end, what } = store.flights;
  const time = store.cursor;
  const near = 4 ** 2;
  /** @type {{ link: number, end_ps: number } | null} */
  let best = null;
  let dots = 0;
  for (const k of store.flights.at(time)) {
    const link = what[k] >>> 4;
    if (bundleOf[link] < 0 || start[k] > time || k % sparse[bundleOf[link]]) continue;
    const [atX, atY] = alongTrack(tracks, trackOf(link, what[k] & 15), (time - start[k]) / Math.max(1, end[k] - start[k]));
    const [dx, dy] = [atX - x, atY - y];
    if (dx * dx + dy * dy > near) continue;
    dots += 1;
    best = { link, end_ps: end[k] };
  }
  return dots === 1 ? best : null;
}

/**
 * Select the line at a point, or what `otherwise` names.
 * @param {Store} store
 * @param {number} x
 * @param {number} y
 * @param {Dots} dots
 * @param {() => string} otherwise
 */
export async function selectAt(store, x, y, dots, otherwise) {
  const line = lineAt(store, x, y, dots);
  const name = otherwise();
  if (!line || store.scene.boxes.some((box) => box.name === name)) {
    store.select(name);
    return;
  }
  const answer = await store.ask("line", { ...line, at_ps: momentOf(store).at_ps }).catch(() => null);
  store.select(answer ? answer.path : name);
}

/**
 * Over the rows of a timeline: which row the path is at, one line from the start to the end.
 * @param {Context} context
 * @param {Store} store
 * @param {Theme} theme
 * @param {Scale} scale
 * @param {(block: number, sm: number) => Row | null} rowAt
 */
export function drawPathOverTime(context, store, theme, scale, rowAt) {
  const { path } = store;
  if (!path) return;
  /** @type {number | null} */
  let last = null;
  for (let k = 0; k < path.start.length; k++) {
    const row = rowAt(path.block[k], path.sm[k]);
    if (!row || path.end[k] < scale.a || path.start[k] > scale.b) {
      last = null;
      continue;
    }
    const [x0, x1] = [scale.x(path.start[k]), scale.x(path.end[k])];
    const y = row.top + row.height / 2;
    const tall = Math.max(3, Math.min(7, row.height));
    context.fillStyle = theme.ink;
    if (last !== null && last !== y) context.fillRect(x0 - 0.75, Math.min(last, y), 1.5, Math.abs(last - y));
    context.fillRect(x0 - 0.5, y - tall / 2 - 1, Math.max(1, x1 - x0) + 1, tall + 2);
    context.fillStyle = causeColour(path.names[path.cause[k]]);
    context.fillRect(x0, y - tall / 2, Math.max(0.5, x1 - x0), tall);
    last = y;
  }
}
