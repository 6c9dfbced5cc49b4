// @ts-check
// The topology as a table: the same numbers at the same moment, for those who do not see the canvas.

import { formatCount, plural } from "./format.js";
import { createMoment } from "./moment.js";
import { make, makeLink, makeRow, refill } from "./theme.js";
import { busyAt } from "./edges.js";

/** @import { CreateView } from "./types" */

const MOST_ROWS = 400;
/** @typedef {"name" | "flying" | "waiting" | "load"} Column */

/** @type {CreateView} */
export function createTable(store) {
  const about = make("span", {});
  const caption = make("caption", {}, about, " ", createMoment(store, () => moment));
  const body = make("tbody", {});
  /** @type {Column} */
  let order = "load";
  /** @type {[Column, string][]} */
  const titles = [
    ["name", "Link or node"],
    ["flying", "Lines on it"],
    ["waiting", "Waiting"],
    ["load", "Busy"],
  ];
  const heads = titles.map(([name, words]) => {
    const sort = () => {
      order = name;
      key = "";
      store.emit("change");
    };
    return make("th", { scope: "col", "data-order": name }, makeLink(words, sort, { title: `sort by this: ${words}` }));
  });
  const table = make("table", { class: "anb-table" }, caption, make("thead", {}, make("tr", {}, ...heads)), body);
  const element = make("section", { class: "anb-tablepanel", "aria-label": "Table", tabindex: "0" }, table);
  let key = "";
  let last = 0;
  /** @type {number | null} the time that the rows hold for */
  let moment = null;

  function count() {
    const { bundles, bundleOf } = store.scene;
    const flying = new Uint32Array(bundles.length);
    const waiting = new Uint32Array(bundles.length);
    for (const k of store.flights.at(store.cursor)) {
      const bundle = bundleOf[store.flights.what[k] >>> 4];
      if (bundle === undefined || bundle < 0) continue;
      if (store.flights.start[k] > store.cursor) waiting[bundle] += 1;
      else flying[bundle] += 1;
    }
    return bundles.map((bundle, number) => {
      return { name: bundle.name, title: bundle.title, flying: flying[number], waiting: waiting[number], load: busyAt(store, number) ?? -1 };
    });
  }

  function draw() {
    if (!store.ready || !store.state) return;
    // A table is read, not watched: while it plays it changes twice a second.
    const now = performance.now();
    const current = [store.cursor, store.state.events, store.flights.count, store.selection, order, store.timeline?.now_ps].join();
    if (current === key || (store.playing && now - last < 500)) return;
    [key, last, moment] = [current, now, store.cursor];
    const rows = count();
    const by = order;
    if (by === "name") rows.sort((a, b) => a.title.localeCompare(b.title, "en", { numeric: true }));
    else rows.sort((a, b) => b[by] - a[by] || b.waiting - a.waiting || b.flying - a.flying);
    for (const head of heads) {
      head.setAttribute("aria-sort", head.dataset.order !== order ? "none" : order === "name" ? "ascending" : "descending");
    }
    const top = rows.slice(0, MOST_ROWS);
    about.textContent = `${plural(rows.length, "link")}${rows.length > top.length ? `, the first ${formatCount(top.length)} in this order` : ""}`;
    refill(body, ...top.map(({ name, title, flying, waiting, load }) => {
      const line = makeRow(makeLink(title, () => store.select(name), { title: name }), formatCount(flying), formatCount(waiting), load < 0 ? "–" : `${Math.round(100 * load)}%`);
      if (name === store.selection.split("#")[0]) line.setAttribute("aria-selected", "true");
      return line;
    }));
    store.emit("change"); // the label of the time follows the rows
  }
  function shown() {
    key = "";
  }
  return { element, draw, shown };
}
