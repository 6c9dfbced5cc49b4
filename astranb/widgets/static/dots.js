// @ts-check
// Lines in flight as dots: with shapes while they are few, as pixels set one by one when they are many.

import { KIND_COLOURS, KIND_SHAPES, channels, contextOf, pixelOf } from "./theme.js";
import { GEOMETRY, classOf } from "./edges.js";

const MANY = 6000; // from here on dots are pixels: rectangles would take longer than a frame
const PIXELS_A_DOT = 6; // where dots with shapes would stand closer, every n-th is drawn
const CLASSES = 3;

/** @import { Context, Drawing, Geometry, Pair } from "./types" */
/** @import { Flights } from "./flights.js" */
/** @typedef {Geometry & Pick<Drawing, "drawn" | "onBundle" | "sparse"> & { bundleOf: Int32Array }} Picture */
/**
 * Draws the flights at `total` places of `found`; gives how many were drawn.
 * @typedef {(context: Context, size: Pair, flights: Flights, time: number, found: Uint32Array, total: number, picture: Picture) => number} Draw
 */

/** Draws flights; keeps its memory from frame to frame. */
export function createDots() {
  const layer = document.createElement("canvas");
  /** @type {ImageData | null} */
  let image = null;
  let pixels = new Uint32Array(0);
  const classes = Uint8Array.from(KIND_COLOURS, (_, kind) => classOf(kind));
  const words = Uint32Array.from(KIND_COLOURS, (colour) => pixelOf(...channels(colour)));

  /** @type {Draw} */
  function shapes(context, _, { start, end, what }, time, found, total, { edges, geometry, offsets, bundleOf, drawn, onBundle, sparse }) {
    let shown = 0;
    edges.forEach((edge, k) => {
      const room = (edge.second ? 2 * edge.length : edge.length) * 4;
      sparse[k] = Math.max(1, Math.ceil((onBundle[k] * PIXELS_A_DOT) / room));
    });
    for (let kind = 0; kind < KIND_COLOURS.length; kind++) {
      context.fillStyle = KIND_COLOURS[kind];
      const shape = KIND_SHAPES[kind];
      for (let at = 0; at < total; at++) {
        const k = found[at];
        const flight = what[k];
        if ((flight & 15) !== kind) continue;
        const link = flight >>> 4;
        const bundle = bundleOf[link];
        if (!drawn[bundle] || k % sparse[bundle]) continue; // the same lines in every frame
        let gone = end[k] > start[k] ? (time - start[k]) / (end[k] - start[k]) : 1;
        let g = bundle * GEOMETRY;
        const [nx, ny] = [geometry[g + 4], geometry[g + 5]];
        if (geometry[g + 10] === 2) {
          gone *= 2;
          if (gone > 1) {
            gone -= 1;
            g += 6;
          }
        }
        const offset = offsets[link * CLASSES + classes[kind]];
        const x = geometry[g] + geometry[g + 2] * gone + nx * offset;
        const y = geometry[g + 1] + geometry[g + 3] * gone + ny * offset;
        if (shape === "square") context.fillRect(x - 2, y - 2, 4, 4);
        else if (shape === "small") context.fillRect(x - 1.25, y - 1.25, 2.5, 2.5);
        else {
          context.fillRect(x - 1, y - 4, 2, 8);
          context.fillRect(x - 4, y - 1, 8, 2);
        }
        shown += 1;
      }
    }
    return shown;
  }

  /** @type {Draw} */
  function splat(context, size, { start, end, what }, time, found, total, { geometry, offsets, tracks, bundleOf, drawn, sparse }) {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.max(1, Math.round(size[0] * ratio)), Math.max(1, Math.round(size[1] * ratio))];
    if (layer.width !== w || layer.height !== h || !image) {
      layer.width = w;
      layer.height = h;
      image = new ImageData(w, h);
      pixels = new Uint32Array(image.data.buffer);
    }
    pixels.fill(0);
    sparse.fill(1);
    let shown = 0;
    for (let at = 0; at < total; at++) {
      const k = found[at];
      const flight = what[k];
      const kind = flight & 15;
      const link = flight >>> 4;
      const bundle = bundleOf[link];
      if (!drawn[bundle] || kind >= words.length) continue;
      const begin = start[k];
      const length = end[k] - begin;
      const lane = link * CLASSES + classes[kind];
      let gone = length > 0 ? (time - begin) / length : 1;
      let x;
      let y;
      const g = bundle * GEOMETRY;
      if (geometry[g + 10] === 2) {
        const part = 2 * gone > 1 ? g + 6 : g;
        gone = 2 * gone > 1 ? 2 * gone - 1 : 2 * gone;
        x = ((geometry[part] + geometry[part + 2] * gone + geometry[g + 4] * offsets[lane]) * ratio) | 0;
        y = ((geometry[part + 1] + geometry[part + 3] * gone + geometry[g + 5] * offsets[lane]) * ratio) | 0;
      } else {
        x = ((tracks[4 * lane] + tracks[4 * lane + 2] * gone) * ratio) | 0;
        y = ((tracks[4 * lane + 1] + tracks[4 * lane + 3] * gone) * ratio) | 0;
      }
      shown += 1;
      if (x < 0 || y < 0 || x >= w - 1 || y >= h - 1) continue;
      const word = words[kind];
      const place = y * w + x;
      pixels[place] = word;
      pixels[place + 1] = word;
      pixels[place + w] = word;
      pixels[place + w + 1] = word;
    }
    contextOf(layer).putImageData(image, 0, 0);
    context.drawImage(layer, 0, 0, size[0], size[1]);
    return shown;
  }

  /** @type {Draw} */
  const draw = (context, size, flights, time, found, total, picture) =>
    (total >= MANY ? splat : shapes)(context, size, flights, time, found, total, picture);
  return { draw };
}
