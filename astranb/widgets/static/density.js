// @ts-check
// Rows of a timeline as pixels: spans where they have room, else shares of each column stacked up.

import { channels, contextOf, pixelOf } from "./theme.js";

/**
 * An image of shares, one pixel a column, `height` a row: from the bottom up, state by state.
 * @param {Uint8Array} shares 255 is all; by state, row and column
 * @param {number[]} present numbers of the states
 * @param {number} rows
 * @param {number} columns
 * @param {number} height
 * @param {string[]} colours by state
 */
export function paintDensity(shares, present, rows, columns, height, colours) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows * height);
  const context = contextOf(canvas);
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const paints = present.map((state) => pixelOf(...channels(colours[state])));
  const plane = rows * columns;
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const cell = row * columns + column;
      let sum = 0;
      let y = 0; // filled so far, from the bottom
      for (let k = 0; k < present.length; k++) {
        const share = shares[k * plane + cell];
        if (!share) continue;
        sum += share;
        const until = Math.min(height, Math.round((sum * height) / 255));
        // What is there at all shows, unless there is no room left.
        for (; y < until; y++) pixels[(row * height + height - 1 - y) * columns + column] = paints[k];
      }
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Where the spans of each row begin among those of an answer, which are in the order of rows.
 * @param {Uint32Array} rows
 * @param {number} count
 */
export function rowStarts(rows, count) {
  const starts = new Uint32Array(count + 1);
  for (let k = 0; k < rows.length; k++) starts[rows[k] + 1] += 1;
  for (let k = 0; k < count; k++) starts[k + 1] += starts[k];
  return starts;
}

const FROM_BLOCKS = [9, 3, 8, 6, 10]; // what a thread block does (scene.states) as the state of a track

/**
 * The spans of thread blocks that a page without a kernel has, in the order of rows.
 * @param {import("./types").Timeline} line
 */
export function recordedSpans(line) {
  const order = Array.from(line.what.keys()).sort((a, b) => (line.what[a] >>> 3) - (line.what[b] >>> 3));
  return {
    row: Uint32Array.from(order, (k) => line.what[k] >>> 3),
    state: Uint32Array.from(order, (k) => FROM_BLOCKS[line.what[k] & 7]),
    start: Float64Array.from(order, (k) => line.start[k]),
    end: Float64Array.from(order, (k) => line.end[k]),
  };
}

/**
 * The states of a row of density at a time, in words, the commonest first.
 * @param {import("./types").Window & { present: number[] }} window
 * @param {Uint8Array} values as for `paintDensity`
 * @param {number} folds rows
 * @param {number} row
 * @param {number} time
 * @param {string[]} names
 */
export function sharesAt({ from, to, columns, present }, values, folds, row, time, names) {
  const place = Math.floor(((time - from) / (to - from)) * columns);
  const plane = folds * columns;
  return present
    .map((state, k) => /** @type {[number, string]} */ ([Math.round((values[k * plane + row * columns + place] * 100) / 255), names[state]]))
    .filter(([share]) => share > 0)
    .sort((a, b) => b[0] - a[0])
    .map(([share, state]) => `${state} ${share}%`);
}
