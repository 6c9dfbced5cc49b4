// @ts-check
// The recorded messages up to the cursor: a click moves the cursor to one and selects its operation or its link.

import { createAsker, momentOf } from "./asker.js";
import { formatBytes, formatCount, formatTime, plural } from "./format.js";
import { createMoment } from "./moment.js";
import { make, makeLink, makeRow, refill, settle } from "./theme.js";

/** @import { Answer, CreateView } from "./types" */

/** @type {CreateView} */
export function createFlows(store) {
  const changed = () => store.emit("change");
  const rank = make("input", { type: "number", min: "0", class: "anb-flows-rank", placeholder: "any", "aria-label": "Rank of messages", oninput: changed });
  const text = make("input", { type: "search", class: "anb-flows-text", placeholder: "any", "aria-label": "Operation of messages", oninput: changed });
  const now = make("input", { type: "checkbox", onchange: changed });
  const words = make("span", {});
  const lost = make("span", { class: "anb-note" });
  const bar = make(
    "div", { class: "anb-legend" },
    make("label", { class: "anb-label", title: "messages that this rank sends or receives" }, "rank ", rank),
    make("label", { class: "anb-label", title: "a part of the operation's name" }, "operation ", text),
    make("label", { class: "anb-label" }, now, "under way at the cursor"),
    lost,
  );
  const caption = make("caption", {}, make("span", { class: "anb-flows-words" }, words, " ", createMoment(store, () => asker.reply?.at_ps)));
  const head = make("tr", {});
  const body = make("tbody", {});
  const table = make("table", { class: "anb-table" }, caption, make("thead", {}, head), body);
  const element = make("section", { class: "anb-tablepanel anb-flows", "aria-label": "Flows", tabindex: "0" }, bar, table);
  let order = "start_ps";
  const asker = createAsker(store, "flows", { every: 300, answered: (reply, error) => (reply ? show(reply) : fail(error)) });

  /** @param {Error} error */
  function fail(error) {
    settle(words, error.message);
    for (const part of [head, body]) part.replaceChildren();
  }
  /** @param {string} name what it is sorted by, if anything @param {string} heading */
  function title(name, heading) {
    if (!name) return make("th", { scope: "col", text: heading });
    const sort = () => {
      order = name;
      changed();
    };
    const first = name === "rate" ? "slowest first" : name === "start_ps" ? "latest first" : "largest first";
    const direction = name !== order ? "none" : name === "rate" ? "ascending" : "descending";
    return make("th", { scope: "col", "aria-sort": direction }, makeLink(heading, sort, { title: `sort by this: ${first}` }));
  }
  /** @param {Answer<"flows">} answer */
  function show({ absent, heads, rows, all, shown, bytes, dropped, oldest_ps }) {
    const first = rows.length < shown ? `, the first ${formatCount(rows.length)} in this order` : "";
    settle(words, absent || `${formatCount(shown)} of ${plural(all, "recorded message")}, ${formatBytes(bytes)}${first}`);
    settle(lost, dropped ? `Messages before ${formatTime(oldest_ps, 3)} are no longer recorded.` : "");
    head.replaceChildren(...(absent ? [] : heads).map(([name, heading]) => title(name, heading)));
    refill(body, ...rows.map(([path, link, start, ends, ...cells]) => {
      const go = () => {
        store.scrub(start);
        store.select(path);
      };
      const line = makeRow(makeLink(ends, go, { title: `go to ${formatTime(start, 4)} and select ${path}` }), ...cells);
      const [operation, cell] = line.querySelectorAll("td");
      operation.title = cells[0];
      cell.replaceChildren(makeLink(cells[1], () => {
        store.scrub(start);
        store.select(link);
      }, { title: `go there and select ${link}` }));
      if (store.selection === path || store.selection === link) line.setAttribute("aria-selected", "true");
      return line;
    }));
  }
  function draw() {
    const { at_ps, key } = momentOf(store);
    if (!store.ready || !store.state) return;
    const chosen = { order, rank: rank.value === "" ? -1 : Number(rank.value), text: text.value, now: now.checked };
    asker.want({ at_ps, ...chosen }, `${key} ${JSON.stringify(chosen)} ${store.selection}`);
  }
  return { element, draw, destroy: asker.destroy };
}
