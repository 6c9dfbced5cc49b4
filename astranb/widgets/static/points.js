// @ts-check
// The points of a sweep as the page has them, which one is chosen, and which are brushed. All pictures share it.

import { formatCount, formatTime } from "./format.js";
import { unpack } from "./messages.js";

/** @import { Dimension, StudyMessage } from "./types" */

export const DONE = 0;
export const INFEASIBLE = 1;
export const FAILED = 2;

/** @typedef {ReturnType<typeof createPoints>} Points */

/** @param {{ choose(number: number): void }} kernel */
export function createPoints(kernel) {
  /** @type {Set<() => void>} */
  const listeners = new Set();
  /** @type {Map<number, [number, number]>} from and to, by the place of a dimension */
  const brushes = new Map();
  const points = {
    /** @type {StudyMessage | null} */
    message: null,
    /** @type {import("./types").Columns<"study">} */
    arrays: unpack("study", []),
    count: 0,
    /** @type {Dimension[]} axes, then figures */
    dimensions: [],
    /** @type {Map<number, number>} the place of a point by its number */
    places: new Map(),
    chosen: -1,
    version: 0,
    brushes,
    update,
    choose,
    show,
    brush,
    clear,
    passes,
    drawn,
    changed,
    /** @param {() => void} listener */
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };

  function changed() {
    points.version += 1;
    for (const listener of [...listeners]) listener();
  }
  /** @param {StudyMessage} message @param {DataView[]} buffers */
  function update(message, buffers) {
    const arrays = unpack("study", buffers);
    const count = arrays.number.length;
    points.dimensions = [
      ...message.axes.map(({ name, labels, ordered }, k) => {
        const values = Float64Array.from(arrays.code.subarray(k * count, (k + 1) * count), (code) => (code < 0 ? Number.NaN : code));
        return { name, unit: "", goal: "", labels, ordered, values, low: 0, high: Math.max(0, labels.length - 1) };
      }),
      ...message.figures.map(({ name, unit, goal }, k) => {
        const values = arrays.value.subarray(k * count, (k + 1) * count);
        const known = values.filter((value, at) => Number.isFinite(value) && arrays.status[at] <= INFEASIBLE);
        return { name, unit, goal, labels: null, ordered: true, values, low: least(known), high: most(known) };
      }),
    ];
    Object.assign(points, { message, arrays, count, places: new Map(Array.from(arrays.number, (number, k) => [number, k])) });
    changed();
  }
  /** Choose a point by its number, here and in the kernel. @param {number} number */
  function choose(number) {
    if (number !== points.chosen) kernel.choose(number);
    show(number);
  }
  /** @param {number} number */
  function show(number) {
    if (number === points.chosen) return;
    points.chosen = number;
    changed();
  }
  /** @param {number} dimension @param {[number, number] | null} range */
  function brush(dimension, range) {
    if (range) brushes.set(dimension, range);
    else brushes.delete(dimension);
    changed();
  }
  function clear() {
    brushes.clear();
    changed();
  }
  /** Whether a point is in all brushes. @param {number} k its place */
  function passes(k) {
    for (const [dimension, [from, to]] of brushes) {
      const value = points.dimensions[dimension]?.values[k];
      if (value !== undefined && !(value >= from && value <= to)) return false;
    }
    return true;
  }
  /** Whether a point has figures that can be drawn. @param {number} k its place */
  function drawn(k) {
    return points.arrays.status[k] <= INFEASIBLE;
  }
  return points;
}

/** @param {Float64Array} values */
const least = (values) => values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
/** @param {Float64Array} values */
const most = (values) => values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);

/** @type {[number, string][]} */
const SIZES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** A figure as a person reads it. @param {string} unit @param {number} value */
export function formatFigure(unit, value) {
  if (!Number.isFinite(value)) return "–";
  if (unit === "ps") return formatTime(value, value >= 1e12 ? 3 : 2);
  if (unit === "fraction") return `${Number((100 * value).toPrecision(3))}%`;
  const [size, letter] = SIZES.find(([one]) => Math.abs(value) >= one) ?? [1, ""];
  if (unit === "bytes" || unit === "Bps") return `${Number((value / size).toPrecision(4))} ${letter}B${unit === "Bps" ? "/s" : ""}`;
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return formatCount(value);
  return `${Number((value / size).toPrecision(4))}${letter && ` ${letter}`}`;
}

/** A value of a dimension as a person reads it. @param {Dimension} dimension @param {number} value */
export const formatValue = (dimension, value) =>
  dimension.labels ? (dimension.labels[value] ?? "–") : formatFigure(dimension.unit, value);

/** The name of a dimension and, of an objective, what is good. @param {Dimension} dimension */
export const titleOf = ({ name, goal }) => name + (goal === "min" ? ", less is better" : goal === "max" ? ", more is better" : "");

/** What a point is, in some lines. @param {Points} points @param {number} k its place */
export function describe({ arrays, dimensions, message }, k) {
  const shown = dimensions.filter(({ labels, goal }) => labels || goal);
  const status = arrays.status[k] === DONE ? "" : `, ${message?.statuses[arrays.status[k]]}`;
  return [`point ${arrays.number[k]}${status}`, ...shown.map((one) => `${one.name}: ${formatValue(one, one.values[k])}`)].join("\n");
}
