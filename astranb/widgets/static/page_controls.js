// @ts-check
// What a page that simulates has above its workbench: links, files, plans and an editor. Python does all of it
// (widgets/page_host.py); here are the buttons, and what shows its answers.

import { createModel } from "./model.js";
import { make, makeButton, refill } from "./theme.js";

/** @import { FromPython, LiveHeader, PlanSummary } from "./types" */
/** @import { createPython } from "./python_kernel.js" */
/** @typedef {ReturnType<typeof createPython>} Python */

const MOST_BYTES = 2 ** 28; // of a file
const KEPT_MS = 60_000; // a file for the browser to write

/**
 * @param {{
 *   page: LiveHeader, python: () => Python | null,
 *   say: (words: string, wrong?: boolean) => void,
 *   edits: () => void,
 * }} given `python`: null while it cannot be asked; `edits`: something of the editor's is to be answered
 */
export function createPageControls({ page, python, say, edits }) {
  /** Show where the workbench shows its status; without Python, above it. @param {string} words @param {boolean} [wrong] */
  function report(words, wrong = false) {
    const to = python();
    if (to) to.ask("say", { text: words, failed: wrong }).catch(() => say(words, wrong));
    else say(words, wrong);
  }
  /** Do something; what goes wrong is shown. @param {() => unknown} action */
  async function guarded(action) {
    try {
      await action();
    } catch (error) {
      report(error instanceof Error ? error.message : String(error), true);
    }
  }
  /** @param {string} what @param {object} [options] @param {Uint8Array[]} [buffers] */
  function ask(what, options, buffers) {
    const asked = python();
    if (!asked) throw new Error("Python is not ready yet: a moment");
    return asked.ask(what, options, buffers);
  }

  const hash = () => guarded(() => ask("hash"));
  const copyLink = () =>
    guarded(async () => {
      window.history.replaceState(null, "", (await ask("link")).result.fragment);
      try {
        await navigator.clipboard.writeText(window.location.href);
        report("copied: the link to this state, which goes with the page");
      } catch {
        report("the address of this page is now the link to this state: copy it");
      }
    });
  const save = () =>
    guarded(async () => {
      const { result, buffers } = await ask("save");
      const url = URL.createObjectURL(new Blob(/** @type {BlobPart[]} */ (buffers), { type: "application/octet-stream" }));
      make("a", { href: url, download: result.name }).click();
      setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
    });
  /** @param {string} fragment */
  const enter = (fragment) => guarded(() => ask("enter_link", { text: fragment }));

  // Plans ------------------------------------------------------------------------------

  const title = make("span");
  const size = make("input", { type: "text", "aria-label": "Size of the plan's buffer", title: "bytes of the larger buffer of a rank: 1 MiB" });
  const asked = make("span", { hidden: "" }, make("label", {}, "Size ", size), make("button", { type: "submit", class: "anb-button", text: "Run the plan" }));
  const cost = make("p", { class: "anb-hint" });
  const problem = make("p", { class: "anb-error", role: "alert", hidden: "" });
  const notes = make("ul", { class: "anb-hint" });
  const form = make(
    "form", { class: "anb-plan", "aria-label": "Plan", hidden: "", onsubmit: run },
    title, asked, makeButton("Close", close), cost, notes, problem,
  );
  function close() {
    form.hidden = true;
  }
  /** Do something of a plan; what goes wrong is shown in its form. @param {() => unknown} action */
  async function planned(action) {
    problem.hidden = true;
    try {
      await action();
    } catch (error) {
      form.hidden = problem.hidden = false;
      problem.textContent = error instanceof Error ? error.message : String(error);
    }
  }
  /** @param {PlanSummary} found */
  function showPlan(found) {
    title.textContent = found.title;
    cost.textContent = found.cost ?? "";
    refill(notes, ...(found.notes ?? []).map((text) => make("li", { text })));
  }
  size.addEventListener("input", () => planned(async () => {
    cost.textContent = "";
    cost.textContent = (await ask("plan_cost", { size: size.value })).result.cost;
  }));
  /** @param {Event} event */
  function run(event) {
    event.preventDefault();
    planned(async () => {
      await ask("run_plan", { size: size.value });
    });
  }
  const own = makeButton("Own run", () => guarded(() => ask("own_run")), { hidden: "", title: "return to the run that this page was made of" });

  /** @param {File | undefined} file @param {boolean} [plan] whether a plan was asked for */
  const open = (file, plan = false) =>
    (plan ? planned : guarded)(async () => {
      if (!file) return;
      if (file.size > MOST_BYTES) throw new Error(`${file.name} is too large for a page: open it in JupyterLab`);
      title.textContent = file.name;
      asked.hidden = true;
      refill(notes);
      const content = new Uint8Array(await file.arrayBuffer());
      let result;
      try {
        ({ result } = await ask("open", { name: file.name }, [content]));
      } catch (error) {
        if (file.name.endsWith(".anb")) throw error;
        await planned(() => Promise.reject(error)); // of a plan: its form says what is wrong
        return;
      }
      if (result.kind === "plan") {
        showPlan(result);
        size.value = result.size;
        asked.hidden = form.hidden = false;
        size.focus();
      }
    });
  const fileChooser = chooser("File to open", {}, (file) => open(file));
  const planChooser = chooser("Plan to run", { accept: ".json,.xml,.csv,application/json,text/xml,text/csv" }, (file) => open(file, true));
  /** @param {string} label @param {Record<string, string>} more @param {(file: File | undefined) => unknown} chosen */
  function chooser(label, more, chosen) {
    const input = make("input", {
      type: "file", hidden: "", "aria-label": label, ...more,
      async onchange() {
        await chosen(input.files?.[0]);
        input.value = "";
      },
    });
    return input;
  }

  // The editor -------------------------------------------------------------------------

  const editor = make("div", { class: "anb-page-editor", hidden: "" });
  /** @type {ReturnType<typeof createModel> | null} */
  let edited = null;
  let asking = 0; // the number of what was asked last
  const openEditor = () =>
    guarded(async () => {
      editor.hidden = !editor.hidden;
      if (edited || editor.hidden) return;
      const { result } = await ask("editor_open");
      const made = createModel(/** @type {any} */ (result.traits), (message) => {
        const to = python();
        if (!to) {
          made.send({ type: "problems", seq: /** @type {any} */ (message).seq, error: "Python is not ready yet: a moment", problems: [], good: "", ranks: 0, ms: 0 });
          return;
        }
        asking = /** @type {any} */ (message).seq;
        edits();
        to.send({ editor: message });
      });
      edited = made;
      const url = URL.createObjectURL(new Blob([page.editor], { type: "text/javascript" }));
      const { default: editorOf } = await import(url);
      URL.revokeObjectURL(url);
      editorOf.render({ model: made.model, el: editor });
    });

  const needing = [
    makeButton("Copy link", copyLink, { title: "copy a link to this moment, with what was changed and what is open" }),
    makeButton("Save", save, { title: "save this moment as a file, which JupyterLab opens, too" }),
    makeButton("Open", () => fileChooser.click(), { title: "go to the moment in a saved file, or run a plan or an algorithm; a file can be dropped on the page, too" }),
    ...(page.engine === "cacheline" ? [
      makeButton("Run a plan…", () => planChooser.click(), { title: "run an execution plan or algorithm (MSCCL++ JSON, MSCCL XML, CSV) on the machine of this page" }),
      makeButton("Editor", openEditor, { title: "write an algorithm: it is verified as you type, and simulated on the machine of this page" }),
    ] : []),
    makeButton("Hash", hash, { title: "show the hash of everything simulated, which sim.state_hash() gives in Python" }),
  ];
  for (const button of needing) button.disabled = true;
  const about = make("details", { class: "anb-about" }, make("summary", { text: "…", title: "what this page is made of", "aria-label": "About this page" }), make("p", { class: "anb-hint", text: page.about }));
  const element = make(
    "div", { class: "anb-page-controls", role: "toolbar", "aria-label": "Page" },
    ...needing.slice(0, -1), own, ...needing.slice(-1), about, fileChooser, planChooser,
  );
  window.addEventListener("hashchange", () => python() && enter(window.location.hash));
  /** Text that is dragged goes where it goes in every page. @param {DragEvent} event */
  const brings = ({ dataTransfer }) => Boolean(dataTransfer?.types.includes("Files"));
  document.addEventListener("dragover", (event) => brings(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    open(event.dataTransfer?.files[0]);
  });
  return {
    element, form, editor, enter, report,
    /** Whether the page's own run is shown. @param {boolean} shown */
    own(shown) {
      own.hidden = shown;
    },
    /** Python can be asked. */
    ready() {
      for (const button of needing) button.disabled = false;
    },
    /** Python has ended, and starts again. @param {string} why */
    ended(why) {
      for (const button of needing) button.disabled = true;
      edited?.send({ type: "problems", seq: asking, error: why, problems: [], good: "", ranks: 0, ms: 0 });
    },
    /** What Python's editor says. @param {FromPython} message */
    edited({ editor: said, editor_traits: traits }) {
      for (const [name, value] of Object.entries(traits ?? {})) edited?.model.set(/** @type {any} */ (name), /** @type {never} */ (value));
      if (said) edited?.send(said);
    },
  };
}
