// @ts-check
// What differs between two runs: a table of texts, with a bar for how large each difference is.

import { plural } from "./format.js";
import { make, makeHint, makeOptions, settle } from "./theme.js";

/** @import { Difference } from "./types" */

export function createDifference() {
  const heading = make("p", { class: "anb-verdict" });
  const inputs = makeHint("");
  const which = make("select", { class: "anb-steps", "aria-label": "Table of differences", onchange: () => fill() });
  const body = make("tbody", {});
  const columns = ["", "", "", ""].map((text) => make("th", { scope: "col", text }));
  const more = makeHint("");
  const element = make(
    "div",
    { class: "anb-difference" },
    make("div", { class: "anb-row" }, which, heading), inputs,
    make("div", { class: "anb-scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...columns)), body)), more,
  );
  /** @type {Difference | null} */
  let report = null;

  function fill() {
    if (!report) return;
    const table = report.tables[which.selectedIndex] ?? report.tables[0];
    const [a, b] = report.names.map((name, k) => `${name} (${report?.now[k]})`);
    ["", a, b, "difference"].forEach((title, k) => settle(columns[k], title));
    body.replaceChildren(
      ...table.rows.map(([name, one, other, difference, share]) => {
        const bar = make("span", { class: share > 0 ? "anb-more" : "anb-less" });
        bar.style.width = `${Math.round(60 * Math.abs(share))}px`;
        const cell = make("td", { class: "anb-number" }, make("span", { text: difference }), make("span", { class: "anb-diff" }, bar));
        return make(
          "tr", {},
          make("th", { scope: "row", text: name }),
          make("td", { class: "anb-number", text: one }), make("td", { class: "anb-number", text: other }), cell,
        );
      }),
    );
    more.textContent = table.left_out ? `and ${plural(table.left_out, "more row with a smaller difference", "more rows with smaller differences")}` : "";
  }
  return {
    element,
    /** Show a report of the kernel (widgets/views/compare.py: report). @param {Difference} next */
    show(next) {
      report = next;
      const titles = next.tables.map(({ title }) => title);
      if (which.childElementCount !== titles.length) which.replaceChildren(...makeOptions(titles));
      heading.textContent = next.verdict;
      inputs.textContent = next.inputs.map(([name, a, b]) => `${name}: ${a} | ${b}`).join("   ·   ");
      fill();
    },
  };
}
