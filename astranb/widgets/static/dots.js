// @ts-check
// Lines in flight as dots: with shapes while they are few, as pixels set one by one when they are many.
// Of a bundle with more lines than can be distinguished every n-th is drawn.

import { channels, contextOf, pixelOf } from "./theme.js";
import { alongTrack, trackOf } from "./edges.js";

const MANY = 6000; // from here on dots are pixels: rectangles would take longer than a frame
const PIXELS_A_DOT = 3; // along a bundle: closer, dots cannot be distinguished
const PIXELS_ASLANT = 8; // the same of a bundle that others cross

/** @import { Context, Drawing, Geometry, Looks, Pair } from "./types" */
/** @import { Flights } from "./flights.js" */
/** @typedef {Geometry & Pick<Drawing, "drawn" | "onBundle" | "sparse"> & { bundleOf: Int32Array, looks: Looks }} Picture */
/** @typedef {{ start: Float64Array, end: Float64Array, what: Uint32Array }} Columns */

/** Draws flights; keeps its memory from frame to frame. */
export function createDots() {
  const layer = document.createElement("canvas");
  /** @type {ImageData | null} */
  let image = null;
  let pixels = new Uint32Array(0);
  let visible = new Uint32Array(1024); // flights that are drawn

  /** Of how many lines one is drawn, for each bundle: a power of two, so that a dot stays when there are more. @param {Picture} picture */
  function thin({ edges, onBundle, sparse }) {
    edges.forEach(({ length, second, ux, uy }, k) => {
      const apart = Math.min(Math.abs(ux), Math.abs(uy)) < 0.01 ? PIXELS_A_DOT : PIXELS_ASLANT;
      const crowd = (onBundle[k] * apart) / (second ? 2 * length : length);
      sparse[k] = crowd > 1 ? 2 ** Math.ceil(Math.log2(crowd)) : 1;
    });
  }

  /** @param {Columns} flights @param {Uint32Array} found @param {number} total @param {Picture} picture */
  function choose({ what }, found, total, { bundleOf, drawn, sparse }) {
    if (visible.length < total) visible = new Uint32Array(2 * total);
    let shown = 0;
    for (let at = 0; at < total; at++) {
      const k = found[at];
      const bundle = bundleOf[what[k] >>> 4];
      if (drawn[bundle] && k % sparse[bundle] === 0) visible[shown++] = k; // the same lines in every frame
    }
    return shown;
  }

  /** How much of its time on its link is over. @param {Columns} flights @param {number} k @param {number} time */
  const gone = ({ start, end }, k, time) => (end[k] > start[k] ? (time - start[k]) / (end[k] - start[k]) : 1);

  /** @param {Context} context @param {Columns} flights @param {number} time @param {number} shown @param {Picture} picture */
  function shapes(context, flights, time, shown, { tracks, lane, looks }) {
    const { what } = flights;
    const [large, small] = [Math.max(2.5, Math.min(4, 1.2 * lane)), Math.max(2, Math.min(2.5, lane))];
    for (let kind = 0; kind < looks.colours.length; kind++) {
      context.fillStyle = looks.colours[kind];
      const shape = looks.shapes[kind];
      const side = shape === "square" ? large : small;
      for (let at = 0; at < shown; at++) {
        const k = visible[at];
        if ((what[k] & 15) !== kind) continue;
        const [x, y] = alongTrack(tracks, trackOf(what[k] >>> 4, kind), gone(flights, k, time));
        if (shape !== "cross") context.fillRect(x - side / 2, y - side / 2, side, side);
        else {
          context.fillRect(x - 1, y - 4, 2, 8);
          context.fillRect(x - 4, y - 1, 8, 2);
        }
      }
    }
  }

  /** @param {Context} context @param {Pair} size @param {Columns} flights @param {number} time @param {number} shown @param {Picture} picture */
  function splat(context, size, flights, time, shown, { tracks, looks }) {
    const words = Uint32Array.from(looks.colours, (colour) => pixelOf(...channels(colour)));
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.max(1, Math.round(size[0] * ratio)), Math.max(1, Math.round(size[1] * ratio))];
    if (layer.width !== w || layer.height !== h || !image) {
      layer.width = w;
      layer.height = h;
      image = new ImageData(w, h);
      pixels = new Uint32Array(image.data.buffer);
    }
    pixels.fill(0);
    for (let at = 0; at < shown; at++) {
      const k = visible[at];
      const kind = flights.what[k] & 15;
      if (kind >= words.length) continue;
      const spot = alongTrack(tracks, trackOf(flights.what[k] >>> 4, kind), gone(flights, k, time));
      const [x, y] = [(spot[0] * ratio) | 0, (spot[1] * ratio) | 0];
      if (x < 0 || y < 0 || x >= w - 1 || y >= h - 1) continue;
      const place = y * w + x;
      pixels[place] = pixels[place + 1] = pixels[place + w] = pixels[place + w + 1] = words[kind];
    }
    contextOf(layer).putImageData(image, 0, 0);
    context.drawImage(layer, 0, 0, size[0], size[1]);
  }

  /**
   * Draw the flights at `total` places of `found`; gives how many were drawn.
   * @param {Context} context
   * @param {Pair} size
   * @param {Flights} flights
   * @param {number} time
   * @param {Uint32Array} found
   * @param {number} total
   * @param {Picture} picture
   */
  function draw(context, size, flights, time, found, total, picture) {
    thin(picture);
    const shown = choose(flights, found, total, picture);
    if (shown >= MANY) splat(context, size, flights, time, shown, picture);
    else shapes(context, flights, time, shown, picture);
    return shown;
  }
  return { draw };
}
