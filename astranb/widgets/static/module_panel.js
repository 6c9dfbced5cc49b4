// @ts-check
// The operations of a rank by module, in the colours of the cursor's time.

import { createAsker, momentOf } from "./asker.js";
import { formatCount } from "./format.js";
import { createModules } from "./modules.js";
import { createMoment } from "./moment.js";
import { make } from "./theme.js";

/** @import { CreateView, ModuleSource, ModuleStates, Reply, WorkloadScene } from "./types" */

/** @type {CreateView} */
export function createModulePanel(store) {
  const rank = make("input", {
    type: "number", class: "anb-rank", min: 0, step: 1, value: 0, "aria-label": "Rank whose modules are shown",
    onchange() {
      wish(Number(rank.value));
    },
  });
  const label = make("label", { class: "anb-label" }, "Rank", rank);
  const failed = make("p", { class: "anb-failed", hidden: "" });
  const modules = createModules({
    within: [label, createMoment(store, () => asker.reply?.at_ps)],
    selected(_entity, row) {
      if (row < 0) return;
      seen = `rank[${shown}].op[${row}]`;
      store.select(seen);
    },
    opened: () => store.emit("change"),
  });
  const element = make("section", { class: "anb-module-panel", "aria-label": "Modules" }, failed, modules.element);
  const asker = createAsker(store, "module_states", { every: 120, answered: (reply, _error) => reply && colour(reply) });
  let wanted = 0; // the rank
  let shown = -1; // that is shown
  let seen = ""; // the selection that has been followed
  const scene = () => /** @type {WorkloadScene} */ (store.scene);
  store.on("scene", () => {
    label.hidden = scene().ranks === 1;
  });

  /** @param {number} which */
  function wish(which) {
    wanted = Math.min(Math.max(0, Math.floor(which) || 0), Math.max(0, (store.ready ? scene().ranks : 1) - 1));
    rank.value = String(wanted);
    store.emit("change");
  }
  /** @param {number} which */
  async function show(which) {
    shown = which;
    asker.forget();
    /** @type {ModuleSource} */
    const source = {
      async module(module) {
        const { labels, arrays } = await store.ask("module", { rank: which, module });
        return { module, labels, arrays };
      },
      detail: (entity) => store.ask("module_detail", { rank: which, entity }),
      search: (text) => store.ask("module_search", { rank: which, text }),
    };
    try {
      await modules.show(await store.ask("modules", { rank: which }), source);
      failed.hidden = true;
    } catch (error) {
      failed.hidden = false;
      failed.textContent = error instanceof Error ? error.message : String(error);
    }
    store.emit("change");
  }
  /** @param {Reply<"module_states">} reply */
  function colour({ arrays: { entity, state, done, running, total } }) {
    /** @type {ModuleStates} */
    const states = new Map();
    entity.forEach((one, k) => {
      const name = scene().states[state[k]];
      const counts = `${formatCount(done[k])} of ${formatCount(total[k])} done${running[k] ? `, ${formatCount(running[k])} running` : ""}`;
      states.set(one, { state: name, share: done[k] / total[k], text: total[k] === 1 ? name : counts });
    });
    modules.colour(states);
  }
  function draw() {
    if (!store.ready || !store.state) return;
    rank.max = String(scene().ranks - 1);
    if (seen !== store.selection) {
      seen = store.selection;
      const named = seen.match(/^rank\[(\d+)\](?:\.op\[(\d+)\])?/);
      if (named && Number(named[1]) !== wanted) wish(Number(named[1]));
      else if (named?.[2] && shown === wanted) modules.find(Number(named[2]));
    }
    if (shown !== wanted) show(wanted);
    const open = modules.open();
    if (!open.length) return;
    const moment = momentOf(store);
    asker.want({ rank: shown, modules: open, at_ps: moment.at_ps }, `${shown} ${open.join()} ${moment.key}`);
  }
  return {
    element,
    draw,
    destroy() {
      asker.destroy();
      modules.destroy();
    },
  };
}
