// @ts-check
// What a page that simulates has above its workbench: a link to the present state, and files to save and to open.

import { make, makeButton } from "../theme.js";
import { fileOf, readSavedFile, stateOfFile } from "./saved_file.js";
import { enterState, stateOf } from "./shared_state.js";
import { linkOf, stateOfLink } from "./state_link.js";

/** @import { PageWorkbench } from "./page_workbench.js" */
/** @import { SharedPlan } from "./types" */

const MOST_BYTES = 2 ** 30; // of a file
const SAVED = "PK"; // the beginning of a saved file; what begins otherwise may be a plan

/**
 * @param {{
 *   inputs: string, plans: { buttons: HTMLElement[], take: (file: File) => Promise<void> }, current: () => PageWorkbench,
 *   show: (plan?: SharedPlan | null) => Promise<PageWorkbench>,
 * }} page `inputs`: the hash of its own run's; `current`: the workbench; `show`: the run of a plan, or its own
 */
export function createPageControls({ inputs, plans, current, show }) {
  /** Do something; what goes wrong is shown where the workbench shows its status. @param {() => unknown} action */
  async function guarded(action) {
    try {
      await action();
    } catch (error) {
      current().session.show(error instanceof Error ? error.message : String(error), true);
    }
  }
  const hash = () =>
    guarded(() => {
      const { session, sim } = current();
      session.ask("pause");
      session.show(`hash ${sim.state_hash()}`);
    });
  const copyLink = () =>
    guarded(async () => {
      const { kernel, model, session, sim } = current();
      session.ask("pause");
      window.history.replaceState(null, "", await linkOf(stateOf(kernel, model), inputs, sim.engine.live.plan));
      try {
        await navigator.clipboard.writeText(window.location.href);
        session.show("copied: the link to this state, which goes with the page");
      } catch {
        session.show("the address of this page is now the link to this state: copy it");
      }
    });
  const save = () =>
    guarded(() => {
      const { kernel, model, session, sim, bytes } = current();
      session.ask("pause");
      const parts = fileOf(kernel, bytes, stateOf(kernel, model));
      const url = URL.createObjectURL(new Blob(/** @type {Uint8Array<ArrayBuffer>[]} */ (parts), { type: "application/octet-stream" }));
      make("a", { href: url, download: `astranb-${sim.now_ps()}-ps.anb` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      session.show("saved: Workbench.load(path) opens the file in JupyterLab, and this page with Open");
    });
  /** @param {File | undefined} file */
  const open = (file) =>
    guarded(async () => {
      if (!file) return;
      if (file.size > MOST_BYTES) throw new Error("this file is too large for a page: open it in JupyterLab");
      if ((await file.slice(0, 2).text()) !== SAVED) {
        await plans.take(file);
        return;
      }
      const found = readSavedFile(new Uint8Array(await file.arrayBuffer()));
      const { kernel, model, bytes } = await (found.plan ? show(found.plan) : current());
      await enterState(kernel, model, stateOfFile(found, kernel, bytes), `opened ${file.name}`);
    });
  const openLink = () =>
    guarded(async () => {
      const found = await stateOfLink(window.location.hash, inputs);
      if (!found) return;
      const { kernel, model } = await show(found.plan);
      await enterState(kernel, model, found.state, "the state of the link");
    });

  const chooser = make("input", {
    type: "file", hidden: "", "aria-label": "File to open",
    async onchange() {
      await open(chooser.files?.[0]);
      chooser.value = "";
    },
  });
  const element = make(
    "div", { class: "anb-page-controls", role: "toolbar", "aria-label": "Page" },
    makeButton("Copy link", copyLink, { title: "copy a link to this moment, with what was changed and what is open" }),
    makeButton("Save", save, { title: "save this moment as a file, which JupyterLab opens, too" }),
    makeButton("Open", () => chooser.click(), { title: "go to the moment in a saved file of this run or of a plan; a file can be dropped on the page, too" }),
    ...plans.buttons,
    makeButton("Hash", hash, { title: "show the hash of everything simulated, which sim.state_hash() gives in Python" }),
    chooser,
  );
  window.addEventListener("hashchange", openLink);
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    open(event.dataTransfer?.files[0]);
  });
  return { element, openLink };
}
