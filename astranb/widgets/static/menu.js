// @ts-check
// A button that opens a small menu below it; a click elsewhere or Esc closes it.

import { make, makeButton } from "./theme.js";

let numbers = 0; // of menus on the page: ids must differ

/**
 * @param {string} text
 * @param {string} label
 * @param {...HTMLElement} items
 */
export function createMenu(text, label, ...items) {
  const sheet = make("div", { class: "anb-menu-items", id: `anb-menu-${(numbers += 1)}`, role: "group", "aria-label": label, hidden: "" }, ...items);
  const button = makeButton(text, () => show(Boolean(sheet.hidden)), {
    class: "anb-button anb-menu-button", "aria-label": label, title: label, "aria-expanded": "false", "aria-controls": sheet.id,
  });
  const element = make("div", { class: "anb-menu" }, button, sheet);
  /** @param {boolean} open */
  function show(open) {
    sheet.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
  }
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || sheet.hidden) return;
    event.stopPropagation();
    event.preventDefault();
    show(false);
    button.focus();
  });
  element.addEventListener("focusout", (event) => {
    if (!(event.relatedTarget instanceof Node && element.contains(event.relatedTarget))) show(false);
  });
  // A click on what takes no focus, such as a picture, closes it too: the focus goes to the page.
  sheet.addEventListener("pointerdown", (event) => event.target === sheet && event.preventDefault());
  return { element, button, sheet, close: () => show(false) };
}
