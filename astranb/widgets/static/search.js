// @ts-check
// A field that finds GPUs, links, operations and times; the results are a list that the arrow keys walk.

import { createAsker } from "./asker.js";
import { make } from "./theme.js";

/** @import { Answer, Store } from "./types" */

let numbers = 0; // of fields on the page: ids must differ

/** @param {Store} store */
export function createSearch(store) {
  const id = `anb-found-${(numbers += 1)}`;
  const list = make("ul", { class: "anb-found", id, role: "listbox", "aria-label": "Found", hidden: "" });
  const field = make("input", {
    type: "text", class: "anb-search", placeholder: "Search", "aria-label": "Search", role: "combobox", "aria-controls": id,
    "aria-expanded": "false", "aria-autocomplete": "list", spellcheck: "false", autocomplete: "off",
    title: "find a GPU, a link, an operation, or a time such as 3 us (/ or Ctrl+F)",
    oninput: () => ask(),
    onfocus: () => ask(),
  });
  const element = make("div", { class: "anb-menu" }, field, list);
  const asker = createAsker(store, "search", { answered: (reply, error) => (reply ? show(reply) : write([make("li", { text: error.message })])) });
  /** @type {Answer<"search">["found"]} */
  let found = [];
  let at = 0;

  function ask() {
    const text = field.value.trim();
    if (text) asker.want({ text }, `${text} ${store.state?.events}`);
    else write([]);
  }
  /** @param {HTMLElement[]} rows */
  function write(rows) {
    list.replaceChildren(...rows);
    list.hidden = !rows.length;
    field.setAttribute("aria-expanded", String(rows.length > 0));
  }
  /** @param {Answer<"search"> & { options?: object }} reply */
  function show(reply) {
    if (!element.contains(document.activeElement) || !field.value.trim()) return;
    found = reply.found;
    at = 0;
    const rows = found.map(([text], k) => make("li", { role: "option", id: `${id}-${k}`, text, title: text, onmousedown: (/** @type {Event} */ event) => event.preventDefault(), onclick: () => take(k) }));
    if (!found.length) rows.push(make("li", { class: "anb-hint", text: "nothing found" }));
    if (reply.more) rows.push(make("li", { class: "anb-hint", text: "… and more: type more of the name" }));
    write(rows);
    mark();
  }
  function mark() {
    [...list.children].forEach((row, k) => row.setAttribute("aria-selected", String(k === at)));
    field.setAttribute("aria-activedescendant", found.length ? `${id}-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }
  /** Go to a result. @param {number} number */
  function take(number) {
    const one = found[number];
    if (!one) return;
    const [, path, time_ps] = one;
    if (path) store.select(path);
    if (time_ps >= 0) {
      if (time_ps <= store.frontier) store.scrub(time_ps);
      else store.command("goto", { when: time_ps });
    }
    leave();
  }
  function leave() {
    write([]);
    /** @type {HTMLElement | null} */ (field.closest(".anb-workbench"))?.focus({ preventScroll: true });
  }
  field.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && found.length) {
      event.preventDefault();
      at = (at + step + found.length) % found.length;
      mark();
    } else if (event.key === "Enter") take(at);
    else if (event.key === "Escape") {
      event.stopPropagation();
      leave();
    }
  });
  field.addEventListener("blur", () => write([]));
  return { element, field, destroy: asker.destroy };
}
