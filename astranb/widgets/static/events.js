// @ts-check
// What happened around the cursor, as a table: a click selects the object and moves the cursor there.

import { createAsker, momentOf } from "./asker.js";
import { formatTime } from "./format.js";
import { createMoment } from "./moment.js";
import { make, makeHint, refill } from "./theme.js";

/** @import { Answer, CreateView } from "./types" */

/** @type {CreateView} */
export function createEvents(store) {
  const hint = makeHint("");
  const body = make("tbody", {});
  const heads = ["time", "what", "where"].map((text) => make("th", { scope: "col", text }));
  heads[1].append(" ", createMoment(store, () => asker.reply?.at_ps));
  const rows = make("div", { class: "anb-rows anb-eventrows", tabindex: "0" }, make("table", { class: "anb-table" }, make("thead", {}, make("tr", {}, ...heads)), body));
  const element = make("section", { class: "anb-events", "aria-label": "Events around the cursor" }, hint, rows);
  const asker = createAsker(store, "events", { every: 200, answered: (reply, error) => (reply ? show(reply) : (hint.textContent = error.message)) });

  /** @param {Answer<"events">} answer */
  function show(answer) {
    hint.textContent = answer.rows.length ? "" : "nothing has happened yet";
    hint.hidden = answer.rows.length > 0;
    refill(body, ...answer.rows.map(([when, what, path]) => {
      const time = formatTime(when);
      /** @param {string} text */
      const button = (text) => make("button", { type: "button", class: "anb-child", text, title: `${time}: ${what}`, onclick: () => go(when, path) });
      const row = make("tr", {}, make("th", { scope: "row" }, button(time)), make("td", { text: what, title: what }), make("td", { text: path, title: path }));
      if (when > answer.at_ps) row.classList.add("anb-later");
      if (path === store.selection) row.setAttribute("aria-selected", "true");
      row.addEventListener("click", (event) => event.target instanceof HTMLButtonElement || go(when, path));
      return row;
    }));
    const last = answer.rows.filter(([when]) => when <= answer.at_ps).length - 1;
    body.children[last]?.classList.add("anb-now");
    // The cursor is between what has happened and what has not: in the middle of the rows in sight.
    const here = body.children[last];
    if (here instanceof HTMLElement) rows.scrollTop = here.offsetTop - rows.clientHeight / 2;
  }
  /** @param {number} when @param {string} path */
  function go(when, path) {
    store.select(path);
    if (when < store.frontier) store.scrub(when);
    else store.follow();
  }
  function draw() {
    const { at_ps, key } = momentOf(store);
    if (store.state && !store.playing) asker.want({ at_ps: at_ps === null ? null : Math.round(at_ps) }, `${key} ${store.selection}`);
  }
  return { element, draw, destroy: asker.destroy };
}
