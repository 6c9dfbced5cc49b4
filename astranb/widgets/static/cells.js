// @ts-check
// A heat map: an objective by two axes, over all values of the others.

import { plural } from "./format.js";
import { CHOSEN } from "./front.js";
import { createPicker, createPicture } from "./plot.js";
import { formatFigure } from "./points.js";
import { createScale, shortened } from "./scales.js";
import { inkOn, make } from "./theme.js";

/** @import { Context, Spot, Theme } from "./types" */
/** @import { Points } from "./points.js" */

const [LEFT, RIGHT, TOP, BOTTOM] = [110, 12, 8, 40];
const UPRIGHT = 92; // px for names that stand upright
const HOW = ["best", "mean"];

/** @param {Points} points @param {Theme} theme */
export function createCells(points, theme) {
  const picture = createPicture("Heat map", draw, { tip: tipAt, click });
  const redraw = () => picture.draw();
  const [x, y] = [createPicker("axis across", redraw), createPicker("axis upwards", redraw)];
  const [goal, how] = [createPicker("objective", redraw), createPicker("what a cell shows of its points", redraw)];
  const ramp = make("i", { class: "anb-ramp" });
  const [best, worst] = [make("span"), make("span")];
  const about = make("span", { class: "anb-hint" });
  const key = make("span", { class: "anb-key" }, best, ramp, worst);
  const choices = make("div", { class: "anb-row anb-choices" }, x.label("x"), y.label("y"), goal.label("colour"), how.label("of the others"), key);
  const element = make("section", { "aria-label": "Heat map" }, choices, about, picture.element);
  /** @type {{ left: number, top: number, wide: number, high: number, rows: number, at: Map<number, number>, columns: number } | null} */
  let grid = null;

  function fill() {
    const { message } = points;
    if (!message) return;
    const used = [...new Set(message.heats.flatMap(([a, b]) => [a, b]))].sort((a, b) => a - b);
    const goals = [...new Set(message.heats.map(([, , figure]) => figure))];
    x.fill(used.map((k) => [k, message.axes[k].name]), used[0]);
    y.fill(used.map((k) => [k, message.axes[k].name]), used[1]);
    goal.fill(goals.map((k) => [k, message.figures[k].name]), goals[0]);
    how.fill(HOW.map((text, k) => [k, text]), 0);
  }
  /** The cells of the choice, and whether its axes are exchanged. */
  function chosen() {
    const [a, b] = [Math.min(x.value, y.value), Math.max(x.value, y.value)];
    const found = points.message?.heats.find(([one, other, figure]) => one === a && other === b && figure === goal.value);
    return found ? { from: found[3], count: found[4], turned: x.value > y.value } : null;
  }

  /** @param {Context} context @param {number} width @param {number} height */
  function draw(context, width, height) {
    fill();
    grid = null;
    const { message, arrays } = points;
    if (!message) return;
    key.hidden = true;
    const cells = chosen();
    if (!cells || !cells.count) {
      about.textContent = message.heats.length ? (x.value === y.value ? "choose two axes" : "no point has ended yet") : "a heat map needs two axes with several values";
      return;
    }
    const { from, count, turned } = cells;
    const [across, up] = [message.axes[x.value].labels, message.axes[y.value].labels];
    const { unit, name, goal: good } = message.figures[goal.value];
    const values = (how.value ? arrays.cell_mean : arrays.cell_best).subarray(from, from + count);
    const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    const scale = createScale({ name, unit, goal: good, labels: null, ordered: true, values, low, high }, 0, 1, 1);
    context.font = `11px ${theme.font}`;
    const longest = across.reduce((most, text) => Math.max(most, context.measureText(text).width), 0);
    const wide = (width - LEFT - RIGHT) / across.length;
    const upright = longest > wide - 4;
    const foot = upright ? Math.min(UPRIGHT, longest) + 26 : BOTTOM;
    const high_px = Math.max(4, (height - TOP - foot) / up.length);
    const at = new Map();
    context.fillStyle = theme.unknown(context);
    context.fillRect(LEFT, TOP, wide * across.length, high_px * up.length);
    context.textAlign = "center";
    let most = 0;
    for (let k = 0; k < count; k++) {
      const [column, row] = turned ? [arrays.cell_y[from + k], arrays.cell_x[from + k]] : [arrays.cell_x[from + k], arrays.cell_y[from + k]];
      const part = good === "max" ? scale.at(values[k]) : 1 - scale.at(values[k]);
      const [left, top] = [LEFT + column * wide, TOP + (up.length - 1 - row) * high_px];
      context.fillStyle = theme.rampText(part);
      context.fillRect(left, top, Math.max(1, wide - 1), Math.max(1, high_px - 1));
      at.set(row * across.length + column, from + k);
      most = Math.max(most, arrays.cell_count[from + k]);
      const text = formatFigure(unit, values[k]);
      if (high_px >= 16 && context.measureText(text).width < wide - 6) {
        context.fillStyle = inkOn(theme.ramp(part));
        context.fillText(text, left + wide / 2, top + high_px / 2 + 4);
      }
    }
    grid = { left: LEFT, top: TOP, wide, high: high_px, rows: up.length, columns: across.length, at };
    names(context, across, up, grid, upright, foot, width, height);
    mark(context);
    key.hidden = false;
    best.textContent = formatFigure(unit, good === "max" ? high : low);
    worst.textContent = formatFigure(unit, good === "max" ? low : high) + (scale.log ? " (log)" : "");
    ramp.style.setProperty("--anb-ramp", [1, 0.75, 0.5, 0.25, 0].map(theme.rampText).join(","));
    const others = message.axes.filter(({ labels }, k) => labels.length > 1 && k !== x.value && k !== y.value).map((one) => one.name);
    about.textContent = others.length
      ? `${HOW[how.value]} ${name} of up to ${plural(most, "point")} a cell, over ${others.join(", ")} · hatched: no point that ended`
      : `${name} · hatched: no point that ended`;
  }
  /**
   * @param {Context} context @param {string[]} across @param {string[]} up @param {NonNullable<typeof grid>} place
   * @param {boolean} upright @param {number} foot @param {number} width @param {number} height
   */
  function names(context, across, up, place, upright, foot, width, height) {
    context.fillStyle = theme.dim;
    const bottom = place.top + place.rows * place.high;
    let end = Number.NEGATIVE_INFINITY;
    for (const [k, text] of across.entries()) {
      const middle = place.left + (k + 0.5) * place.wide;
      if (middle - end < (upright ? 13 : 0)) continue;
      end = middle;
      context.save();
      context.translate(middle + (upright ? 4 : 0), bottom + (upright ? 5 : 14));
      if (upright) context.rotate(-Math.PI / 2);
      context.textAlign = upright ? "right" : "center";
      context.fillText(shortened(context, text, upright ? foot - 26 : place.wide), 0, 0);
      context.restore();
    }
    context.textAlign = "right";
    end = Number.POSITIVE_INFINITY;
    for (const [k, text] of up.entries()) {
      const middle = place.top + (place.rows - k - 0.5) * place.high;
      if (end - middle < 13) continue;
      end = middle;
      context.fillText(shortened(context, text, LEFT - 26), LEFT - 5, middle + 4);
    }
    context.fillStyle = theme.ink;
    context.textAlign = "center";
    const room = width - LEFT - RIGHT;
    context.fillText(shortened(context, points.message?.axes[x.value].name ?? "", room), LEFT + room / 2, height - 6);
    context.save();
    context.translate(12, place.top + (bottom - place.top) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(shortened(context, points.message?.axes[y.value].name ?? "", bottom - place.top), 0, 0);
    context.restore();
    context.textAlign = "left";
  }
  /** A frame around the cell of the chosen point. @param {Context} context */
  function mark(context) {
    const k = points.places.get(points.chosen);
    if (k === undefined || !grid) return;
    const [column, row] = [points.dimensions[x.value].values[k], points.dimensions[y.value].values[k]];
    if (!Number.isFinite(column + row)) return;
    context.strokeStyle = CHOSEN;
    context.lineWidth = 3;
    context.strokeRect(grid.left + column * grid.wide + 1, grid.top + (grid.rows - 1 - row) * grid.high + 1, grid.wide - 3, grid.high - 3);
    context.lineWidth = 1;
  }
  /** @param {Spot} at */
  function hit({ offsetX, offsetY }) {
    if (!grid) return undefined;
    const [column, row] = [Math.floor((offsetX - grid.left) / grid.wide), grid.rows - 1 - Math.floor((offsetY - grid.top) / grid.high)];
    return column >= 0 && column < grid.columns && row >= 0 ? grid.at.get(row * grid.columns + column) : undefined;
  }
  /** @param {Spot} at */
  function tipAt(at) {
    const { message, arrays } = points;
    const k = hit(at);
    if (k === undefined || !message) return "";
    const { unit, name } = message.figures[goal.value];
    const count = arrays.cell_count[k];
    const [one, other] = [message.axes[Math.min(x.value, y.value)], message.axes[Math.max(x.value, y.value)]];
    return [
      `${one.name}: ${one.labels[arrays.cell_x[k]]}`, `${other.name}: ${other.labels[arrays.cell_y[k]]}`,
      `best ${name}: ${formatFigure(unit, arrays.cell_best[k])} (point ${arrays.cell_point[k]})`,
      ...(count > 1 ? [`mean of ${plural(count, "point")}: ${formatFigure(unit, arrays.cell_mean[k])}`] : []),
    ].join("\n");
  }
  /** @param {Spot} at */
  function click(at) {
    const k = hit(at);
    if (k !== undefined) points.choose(points.arrays.cell_point[k]);
  }
  return { element, draw: picture.draw };
}
