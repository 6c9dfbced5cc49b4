// @ts-check
// The run beside this one: its workbench in this one, and in each of the two a strip that says which it is.

import { make, makeButton, makeHint } from "./theme.js";

/** @import { Store } from "./types" */

/** @param {Store} store */
export function createBeside(store) {
  const badge = make("b", { class: "anb-badge" });
  const title = make("b", { class: "anb-run-title" });
  const changes = make("span", { class: "anb-changes" });
  const part = makeButton("×", () => store.ask("difference", { part: true }), { class: "anb-button anb-part", "aria-label": "Close the run beside", title: "close the run beside this one" });
  const strip = make("div", { class: "anb-strip", "aria-label": "Which run", role: "group", hidden: "" }, badge, title, part, changes);
  const place = make("div", { class: "anb-other" });
  let other = "";
  let shown = "";
  /** @type {AbortController | null} */
  let ending = null;

  /** Its workbench, for as long as it is the one beside this one. */
  async function embed() {
    if (other === store.other()) return;
    other = store.other();
    ending?.abort();
    ending = null;
    place.replaceChildren();
    if (!other) return;
    if (!store.embed) {
      place.append(makeHint("To see it, show anb.SideBySide(sim, fork) in a cell."));
      return;
    }
    ending = new AbortController();
    const el = make("div", {});
    place.append(el);
    try {
      await store.embed(other, { el, signal: ending.signal });
    } catch (error) {
      el.replaceChildren(make("p", { class: "anb-failed", text: error instanceof Error ? error.message : String(error) }));
    }
  }
  return {
    strip,
    place,
    draw() {
      embed();
      const { letter = "", changes: all = [] } = store.beside;
      const text = JSON.stringify([store.scene.title, letter, all, other]);
      if (text === shown) return;
      shown = text;
      strip.hidden = !letter;
      badge.textContent = letter;
      title.textContent = store.scene.title;
      changes.textContent = all.map(([name, mine]) => `${name}: ${mine}`).join(" · ") || "no difference yet";
      changes.title = changes.textContent;
      part.hidden = !other;
      const root = strip.closest(".anb-workbench");
      root?.toggleAttribute("data-beside", Boolean(other));
      root?.setAttribute("data-letter", letter);
    },
    destroy: () => ending?.abort(),
  };
}
