// @ts-check
// What a page that simulates has above its workbench: a link to the present state, and files to save and to open.

import { make, makeButton } from "../theme.js";
import { fileOf, readSavedFile, stateOfFile } from "./saved_file.js";
import { enterState, hashNow, stateNow, stateOf } from "./shared_state.js";
import { linkOf, stateOfLink } from "./state_link.js";

/** @import { PageWorkbench } from "./page_workbench.js" */
/** @import { SharedPlan } from "./types" */

const MOST_BYTES = 2 ** 30; // of a file
const [SAVING, OPENING] = [{ status: "saving", of: "file" }, { status: "reading the file", of: "file" }];
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
    guarded(async () => {
      const { kernel, session } = current();
      const found = await hashNow(kernel);
      if (found !== null) session.show(`hash ${found}`);
    });
  const copyLink = () =>
    guarded(async () => {
      const { kernel, model, session, sim } = current();
      const state = await stateNow(kernel, model);
      if (!state) return;
      window.history.replaceState(null, "", await linkOf(state, inputs, sim.engine.live.plan));
      try {
        await navigator.clipboard.writeText(window.location.href);
        session.show("copied: the link to this state, which goes with the page");
      } catch {
        session.show("the address of this page is now the link to this state: copy it");
      }
    });
  const save = () =>
    guarded(async () => {
      const { kernel, model, session, sim, bytes } = current();
      if (session.playing) session.ask("pause");
      const file = await session.alone(SAVING, function* () {
        const parts = yield* fileOf(kernel, bytes, stateOf(kernel, model));
        return parts && new Blob(/** @type {Uint8Array<ArrayBuffer>[]} */ (parts), { type: "application/octet-stream" });
      });
      if (!file) return;
      const url = URL.createObjectURL(file);
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
      const content = new Uint8Array(await file.arrayBuffer());
      const found = await current().session.alone(OPENING, () => readSavedFile(content));
      if (!found) return;
      const { kernel, model, session, bytes } = await (found.plan ? show(found.plan) : current());
      const state = await session.alone(OPENING, () => stateOfFile(found, kernel, bytes));
      if (state) await enterState(kernel, model, state, `opened ${file.name}`);
    });
  /** Go to the state in the page's address; gives whether there is one. */
  async function enterLink() {
    const found = await stateOfLink(window.location.hash, inputs);
    if (!found) return false;
    const { kernel, model } = await show(found.plan);
    await enterState(kernel, model, found.state, "the state of the link");
    return true;
  }

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
  window.addEventListener("hashchange", () => guarded(enterLink));
  /** Text that is dragged goes where it goes in every page. @param {DragEvent} event */
  const brings = ({ dataTransfer }) => Boolean(dataTransfer?.types.includes("Files"));
  document.addEventListener("dragover", (event) => brings(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    open(event.dataTransfer?.files[0]);
  });
  return { element, enterLink };
}
