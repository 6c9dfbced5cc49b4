// @ts-check
// How each rank's time divides, those with most exposed communication first; and how busy dimensions are.

import { createAsker, momentOf } from "./asker.js";
import { formatCount, plural } from "./format.js";
import { createMoment } from "./moment.js";
import { make, makeLink, makeRow, settle } from "./theme.js";

/** @import { Answer, CreateView } from "./types" */

/** @type {CreateView} */
export function createExposed(store) {
  const words = make("span", {});
  const caption = make("caption", {}, words, " ", createMoment(store, () => asker.reply?.at_ps));
  const head = make("tr", {});
  const body = make("tbody", {});
  const dims = make("div", { class: "anb-legend anb-dims" });
  const table = make("table", { class: "anb-table" }, caption, make("thead", {}, head), body);
  const element = make("section", { class: "anb-tablepanel anb-exposed", "aria-label": "Ranks", tabindex: "0" }, dims, table);
  const asker = createAsker(store, "ranks", { every: 300, answered: (reply, error) => (reply ? lay(reply) : fail(error)) });

  /** @param {Error} error */
  function fail(error) {
    settle(words, error.message);
    for (const part of [head, body, dims]) part.replaceChildren();
  }

  /** @param {Answer<"ranks">} answer */
  function lay({ what, heads, rows, all, dimensions }) {
    settle(words, `${plural(all, what)} so far, most exposed communication first${rows.length < all ? `: the first ${formatCount(rows.length)}` : ""}`);
    head.replaceChildren(...heads.map((text) => make("th", { scope: "col", text })));
    body.replaceChildren(
      ...rows.map(([path, ...cells]) => {
        const line = makeRow(makeLink(path, () => store.select(path)), ...cells);
        if (path === store.selection) line.setAttribute("aria-selected", "true");
        return line;
      }),
    );
    dims.replaceChildren(
      ...dimensions.map(({ path, shape, utilisation }) =>
        makeLink(`${path} (${shape}): ${(100 * utilisation).toFixed(1)}% of its links' bandwidth`, () => store.select(path)),
      ),
    );
  }
  function draw() {
    const { at_ps, key } = momentOf(store);
    if (store.ready && store.state) asker.want({ at_ps }, `${key} ${store.selection}`);
  }
  return { element, draw, destroy: asker.destroy };
}
