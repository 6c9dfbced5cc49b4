// @ts-check
// Boxes placed within a block: rows of what passes lines on, and the shapes of what does not need it. Counterpart of
// export/layout/blocks.py.

import { rounded } from "../numpy.js";
import { titleOf } from "./layout_shapes.js";

/** @import { GraphShape } from "./layout_shapes.js" */
/** Centre and width. @typedef {[x: number, y: number, width: number]} BoxPlace */
/** Items in rows. @typedef {number[][]} ItemRows */

/**
 * Boxes with places of their own, moved as one.
 * @typedef {object} PlacedBlock
 * @property {Map<number, BoxPlace>} places
 * @property {number} width
 * @property {number} height
 * @property {string} title of the frame around it; empty: none
 * @property {string} shape what it was recognised as
 * @property {Map<string, string>} bent pairs of items whose links leave at one edge and come in at the other: x, y or z
 */

export const [WIDTH, HEIGHT] = [96, 76];
export const [COLUMN, ROW] = [124, 132]; // from box to box, across and down
export const LOW_ROW = 84; // of boxes without GPUs
export const [RAIL_HEIGHT, RAIL_ROW] = [22, 48];
const RAIL_END = 46; // what a rail reaches beyond the outer boxes, for its name
const HEADER = 40; // of a frame, for its name
const PAD = 18;
const MOST_IN_ROW = 16;
const GRID_COLUMN = 148; // room for links from box to box
const [ACROSS, DOWN] = [COLUMN - 14, HEIGHT + 16]; // from plane to plane: other links pass between the boxes

/** @param {Iterable<[number, BoxPlace]>} places @param {number} width @param {number} height @param {Partial<PlacedBlock>} [more] @returns {PlacedBlock} */
const block = (places, width, height, more) => ({ places: new Map(places), width, height, title: "", shape: "", bent: new Map(), ...more });

/** A block's places, changed. @param {PlacedBlock} block @param {(place: BoxPlace) => BoxPlace} change */
const moved = ({ places }, change) => new Map([...places].map(([item, place]) => [item, change(place)]));

/** The same upside down, below its title. @param {PlacedBlock} one @returns {PlacedBlock} */
export function flipped(one) {
  const top = one.title ? HEADER : 0;
  return { ...one, places: moved(one, ([x, y, w]) => [x, one.height + top - y, w]) };
}

/** The same with another block above it. @param {PlacedBlock} one @param {PlacedBlock} other @returns {PlacedBlock} */
export function below(one, other) {
  const width = Math.max(one.width, other.width);
  const places = moved(other, ([x, y, w]) => [x + (width - other.width) / 2, y, w]);
  for (const [item, place] of moved(one, ([x, y, w]) => [x + (width - one.width) / 2, y + other.height, w])) places.set(item, place);
  return { ...one, places, width, height: one.height + other.height, title: "" };
}

/**
 * The same with each item of a row above or below its neighbours, where there is room for all.
 * @param {PlacedBlock} one
 * @param {number[]} row
 * @param {Map<number, Set<number>>} near
 * @returns {PlacedBlock}
 */
export function aligned(one, row, near) {
  /** @type {Map<number, number>} */
  const wanted = new Map();
  for (const item of row) {
    const others = [...(near.get(item) ?? [])].filter((other) => one.places.has(other) && !row.includes(other));
    if (!others.length) return one;
    const sum = others.sort((a, b) => a - b).reduce((whole, other) => whole + /** @type {BoxPlace} */ (one.places.get(other))[0], 0);
    wanted.set(item, sum / others.length);
  }
  const order = [...wanted.values()].sort((a, b) => a - b);
  if (order.some((x, k) => k > 0 && x - order[k - 1] < COLUMN - 1)) return one;
  const places = new Map(one.places);
  for (const [item, x] of wanted) {
    const [, y, w] = /** @type {BoxPlace} */ (one.places.get(item));
    places.set(item, [x, y, w]);
  }
  return { ...one, places };
}

/** The same, larger; its boxes, too. @param {PlacedBlock} one @param {number} factor @returns {PlacedBlock} */
export const enlarged = (one, factor) => ({
  ...one, places: moved(one, ([x, y, w]) => [x * factor, y * factor, w * factor]), width: one.width * factor, height: one.height * factor,
});

/** The same within a frame. @param {PlacedBlock} one @param {string} title @returns {PlacedBlock} */
export const framed = (one, title) => ({
  ...one, places: moved(one, ([x, y, w]) => [x + PAD / 2, y + HEADER, w]), width: one.width + PAD, height: one.height + HEADER + PAD / 2, title,
});

/** Divide items into rows of nearly equal length, in their order. @param {number[]} items @param {number} [most] @returns {ItemRows} */
export function rowsOf(items, most = MOST_IN_ROW) {
  if (!items.length) return [];
  const size = Math.ceil(items.length / Math.ceil(items.length / most));
  return chunks(items, size);
}

/** Parts of so many in a row. @template T @param {T[]} items @param {number} size @returns {T[][]} */
export const chunks = (items, size) => Array.from({ length: Math.ceil(items.length / size) }, (_, k) => items.slice(k * size, (k + 1) * size));

/** Rows one below the other, each so high; what has more items than the first has narrower boxes. @param {ItemRows} all @param {number} [tall] */
export function stacked(all, tall = ROW) {
  const rows = all.filter((row) => row.length);
  if (!rows.length) return block([], 0, 0);
  // A row of twice as many items as the others would move these far from each other.
  const lengths = rows.map((row) => row.length).sort((a, b) => a - b);
  const usual = lengths[Math.floor(rows.length / 2)];
  const width = Math.max(usual, Math.ceil(lengths[lengths.length - 1] / 2)) * COLUMN;
  /** @type {[number, BoxPlace][]} */
  const places = [];
  rows.forEach((row, level) => {
    const step = width / row.length;
    const wide = Math.min(WIDTH, step - (COLUMN - WIDTH) / 2);
    row.forEach((item, place) => places.push([item, [step * (place + 0.5), tall * (level + 0.5), wide]]));
  });
  return block(places, width, tall * rows.length);
}

/**
 * Place boxes that are all joined with the same few switches: these are rails, all links are vertical. One row of boxes
 * has half of the rails above it and half below, or all of them below; of more boxes than `most`, half of the rows are
 * above the rails and half below.
 * @param {number[]} boxes
 * @param {number[]} rails
 * @param {{ under?: boolean, most?: number }} [settings]
 */
export function railed(boxes, rails, { under = false, most = 8 } = {}) {
  const rows = rowsOf(boxes, Math.max(most, Math.ceil(Math.sqrt(2 * boxes.length))));
  const several = rows.length > 1;
  const count = several ? Math.floor(rows.length / 2) : under ? 0 : Math.ceil(rails.length / 2);
  const each = rails.map((rail) => [rail]);
  const order = several ? [...rows.slice(0, count), ...each, ...rows.slice(count)] : [...each.slice(0, count), ...rows, ...each.slice(count)];
  const known = new Set(rails);
  const shifted = rows.length > 2; // links of the outer rows pass between the boxes of the inner ones
  const width = 2 * RAIL_END + COLUMN * (rows[0].length + Number(shifted) / 2);
  /** @type {[number, BoxPlace][]} */
  const places = [];
  let top = 0;
  order.forEach((row, number) => {
    const rail = known.has(row[0]);
    const tall = rail ? RAIL_ROW : ROW;
    const aside = shifted && !rail && number % 2 ? COLUMN / 2 : 0;
    row.forEach((item, place) => {
      const x = rail ? width / 2 : RAIL_END + aside + COLUMN * (place + 0.5);
      places.push([item, [x, top + tall / 2, rail ? width - 8 : WIDTH]]);
    });
    top += tall;
  });
  return block(places, width, top);
}

/**
 * Place items as their shape says; without one, in a circle while they are few, else in rows.
 * @param {number[]} items
 * @param {GraphShape} shape of the places of the items
 */
export function byShape(items, shape) {
  const order = shape.order.map((k) => items[k]);
  if (shape.kind === "grid") return grid(order, shape);
  if (shape.kind === "line") return stacked(rowsOf(order));
  if (["ring", "full"].includes(shape.kind) || order.length <= MOST_IN_ROW) return circle(order, titleOf(shape));
  return stacked(rowsOf(order, Math.ceil(Math.sqrt(2 * order.length))));
}

/** Around an ellipse, twice as wide as high, large enough that boxes do not overlap. @param {number[]} order @param {string} shape */
function circle(order, shape) {
  const n = order.length;
  // The second half is the mirror of the first, to the last digit.
  const angles = order.map((_, k) => (2 * Math.PI * (k + 0.5)) / n - Math.PI / 2 - Math.PI / n);
  let radius = COLUMN / 2;
  let points = around(angles, radius);
  while (!areSeparate(points)) {
    radius *= 1.04;
    points = around(angles, radius);
  }
  const [left, top] = [1.6 * radius + COLUMN / 2, radius + ROW / 2];
  return block(order.map((item, k) => [item, [rounded(points[k][0] + left, 3), rounded(points[k][1] + top, 3), WIDTH]]), 2 * left, 2 * top, { shape });
}

/** @param {number[]} angles @param {number} radius @returns {[x: number, y: number][]} */
const around = (angles, radius) => angles.map((angle) => [1.6 * radius * Math.cos(angle), radius * Math.sin(angle)]);

/** Whether the boxes at points around an ellipse do not overlap. @param {[x: number, y: number][]} points */
const areSeparate = (points) => points.every(([x, y], k) => {
  const [nextX, nextY] = points[(k + 1) % points.length];
  return (x === nextX && y === nextY) || Math.abs(x - nextX) >= COLUMN - 8 || Math.abs(y - nextY) >= HEIGHT + 20;
});

/** Rows and columns; each plane is behind the one before, to the right and below it. @param {number[]} order @param {GraphShape} shape */
function grid(order, shape) {
  const { rows, columns, planes, wraps: [wrapPlanes, wrapRows, wrapColumns] } = shape;
  const [wide, tall] = [GRID_COLUMN + (planes - 1) * ACROSS, ROW + (planes - 1) * DOWN];
  // Links that wrap leave by stubs at the edge: room for them.
  const left = wrapColumns || wrapPlanes ? COLUMN / 4 : 0;
  const top = wrapRows || wrapPlanes ? ROW / 4 : 0;
  const each = rows * columns;
  /** @type {[number, BoxPlace][]} */
  const places = order.map((item, number) => {
    const [plane, cell] = [Math.floor(number / each), number % each];
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    const x = left + GRID_COLUMN / 2 + wide * column + ACROSS * plane;
    return [item, [x, top + ROW / 2 + tall * row + DOWN * plane, WIDTH]];
  });
  /** @type {Map<string, string>} */
  const bent = new Map();
  /** @type {[name: string, side: number, step: number, wraps: boolean][]} */
  const sides = [["z", planes, each, wrapPlanes], ["y", rows, columns, wrapRows], ["x", columns, 1, wrapColumns]];
  for (const [name, side, step, wraps] of sides) {
    if (!wraps) continue;
    order.forEach((a, number) => {
      if (Math.floor(number / step) % side !== 0) return;
      const b = order[number + (side - 1) * step];
      bent.set(`${a} ${b}`, name).set(`${b} ${a}`, name);
    });
  }
  return block(places, 2 * left + wide * columns, 2 * top + tall * rows, { shape: titleOf(shape), bent });
}
