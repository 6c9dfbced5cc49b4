// @ts-check
// Messages of a workload on their links: squares in the colour of their collective, larger for more bytes, with
// words where there is room. Where they are follows from recorded times, as for dots (dots.js).

import { alongTrack, trackOf } from "./edges.js";
import { formatBytes } from "./format.js";
import { inkOn, channels, looksOf } from "./theme.js";

/** @import { Context, Edge, Geometry, Store } from "./types" */
/** @typedef {{ place: number, x: number, y: number, half: number, bundle: number }} Spot a message: its place among the flights, where it is, and on which bundle of links */

const LANES = 4; // beside each other on a link, by the number of the chunk
const APART = 3; // px
const MOST_BESIDE = 4; // squares beside each other
const NUMBERED = 40; // messages whose squares hold their chunk's number, at most
const WORDED = 24; // messages with words beside them, at most

/** @param {Store} store */
export function createMoving(store) {
  /** @type {Spot[]} */
  let spots = [];

  /**
   * Draw the flights at `total` places of `found`; gives how many were drawn.
   * @param {Context} context
   * @param {Uint32Array} found
   * @param {number} total
   * @param {Geometry & { bundleOf: Int32Array, drawn: Uint8Array }} picture
   */
  function draw(context, found, total, { edges, tracks, bundleOf, drawn, place: { box } }) {
    const scale = Math.min(1, Math.max(0.4, 1.6 * box)); // as large beside the boxes whatever the picture holds
    const { start, end, what, about } = store.flights;
    const { colours } = looksOf(store.scene);
    spots = [];
    if (!about) return 0;
    for (let at = 0; at < total; at++) {
      const k = found[at];
      const bundle = bundleOf[what[k] >>> 4];
      if (!drawn[bundle]) continue;
      const gone = end[k] > start[k] ? (store.cursor - start[k]) / (end[k] - start[k]) : 1;
      const half = scale * Math.min(7, Math.max(3, Math.log2(1 + about.bytes[k]) / 3));
      const { ux, uy, length } = edges[bundle];
      const edge = Math.min(0.5, half / Math.max(1, length)); // in full beside the boxes, not half behind them
      const [x, y] = alongTrack(tracks, trackOf(what[k] >>> 4, 0), edge + gone * (1 - 2 * edge));
      const beside = scale * APART * ((about.chunk[k] % LANES) - (LANES - 1) / 2);
      spots.push({ place: k, x: x - uy * beside, y: y + ux * beside, half, bundle });
    }
    if (spots.length <= NUMBERED) spread(edges);
    for (const { place, x, y, half } of spots) {
      context.fillStyle = colours[what[place] & 15];
      context.fillRect(x - half, y - half, 2 * half, 2 * half);
    }
    write(context, colours);
    const few = spots.length <= NUMBERED ? spots : [];
    context.canvas.dataset.moving = few.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
    return spots.length;
  }

  /** A few that would cover one another stand side by side. @param {Edge[]} edges */
  function spread(edges) {
    spots.forEach((spot, k) => {
      const { ux, uy } = edges[spot.bundle];
      const covers = () => spots.slice(0, k).some((other) => Math.max(Math.abs(spot.x - other.x), Math.abs(spot.y - other.y)) < spot.half + other.half);
      for (let lane = 0; lane < MOST_BESIDE && covers(); lane++) {
        spot.x -= 2 * spot.half * uy;
        spot.y += 2 * spot.half * ux;
      }
    });
  }

  /** The number of the chunk in each square, where squares are few. @param {Context} context @param {string[]} colours */
  function write(context, colours) {
    const { what, about } = store.flights;
    if (!about || spots.length > NUMBERED) return;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = "bold 9px sans-serif";
    for (const { place, x, y, half } of spots) {
      const text = String(about.chunk[place]);
      if (half < 4 || text.length > 1 + half / 3) continue;
      context.fillStyle = inkOn(channels(colours[what[place] & 15]));
      context.fillText(text, x, y + 0.5);
    }
  }

  /** The message at a point; null where there is none. @param {number} x @param {number} y */
  function hit(x, y) {
    return spots.findLast((spot) => Math.abs(spot.x - x) <= spot.half + 2 && Math.abs(spot.y - y) <= spot.half + 2) ?? null;
  }

  /** A message in words. @param {number} place */
  function describe(place) {
    const { what, about } = store.flights;
    if (!about) return "";
    const parts = [store.scene.kinds[what[place] & 15]];
    if (about.phase[place]) parts.push(`chunk ${about.chunk[place]}`, `phase ${about.phase[place]}${about.step[place] ? `, step ${about.step[place]}` : ""}`);
    parts.push(formatBytes(about.bytes[place]), `rank ${about.source[place]} to rank ${about.target[place]}`);
    return parts.join(" · ");
  }

  /**
   * A few messages of this frame, and what to write beside each, longest first; none where there are more. Where a
   * link ends at a switch, it is written who sends to whom.
   * @param {Edge[]} edges
   */
  function words(edges) {
    const { about } = store.flights;
    const { boxes, bundles } = store.scene;
    if (!about || spots.length > WORDED) return [];
    return spots.map(({ place, bundle, ...spot }) => {
      const { from, to } = bundles[bundle];
      const direct = boxes[from].ranks[0] >= 0 && boxes[to].ranks[0] >= 0;
      const parts = about.phase[place] ? [`chunk ${about.chunk[place]}`, `phase ${about.phase[place]}`] : [];
      parts.push(formatBytes(about.bytes[place]));
      if (!direct) parts.unshift(`${about.source[place]} → ${about.target[place]}`);
      const forms = parts.map((_, left) => (direct ? parts.slice(left) : parts.slice(0, parts.length - left)).join(" · "));
      return { ...spot, upright: Math.abs(edges[bundle].uy) > Math.abs(edges[bundle].ux), words: forms };
    });
  }

  /** The path of the operation of a message; empty where it is not known. @param {number} place */
  function pathOf(place) {
    const { about } = store.flights;
    const known = about && about.number[place] < 2 ** 32 - 1;
    return known ? `rank[${store.scene.alike && store.scene.alike > 1 ? 0 : about.source[place]}].op[${about.number[place]}]` : "";
  }

  return { draw, hit, describe, words, pathOf, forget: () => void (spots = []) };
}
