// The topology as a table: the same numbers at the same moment, for those who do not see the canvas.

const MOST_ROWS = 400;

export function createTable(store, theme, { make, formatTime, busyAt }) {
  const caption = make("caption", {});
  const body = make("tbody", {});
  let order = "load";
  const heads = [
    ["name", "Link or node"],
    ["flying", "Lines on it"],
    ["waiting", "Waiting"],
    ["load", "Busy"],
  ].map(([name, words]) => {
    const button = make("button", {
      type: "button", class: "anb-child", text: words, title: `sort by this: ${words}`,
      onclick: () => {
        order = name;
        key = "";
        store.emit("change");
      },
    });
    return make("th", { scope: "col", "data-order": name }, button);
  });
  const table = make("table", { class: "anb-table" }, caption, make("thead", {}, make("tr", {}, ...heads)), body);
  const element = make("section", { class: "anb-tablepanel", "aria-label": "Table", tabindex: "0" }, table);
  let key = "";
  let last = 0;

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
      return { name: bundle.name, flying: flying[number], waiting: waiting[number], load: busyAt(store, number) ?? -1 };
    });
  }

  function draw() {
    if (!store.scene || !store.state) return;
    // A table is read, not watched: while it plays it changes twice a second.
    const now = performance.now();
    const current = [store.cursor, store.state.events, store.flights.count, store.selection, order, store.timeline?.now_ps].join();
    if (current === key || (store.playing && now - last < 500)) return;
    [key, last] = [current, now];
    const rows = count();
    if (order === "name") rows.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    else rows.sort((a, b) => b[order] - a[order] || b.waiting - a.waiting || b.flying - a.flying);
    for (const head of heads) {
      head.setAttribute("aria-sort", head.dataset.order !== order ? "none" : order === "name" ? "ascending" : "descending");
    }
    const number = (value) => value.toLocaleString("en-US");
    const shown = rows.slice(0, MOST_ROWS);
    caption.textContent = `${number(rows.length)} links at ${formatTime(Math.round(store.cursor))}${
      rows.length > shown.length ? `, the first ${number(shown.length)} in this order` : ""
    }`;
    const focused = body.contains(document.activeElement) ? document.activeElement.textContent : "";
    body.replaceChildren(
      ...shown.map((row) => {
        const button = make("button", { type: "button", class: "anb-child", text: row.name, onclick: () => store.select(row.name) });
        const line = make(
          "tr", {}, make("th", { scope: "row" }, button), make("td", { text: number(row.flying) }),
          make("td", { text: number(row.waiting) }), make("td", { text: row.load < 0 ? "–" : `${Math.round(100 * row.load)}%` }),
        );
        if (row.name === store.selection.split("#")[0]) line.setAttribute("aria-selected", "true");
        return line;
      }),
    );
    if (focused) [...body.querySelectorAll("button")].find((b) => b.textContent === focused)?.focus();
  }
  return { element, draw: () => (draw(), null), shown: () => (key = "") };
}
