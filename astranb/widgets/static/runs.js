// @ts-check
// A list of runs, and the workbench of the one that is chosen.

import { load } from "./loader.js";

/** @import { Host, Model } from "./types" */
/** @typedef {{ _modules: Record<string, string>, _rows: [string, string, string][], _chosen: string }} Traits */

export default {
  /** @param {{ model: Model<Traits>, el: HTMLElement, host: Host, signal: AbortSignal }} widget */
  async render({ model, el, host, signal }) {
    /** @type {typeof import("./theme.js")} */
    const { make, makeButton } = await load(model.get("_modules"), "theme");
    /** @type {typeof import("./embed.js")} */
    const { createEmbed } = await load(model.get("_modules"), "embed");
    const list = make("div", { class: "anb-tabs anb-runlist", role: "tablist", "aria-label": "Runs" });
    const place = make("div", { role: "tabpanel", "aria-label": "The run that is shown" });
    el.append(make("div", { class: "anb-several" }, make("div", { class: "anb-workbench" }, list), place));
    /** @type {{ button: HTMLElement, state: HTMLElement }[]} */
    const tabs = []; // runs are only ever added
    const embed = createEmbed(place, host, signal);

    /** @param {string} name */
    function choose(name) {
      model.set("_chosen", name);
      model.save_changes();
    }
    function draw() {
      const focused = list.contains(document.activeElement);
      const chosen = model.get("_chosen");
      const rows = model.get("_rows");
      for (const [k, [name, words]] of rows.entries()) {
        // A tab is kept while it is listed: one that is exchanged under the pointer loses the click.
        if (!tabs[k]) {
          const state = make("span", { class: "anb-hint" });
          const button = makeButton("", () => choose(name), { class: "anb-tab", role: "tab" });
          button.append(make("span", { text: name }), " ", state);
          tabs.push({ button, state });
          list.append(button);
        }
        const { button, state } = tabs[k];
        state.textContent = words;
        button.setAttribute("aria-selected", String(name === chosen));
        button.tabIndex = name === chosen ? 0 : -1;
        if (focused && name === chosen) button.focus();
      }
      embed(rows.find(([name]) => name === chosen)?.[2] ?? "");
    }
    list.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      const names = model.get("_rows").map(([name]) => name);
      if (!step || !names.length) return;
      event.preventDefault();
      event.stopPropagation();
      choose(names[(names.indexOf(model.get("_chosen")) + step + names.length) % names.length]);
    });
    model.on("change:_rows", draw);
    model.on("change:_chosen", draw);
    draw();
    return () => {
      model.off("change:_rows", draw);
      model.off("change:_chosen", draw);
    };
  },
};
