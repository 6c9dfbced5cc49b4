// @ts-check
// Parallel coordinates: an upright line for each axis and objective, a line across them for each point.

import { formatCount, plural } from "./format.js";
import { CHOSEN, line } from "./front.js";
import { createPicture } from "./plot.js";
import { DONE, describe, formatValue, titleOf } from "./points.js";
import { createScale, shortened } from "./scales.js";
import { make, makeButton } from "./theme.js";

/** @import { Context, Spot, Theme } from "./types" */
/** @import { Points } from "./points.js" */

const [TOP, BOTTOM, SIDE] = [34, 14, 70];
const REACH = 8;
const GRIP = 14; // px beside an upright line at which a drag brushes it
const MOST = 4000; // lines

/** @param {Points} points @param {Theme} theme */
export function createParallel(points, theme) {
  const picture = createPicture("Parallel coordinates", draw, { tip: tipAt, click, drag, key: walk });
  const about = make("span", { class: "anb-hint" });
  const clear = makeButton("Clear brushes", () => points.clear());
  const ramp = make("i", { class: "anb-ramp" });
  const [best, worst] = [make("span"), make("span")];
  const element = make(
    "section", { "aria-label": "Parallel coordinates" },
    make("div", { class: "anb-row anb-choices" }, clear, make("span", { class: "anb-key" }, best, ramp, worst), about), picture.element,
  );
  /** @type {{ dimension: number, x: number, scale: import("./scales.js").Scale }[]} */
  let uprights = [];
  /** @type {number[]} places of the points that are drawn */
  let drawn = [];

  /** @param {Context} context @param {number} width @param {number} height */
  function draw(context, width, height) {
    const { dimensions, arrays, message } = points;
    const shown = dimensions.map((_, k) => k).filter((k) => (dimensions[k].labels ? (dimensions[k].labels?.length ?? 0) > 1 : dimensions[k].goal));
    const apart = (width - 2 * SIDE) / Math.max(1, shown.length - 1);
    uprights = shown.map((dimension, k) => ({
      dimension, x: SIDE + k * apart, scale: createScale(dimensions[dimension], height - BOTTOM, TOP, 30),
    }));
    const all = Array.from({ length: points.count }, (_, k) => k).filter((k) => points.drawn(k));
    const every = Math.ceil(all.length / MOST);
    drawn = all.filter((k, at) => at % every === 0 || arrays.number[k] === points.chosen);
    const goal = dimensions.findIndex((one) => one.goal);
    const scale = goal < 0 ? null : createScale(dimensions[goal], 0, 1, 1);
    const much = dimensions[goal]?.goal === "max";
    /** @param {number} k how good a point is by the first objective, 1: best */
    const good = (k) => (scale ? (much ? scale.at(dimensions[goal].values[k]) : 1 - scale.at(dimensions[goal].values[k])) : 1);
    const lit = drawn.filter((k) => points.passes(k)).sort((a, b) => good(a) - good(b));
    context.lineWidth = 1;
    context.strokeStyle = theme.faint;
    context.globalAlpha = lit.length < drawn.length ? 0.5 : 1;
    for (const k of drawn) if (!points.passes(k)) path(context, k);
    context.globalAlpha = drawn.length > 500 ? 0.45 : 0.85;
    for (const k of lit) {
      context.setLineDash(arrays.status[k] === DONE ? [] : [3, 4]);
      context.strokeStyle = theme.rampText(0.1 + 0.9 * good(k));
      context.lineWidth = good(k) > 0.9 ? 1.6 : 1;
      path(context, k);
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
    const chosen = points.places.get(points.chosen);
    if (chosen !== undefined && points.drawn(chosen)) {
      context.strokeStyle = CHOSEN;
      context.lineWidth = 2.5;
      path(context, chosen);
    }
    context.lineWidth = 1;
    for (const one of uprights) upright(context, one, height, Math.max(46, apart - 14));
    clear.disabled = !points.brushes.size;
    const objective = dimensions[goal];
    if (objective) {
      best.textContent = formatValue(objective, much ? objective.high : objective.low);
      worst.textContent = `${formatValue(objective, much ? objective.low : objective.high)} ${objective.name}${scale?.log ? " (log)" : ""}`;
      ramp.style.setProperty("--anb-ramp", [1, 0.75, 0.5, 0.25, 0.1].map(theme.rampText).join(","));
    }
    const passing = all.filter((k) => points.passes(k)).length;
    about.textContent = points.brushes.size
      ? `in the brushes, in all pictures: ${formatCount(passing)} of ${plural(all.length, "point")}`
      : `drag along an axis to brush it${every > 1 ? ` · every ${every}th of ${plural(all.length, "line")}` : ""}`;
    if (message?.counts.infeasible) about.textContent += " · dashed: a constraint is not satisfied";
  }
  /** @param {Context} context @param {number} k */
  function path(context, k) {
    context.beginPath();
    let open = false;
    for (const { dimension, x, scale } of uprights) {
      const y = scale.at(points.dimensions[dimension].values[k]);
      if (!Number.isFinite(y)) open = false;
      else if (open) context.lineTo(x, y);
      else {
        context.moveTo(x, y);
        open = true;
      }
    }
    context.stroke();
  }
  /** @param {Context} context @param {(typeof uprights)[number]} one @param {number} height @param {number} room */
  function upright(context, { dimension, x, scale }, height, room) {
    const about_it = points.dimensions[dimension];
    context.font = `11px ${theme.font}`;
    context.strokeStyle = theme.dim;
    line(context, x, TOP - 4, x, height - BOTTOM + 4);
    context.textAlign = "center";
    context.fillStyle = theme.ink;
    const sign = about_it.goal === "min" ? " ↓" : about_it.goal === "max" ? " ↑" : "";
    context.fillText(shortened(context, about_it.name, room - 12) + sign, x, 12);
    context.fillStyle = theme.dim;
    if (scale.log) context.fillText("log", x, 24);
    context.textAlign = "left";
    for (const { value, text } of scale.marks) {
      const y = scale.at(value);
      line(context, x - 3, y, x + 3, y);
      const words = shortened(context, text, room - 10);
      const wide = context.measureText(words).width;
      context.globalAlpha = 0.75;
      context.fillStyle = theme.back;
      context.fillRect(x + 5, y - 7, wide + 3, 14);
      context.globalAlpha = 1;
      context.fillStyle = theme.ink;
      context.fillText(words, x + 6, y + 4);
    }
    const range = points.brushes.get(dimension);
    if (range) {
      const [a, b] = range.map(scale.at);
      const top = Math.max(TOP - 4, Math.min(a, b));
      context.fillStyle = theme.brand;
      context.globalAlpha = 0.35;
      context.fillRect(x - 6, top, 12, Math.max(2, Math.min(height - BOTTOM + 4, Math.max(a, b)) - top));
      context.globalAlpha = 1;
    }
  }
  /** @param {Spot} at */
  function uprightAt({ offsetX }) {
    return uprights.find(({ x }) => Math.abs(x - offsetX) <= GRIP);
  }
  /** @param {Spot} at the place of the nearest line's point; -1: none is near */
  function hit({ offsetX, offsetY }) {
    const right = uprights.findIndex(({ x }) => x >= offsetX);
    if (right < 1) return -1;
    const [a, b] = [uprights[right - 1], uprights[right]];
    const part = (offsetX - a.x) / (b.x - a.x);
    let [near, found] = [REACH, -1];
    for (const k of drawn) {
      if (!points.passes(k)) continue;
      const [from, to] = [a, b].map(({ dimension, scale }) => scale.at(points.dimensions[dimension].values[k]));
      const far = Math.abs(from + part * (to - from) - offsetY);
      if (far < near) [near, found] = [far, k];
    }
    return found;
  }
  /** @param {Spot} at */
  function tipAt(at) {
    const one = uprightAt(at);
    if (one && at.offsetY < TOP - 6) return titleOf(points.dimensions[one.dimension]);
    const k = hit(at);
    return k < 0 ? "" : describe(points, k);
  }
  /** @param {Spot} at */
  function click(at) {
    const one = uprightAt(at);
    const k = hit(at);
    if (one && points.brushes.has(one.dimension)) points.brush(one.dimension, null);
    else if (k >= 0) points.choose(points.arrays.number[k]);
  }
  /** @param {Spot} from @param {Spot} to */
  function drag(from, to) {
    const one = uprightAt(from);
    if (!one) return;
    const half = points.dimensions[one.dimension].labels ? 0.3 : 0; // names are brushed from their middle on
    const [a, b] = [one.scale.value(from.offsetY), one.scale.value(to.offsetY)];
    points.brush(one.dimension, [Math.min(a, b) - half, Math.max(a, b) + half]);
  }
  /** @param {number} step */
  function walk(step) {
    const order = drawn.filter((k) => points.passes(k));
    if (!order.length) return;
    const now = order.findIndex((k) => points.arrays.number[k] === points.chosen);
    points.choose(points.arrays.number[order[now < 0 ? 0 : Math.min(order.length - 1, Math.max(0, now + step))]]);
  }
  return { element, draw: picture.draw };
}
