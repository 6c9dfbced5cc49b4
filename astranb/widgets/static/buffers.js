// @ts-check
// The fullest buffers and the longest queues at the cursor: a click selects one.

import { createAsker, momentOf } from "./asker.js";
import { plural } from "./format.js";
import { createMoment } from "./moment.js";
import { make, makeLink, makeRow, refill, settle } from "./theme.js";

/** @import { Answer, CreateView } from "./types" */

/** @type {CreateView} */
export function createBuffers(store) {
  const words = make("span", {});
  const caption = make("caption", {}, words, " ", createMoment(store, () => asker.reply?.at_ps));
  const head = make("tr", {});
  const body = make("tbody", {});
  const table = make("table", { class: "anb-table" }, caption, make("thead", {}, head), body);
  const element = make("section", { class: "anb-tablepanel anb-buffers", "aria-label": "Buffers", tabindex: "0" }, table);
  const asker = createAsker(store, "buffers", { every: 300, answered: (reply, error) => (reply ? show(reply) : fail(error)) });

  /** @param {Error} error */
  function fail(error) {
    settle(words, error.message);
    for (const part of [head, body]) part.replaceChildren();
  }
  /** @param {Answer<"buffers">} answer */
  function show({ rows, heads, all, finite }) {
    const found = finite ? plural(all, "buffer holds something or has a queue", "buffers hold something or have a queue") : plural(all, "queue");
    settle(words, all ? `${found}, ${finite ? "fullest" : "longest"} first${rows.length < all ? `: the first ${rows.length}` : ""}` : "nothing waits anywhere");
    const texts = rows.map(([, share, held, waiting]) => [[share < 0 ? "" : `${Math.round(100 * share)}%`, held].filter(Boolean).join(" · "), waiting]);
    const used = [0, 1].filter((column) => texts.some((line) => line[column]));
    head.replaceChildren(...(rows.length ? [heads[0], ...used.map((column) => heads[column + 1])] : []).map((text) => make("th", { scope: "col", text })));
    const longest = Math.max(...rows.map(([, share]) => share));
    refill(body, ...rows.map(([path, share], at) => {
      const line = makeRow(makeLink(path, () => store.select(path), { title: path }), ...used.map((column) => texts[at][column]));
      if (longest >= 0) line.style.setProperty("--anb-share", `${Math.max(0, 100 * share).toFixed(1)}%`);
      if (path === store.selection) line.setAttribute("aria-selected", "true");
      return line;
    }));
  }
  function draw() {
    const { at_ps, key } = momentOf(store);
    if (store.ready && store.state) asker.want({ at_ps }, `${key} ${store.selection}`);
  }
  return { element, draw, destroy: asker.destroy };
}
