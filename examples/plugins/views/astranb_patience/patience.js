import { createAsker } from "./asker.js";
import { formatTime } from "./format.js";
import { make } from "./theme.js";

export function create(store) {
  const waited = make("p", { class: "anb-note" });
  const element = make("section", { "aria-label": "Patience", tabindex: "0" }, waited);
  const asker = createAsker(store, "patience", {
    answered(reply, error) {
      waited.textContent = reply ? `Rank ${reply.rank} has waited longest: ${formatTime(reply.semaphore_ps)}` : error.message;
    },
  });
  return { element, draw: () => store.state && asker.want({}, String(store.state.events)), destroy: asker.destroy };
}
