// @ts-check
// Sensitivity: how much of an objective's variation each axis of a sweep explains.

import { createPicker } from "./plot.js";
import { formatShare, plural } from "./format.js";
import { make, makeHint, makeRow } from "./theme.js";

/** @import { Points } from "./points.js" */

const METHOD =
  "Share: eta squared, the variance of the means by value as a part of the whole variance (first-order index of these points; " +
  "what axes do together is in none). Distance: how far the whole distribution moves where the value is known, 0 to 1 " +
  "(PAWN, Pianosi and Wagener 2018, by SALib; from 50 points on).";

/** @param {Points} points */
export function createEffects(points) {
  const goal = createPicker("objective", draw);
  const about = make("span", { class: "anb-hint" });
  const body = make("tbody", {});
  const heads = ["Axis", "Share", "Distance", "Smallest mean", "Largest mean"].map((text) => make("th", { scope: "col", text }));
  const table = make("table", { class: "anb-table anb-effects" }, make("thead", {}, make("tr", {}, ...heads)), body);
  const element = make(
    "section", { "aria-label": "Sensitivity" },
    make("div", { class: "anb-row anb-choices" }, goal.label("of"), about),
    make("div", { class: "anb-scrolled" }, table, makeHint(METHOD)),
  );
  function draw() {
    const all = points.message?.effects ?? [];
    goal.fill(all.map(({ objective }, k) => [k, objective]), 0);
    const found = all[goal.value];
    if (!found) return;
    about.textContent = found.rows.length
      ? `${plural(found.points, "point")}${found.coarse ? ": few, so that figures are coarse" : ""}`
      : "no axis has several values with points that ended";
    body.replaceChildren(...found.rows.map(({ axis, share, distance, chance, least, most }) => {
      const words = distance === null ? "–" : `${distance.toFixed(2)} (by chance ${(chance ?? 0).toFixed(2)})`;
      const row = makeRow(axis, formatShare(share), words, least, most);
      row.children[1].setAttribute("style", `--anb-share: ${100 * share}%`);
      return row;
    }));
  }
  return { element, draw };
}
