// @ts-check
// Two figures of all points; of two objectives the Pareto front.

import { formatCount, plural } from "./format.js";
import { DONE, INFEASIBLE, describe, titleOf } from "./points.js";
import { createScale, shortened } from "./scales.js";
import { createPicker, createPicture } from "./plot.js";
import { make } from "./theme.js";

/** @import { Theme } from "./types" */
/** @import { Points } from "./points.js" */

const [LEFT, RIGHT, TOP, BOTTOM] = [78, 14, 12, 40];
const REACH = 14; // px from a point at which it is hit
const POINT = "#0072b2";
const POINT_DARK = "#56b4e9";
export const CHOSEN = "#d55e00";

/** @param {Points} points @param {Theme} theme */
export function createFront(points, theme) {
  const picture = createPicture("Pareto front", draw, { tip: (at) => tipAt(at), click: (at) => hit(at, true), key: walk });
  const x = createPicker("x axis", () => picture.draw());
  const y = createPicker("y axis", () => picture.draw());
  const about = make("span", { class: "anb-hint" });
  const element = make(
    "section", { "aria-label": "Pareto front" },
    make("div", { class: "anb-row anb-choices" }, x.label("x"), y.label("y"), about), picture.element,
  );
  /** @type {[number, number, number][]} x, y and place of what is drawn */
  let spots = [];

  /** Which points the front of the two has; null: not both are objectives. @param {number} one @param {number} other @returns {Set<number> | null} */
  function frontOf(one, other) {
    const { message, arrays } = points;
    const axes = message?.axes.length ?? 0;
    const [low, high] = [Math.min(one, other) - axes, Math.max(one, other) - axes];
    const found = message?.fronts.find(([a, b]) => a === low && b === high);
    if (!found) return null;
    return new Set(arrays.front.subarray(found[2], found[2] + found[3]));
  }
  function choices() {
    const { dimensions, message } = points;
    const axes = message?.axes.length ?? 0;
    const goals = dimensions.flatMap(({ goal }, k) => (goal ? [k] : []));
    const places = dimensions.map((_, k) => k);
    const order = [...goals, ...places.filter((k) => k >= axes && !goals.includes(k)), ...places.filter((k) => k < axes)];
    const names = order.map((k) => /** @type {const} */ ([k, dimensions[k].name]));
    // With one objective the first axis that varies tells most.
    const varied = dimensions.findIndex(({ labels }) => (labels?.length ?? 0) > 1);
    x.fill(names, goals.length > 1 ? goals[0] : Math.max(0, varied));
    y.fill(names, goals.length > 1 ? goals[1] : (goals[0] ?? 0));
  }

  /** @param {import("./types").Context} context @param {number} width @param {number} height */
  function draw(context, width, height) {
    choices();
    const [one, other] = [points.dimensions[x.value], points.dimensions[y.value]];
    if (!one || !other) return;
    const across = createScale(one, LEFT, width - RIGHT, 84);
    const up = createScale(other, height - BOTTOM, TOP, 34);
    frame(context, width, height, across, up);
    const front = frontOf(x.value, y.value);
    const { arrays, count, places } = points;
    spots = [];
    for (let k = 0; k < count; k++) {
      if (!points.drawn(k)) continue;
      const [px, py] = [across.at(one.values[k]) + spread(across.band, k), up.at(other.values[k]) + spread(up.band, k)];
      if (Number.isFinite(px) && Number.isFinite(py)) spots.push([px, py, k]);
    }
    const blue = theme.dark ? POINT_DARK : POINT;
    const size = spots.length > 3000 ? 2 : spots.length > 400 ? 3 : 4.5;
    const lit = spots.filter(([, , k]) => points.passes(k));
    context.fillStyle = theme.dim;
    context.globalAlpha = 0.15;
    for (const [px, py, k] of spots) if (!points.passes(k)) dot(context, px, py, size);
    for (const [px, py, k] of lit) {
      if (arrays.status[k] !== INFEASIBLE) continue;
      context.globalAlpha = 0.6;
      cross(context, px, py, size, theme.dim);
    }
    context.fillStyle = blue;
    context.globalAlpha = front ? (spots.length > 400 ? 0.28 : 0.4) : 0.75;
    for (const [px, py, k] of lit) if (arrays.status[k] === DONE && !front?.has(arrays.number[k])) dot(context, px, py, size);
    context.globalAlpha = 1;
    if (front) {
      const steps = [...front].flatMap((number) => places.get(number) ?? []).sort((a, b) => one.values[a] - one.values[b]);
      stairs(context, steps.map((k) => [across.at(one.values[k]), up.at(other.values[k])]), one.goal === "min", blue);
      for (const k of steps) {
        context.fillStyle = points.passes(k) ? blue : theme.back;
        context.strokeStyle = blue;
        dot(context, across.at(one.values[k]), up.at(other.values[k]), size + 1);
        context.stroke();
      }
    }
    const at = spots.find(([, , k]) => arrays.number[k] === points.chosen);
    if (at) ring(context, at[0], at[1]);
    const infeasible = points.message?.counts.infeasible;
    about.textContent = front
      ? `on the line: the ${formatCount(front.size)} of ${plural(points.message?.counts.done ?? 0, "point")} that no other beats in both`
      : points.dimensions.filter(({ goal }) => goal).length > 1 ? "no front: choose two objectives of the sweep" : "no front: the sweep has one objective";
    if (infeasible) about.textContent += ` · × ${plural(infeasible, "does not satisfy a constraint", "do not satisfy a constraint")}`;
  }
  /** Points of one name beside each other. @param {number} band @param {number} k */
  const spread = (band, k) => (band ? (((k * 0.618) % 1) - 0.5) * Math.min(band * 0.5, 24) : 0);

  /** @param {import("./types").Context} context @param {number} width @param {number} height @param {import("./scales.js").Scale} across @param {import("./scales.js").Scale} up */
  function frame(context, width, height, across, up) {
    context.font = `11px ${theme.font}`;
    context.lineWidth = 1;
    context.strokeStyle = theme.faint;
    context.fillStyle = theme.dim;
    context.textAlign = "center";
    let end = 0;
    for (const { value, text } of across.marks) {
      const at = Math.round(across.at(value)) + 0.5;
      line(context, at, TOP, at, height - BOTTOM);
      const words = across.band ? shortened(context, text, Math.max(30, across.band - 6)) : text;
      const half = context.measureText(words).width / 2;
      if (at - half < end || at + half > width) continue;
      end = at + half + 4;
      context.fillText(words, at, height - BOTTOM + 14);
    }
    context.textAlign = "right";
    for (const { value, text } of up.marks) {
      const at = Math.round(up.at(value)) + 0.5;
      line(context, LEFT, at, width - RIGHT, at);
      context.fillText(shortened(context, text, LEFT - 22), LEFT - 5, at + 4);
    }
    context.fillStyle = theme.ink;
    context.textAlign = "center";
    const [one, other] = [points.dimensions[x.value], points.dimensions[y.value]];
    const room = width - LEFT - RIGHT;
    context.fillText(shortened(context, titleOf(one) + (across.log ? " (log)" : ""), room), LEFT + room / 2, height - 8);
    context.save();
    context.translate(12, TOP + (height - TOP - BOTTOM) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(shortened(context, titleOf(other) + (up.log ? " (log)" : ""), height - TOP - BOTTOM), 0, 0);
    context.restore();
    context.textAlign = "left";
  }
  /** @param {import("./types").Spot} at @param {boolean} [choose] */
  function hit({ offsetX, offsetY }, choose = false) {
    let [best, found] = [REACH, -1];
    for (const [px, py, k] of spots) {
      const far = Math.hypot(px - offsetX, py - offsetY);
      if (far < best) [best, found] = [far, k];
    }
    if (choose && found >= 0) points.choose(points.arrays.number[found]);
    return found;
  }
  /** @param {import("./types").Spot} at */
  function tipAt(at) {
    const k = hit(at);
    return k < 0 ? "" : describe(points, k);
  }
  /** From point to point, in the order of the x axis. @param {number} step */
  function walk(step) {
    const order = spots.filter(([, , k]) => points.passes(k)).sort((a, b) => a[0] - b[0]);
    if (!order.length) return;
    const now = order.findIndex(([, , k]) => points.arrays.number[k] === points.chosen);
    const next = now < 0 ? 0 : Math.min(order.length - 1, Math.max(0, now + step));
    points.choose(points.arrays.number[order[next][2]]);
  }
  return { element, draw: picture.draw };
}

/** @param {import("./types").Context} context @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 */
export function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
/** @param {import("./types").Context} context @param {number} x @param {number} y @param {number} radius */
function dot(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}
/** @param {import("./types").Context} context @param {number} x @param {number} y @param {number} size @param {string} colour */
function cross(context, x, y, size, colour) {
  context.strokeStyle = colour;
  line(context, x - size, y - size, x + size, y + size);
  line(context, x - size, y + size, x + size, y - size);
}
/** @param {import("./types").Context} context @param {number} x @param {number} y */
function ring(context, x, y) {
  context.strokeStyle = CHOSEN;
  context.lineWidth = 2.5;
  context.beginPath();
  context.arc(x, y, 9, 0, 2 * Math.PI);
  context.stroke();
  context.lineWidth = 1;
}
/**
 * What a front shuts off: between two of its points nothing is better than the worse value of each.
 * @param {import("./types").Context} context @param {number[][]} spots @param {boolean} low whether what is across is to be small @param {string} colour
 */
function stairs(context, spots, low, colour) {
  context.strokeStyle = colour;
  context.globalAlpha = 0.7;
  context.beginPath();
  for (const [k, [x, y]] of spots.entries()) {
    if (!k) context.moveTo(x, y);
    else {
      if (low) context.lineTo(x, spots[k - 1][1]);
      else context.lineTo(spots[k - 1][0], y);
      context.lineTo(x, y);
    }
  }
  context.stroke();
  context.globalAlpha = 1;
}
