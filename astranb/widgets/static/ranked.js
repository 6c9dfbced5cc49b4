// @ts-check
// The points of a sweep as a table that sorts; a point that failed has its line.

import { formatCount } from "./format.js";
import { FAILED, formatValue } from "./points.js";
import { make, makeLink, refill } from "./theme.js";

/** @import { Points } from "./points.js" */

const MOST_ROWS = 300;

/** @param {Points} points */
export function createRanked(points) {
  const about = make("span", { class: "anb-hint" });
  const which = make("select", { class: "anb-steps", "aria-label": "which points", onchange: draw });
  const head = make("tr", {});
  const body = make("tbody", {});
  const holder = make("div", { class: "anb-scrolled" }, make("table", { class: "anb-table anb-points" }, make("thead", {}, head), body));
  const element = make("section", { "aria-label": "Table of points" }, make("div", { class: "anb-row anb-choices" }, make("label", { class: "anb-label" }, "show", which), about), holder);
  let order = Number.NaN; // the place of a dimension; -1: the number; NaN: not chosen yet
  let falling = false;
  let key = "";

  function draw() {
    const { dimensions, message, arrays, count } = points;
    if (!message) return;
    const now = [points.version, order, falling, which.value].join();
    if (now === key) return;
    const columns = dimensions.map((_, k) => k).filter((k) => dimensions[k].labels || dimensions[k].goal);
    if (Number.isNaN(order)) sortBy(columns.find((k) => dimensions[k].goal) ?? -1);
    const statuses = ["all points", ...message.statuses.filter((name) => message.counts[name])];
    if (statuses.join() !== [...which.options].map((one) => one.value).join()) {
      const before = which.value;
      which.replaceChildren(...statuses.map((name) => make("option", { value: name, text: name })));
      which.value = statuses.includes(before) ? before : statuses[0];
    }
    key = [points.version, order, falling, which.value].join();
    const titles = [["-1", "point"], ...columns.map((k) => [String(k), dimensions[k].name]), ["", "status"]];
    refill(head, ...titles.map(([place, text]) => {
      const cell = make("th", { scope: "col" }, place ? makeLink(text, () => again(Number(place)), { title: `sort by ${text}` }) : text);
      if (Number(place) === order && place) cell.setAttribute("aria-sort", falling ? "descending" : "ascending");
      return cell;
    }));
    const wanted = message.statuses.indexOf(which.value);
    const rows = Array.from({ length: count }, (_, k) => k).filter((k) => (wanted < 0 || arrays.status[k] === wanted) && (arrays.status[k] >= FAILED || points.passes(k)));
    const values = order < 0 ? arrays.number : dimensions[order].values;
    const sign = falling ? -1 : 1;
    // Points without the figure come last, whichever way it is sorted.
    rows.sort((a, b) => (Number.isNaN(values[a]) ? (Number.isNaN(values[b]) ? a - b : 1) : Number.isNaN(values[b]) ? -1 : sign * (values[a] - values[b]) || a - b));
    const top = rows.slice(0, MOST_ROWS);
    about.textContent = `${formatCount(rows.length)} of ${formatCount(message.points)}${rows.length > top.length ? `, the first ${MOST_ROWS} in this order` : ""}${points.brushes.size ? ", brushed" : ""}`;
    refill(body, ...top.flatMap((k) => rowsOf(k, columns)));
    body.querySelector("[aria-selected]")?.scrollIntoView?.({ block: "nearest" });
  }
  /** @param {number} k @param {number[]} columns */
  function rowsOf(k, columns) {
    const { dimensions, message, arrays } = points;
    const number = arrays.number[k];
    const status = message?.statuses[arrays.status[k]] ?? "";
    const choose = () => points.choose(number);
    const cells = columns.map((one) => make("td", { text: formatValue(dimensions[one], dimensions[one].values[k]), title: dimensions[one].labels ? formatValue(dimensions[one], dimensions[one].values[k]) : undefined }));
    const row = make("tr", { onclick: choose }, make("th", { scope: "row" }, makeLink(String(number), choose, { title: `choose point ${number}` })), ...cells, make("td", { text: status, class: arrays.status[k] === FAILED ? "anb-failed" : "" }));
    if (number === points.chosen) row.setAttribute("aria-selected", "true");
    const error = message?.errors[arrays.error[k]];
    if (!error) return [row];
    return [row, make("tr", { class: "anb-why", onclick: choose }, make("td", { colspan: columns.length + 2, text: error }))];
  }
  /** @param {number} place */
  function sortBy(place) {
    order = place;
    falling = points.dimensions[place]?.goal === "max";
  }
  /** @param {number} place */
  function again(place) {
    if (place === order) falling = !falling;
    else sortBy(place);
    draw();
  }
  return { element, draw };
}
