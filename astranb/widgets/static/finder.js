// @ts-check
// A field that finds something by a text; the results are a list that the arrow keys walk.

import { make } from "./theme.js";

let numbers = 0; // of fields on the page: ids must differ

/**
 * @param {{ title: string, ask: (text: string) => void, take: (number: number) => void, home: () => HTMLElement | null }} settings `ask` for
 *   what a text names, to call `show` or `fail` with; `take` a result, by its number; `home` has the focus afterwards
 */
export function createFinder({ title, ask, take, home }) {
  const id = `anb-found-${(numbers += 1)}`;
  const list = make("ul", { class: "anb-found", id, role: "listbox", "aria-label": "Found", hidden: "" });
  const field = make("input", {
    type: "text", class: "anb-search", placeholder: "Search", "aria-label": "Search", role: "combobox", "aria-controls": id,
    "aria-expanded": "false", "aria-autocomplete": "list", spellcheck: "false", autocomplete: "off", title, oninput: () => wish(), onfocus: () => wish(),
  });
  const element = make("div", { class: "anb-menu" }, field, list);
  let count = 0;
  let at = 0;

  function wish() {
    const text = field.value.trim();
    if (text) ask(text);
    else write([]);
  }
  /** @param {HTMLElement[]} rows */
  function write(rows) {
    list.replaceChildren(...rows);
    list.hidden = !rows.length;
    field.setAttribute("aria-expanded", String(rows.length > 0));
  }
  /** @param {string[]} texts what was found @param {string} more what follows it, if anything */
  function show(texts, more) {
    if (!element.contains(document.activeElement) || !field.value.trim()) return;
    count = texts.length;
    at = 0;
    const rows = texts.map((text, k) => make("li", { role: "option", id: `${id}-${k}`, text, title: text, onmousedown: (/** @type {Event} */ event) => event.preventDefault(), onclick: () => choose(k) }));
    if (!count) rows.push(make("li", { class: "anb-hint", text: "nothing found" }));
    if (more) rows.push(make("li", { class: "anb-hint", text: more }));
    write(rows);
    mark();
  }
  function mark() {
    [...list.children].forEach((row, k) => row.setAttribute("aria-selected", String(k === at)));
    field.setAttribute("aria-activedescendant", count ? `${id}-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }
  /** @param {number} number */
  function choose(number) {
    if (number >= count || list.hidden) return;
    take(number);
    leave();
  }
  function leave() {
    write([]);
    home()?.focus({ preventScroll: true });
  }
  field.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step && count) {
      event.preventDefault();
      at = (at + step + count) % count;
      mark();
    } else if (event.key === "Enter") choose(at);
    else if (event.key === "Escape") {
      event.stopPropagation();
      leave();
    }
  });
  field.addEventListener("blur", () => write([]));
  return {
    element,
    field,
    show,
    /** @param {string} error */
    fail: (error) => write([make("li", { text: error })]),
  };
}
