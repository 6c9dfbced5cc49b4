// @ts-check
// Scales of pictures of a sweep: from values to pixels, with marks; names of axes get a band each.

import { formatFigure } from "./points.js";

/** @import { Context, Dimension } from "./types" */

const WIDE = 30; // how often the largest value has the least in it: then the scale is logarithmic
const LABEL = 56; // px between marks

/** @typedef {ReturnType<typeof createScale>} Scale */

/**
 * The scale of a dimension from one pixel to another.
 * @param {Dimension} dimension
 * @param {number} from
 * @param {number} to
 * @param {number} [apart] px between marks
 */
export function createScale({ labels, low, high, unit }, from, to, apart = LABEL) {
  const empty = !(low <= high);
  const log = !labels && low > 0 && high / low > WIDE;
  const length = Math.abs(to - from);
  const count = Math.max(2, Math.floor(length / apart));
  if (labels) {
    const step = (to - from) / Math.max(1, labels.length);
    const every = Math.max(1, Math.ceil(labels.length / Math.max(1, length / 16)));
    return {
      log,
      band: Math.abs(step),
      /** @param {number} value */
      at: (value) => from + step * (value + 0.5),
      /** @param {number} pixel */
      value: (pixel) => (pixel - from) / step - 0.5,
      marks: labels.map((text, k) => ({ value: k, text })).filter((_, k) => k % every === 0),
    };
  }
  const [first, last] = empty ? [0, 1] : log ? [Math.log10(low), Math.log10(high)] : [low, high];
  const room = (last - first || Math.abs(first) || 1) * (last > first ? 0.04 : 0.5);
  const [a, b] = [first - room, last + room];
  const step = (to - from) / (b - a);
  /** @param {number} value */
  const at = (value) => from + step * ((log ? Math.log10(value) : value) - a);
  /** @param {number} pixel */
  const value = (pixel) => (log ? 10 ** ((pixel - from) / step + a) : (pixel - from) / step + a);
  const values = empty ? [] : log ? powers(low, high, count) : steps(low, high, count);
  return { log, band: 0, at, value, marks: values.map((one) => ({ value: one, text: formatFigure(unit, one) })) };
}

/** Round values from low to high. @param {number} low @param {number} high @param {number} count */
function steps(low, high, count) {
  if (low === high) return [low];
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((one) => one * power >= raw) ?? 10) * power;
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-12); k++) found.push(k * step);
  return found;
}

/** Powers of ten, and between them 2 and 5 where there is room. @param {number} low @param {number} high @param {number} count */
function powers(low, high, count) {
  const decades = Math.log10(high / low);
  const factors = decades * 3 <= count ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / count));
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += every) {
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) found.push(value);
    }
  }
  return found;
}

/** Text without its middle where it is too long: names often begin alike. @param {Context} context @param {string} text @param {number} room px */
export function shortened(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  /** @param {number} kept */
  const without = (kept) => `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(without(middle)).width <= room) low = middle;
    else high = middle - 1;
  }
  return low ? without(low) : "";
}
