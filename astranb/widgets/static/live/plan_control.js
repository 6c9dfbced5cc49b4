// @ts-check
// Runs MSCCL++ execution plans on the machine of a page: a file is chosen or dropped, its size is set, and it runs.

import { make, makeButton, refill } from "../theme.js";
import { createKernel } from "./kernel.js";
import { costOf } from "./plan_pieces.js";
import { readPlan } from "./plan_read.js";
import { planKernel } from "./plan_run.js";
import { formatBytes, sizeBytes } from "./units.js";

/** @import { Plan } from "./plan.js" */
/** @import { PageWorkbench } from "./page_workbench.js" */
/** @import { Live, PageKernel, SharedPlan } from "./types" */

const MOST_BYTES = 64 * 2 ** 20; // of a file
const USUAL_SIZE = 2 ** 20; // where neither the plan nor the page has one

/** A plan in a line. @param {Plan} plan @param {number} gpus */
function summary({ name, collective, ranks, inPlace, protocol }, gpus) {
  const what = `“${name}”: ${collective ?? "no collective that is known, run unchecked"}, ${protocol}, for ${ranks} GPUs`;
  const where = inPlace ? "; input and output are one buffer" : "";
  return ranks === gpus ? what + where : `${what}${where} (this page has ${gpus})`;
}

/**
 * @param {{ live: Live }} page
 * @param {DataView[]} columns
 * @param {(kernel: PageKernel, columns: DataView[]) => Promise<PageWorkbench>} open shows another run
 */
export function createPlanControl(page, columns, open) {
  const { about, engine } = page.live;
  const able = engine === "cacheline";
  /** Read, and not run yet. @type {{ plan: Plan, name: string, file: Uint8Array<ArrayBuffer> } | null} */
  let taken = null;
  const title = make("span");
  const asked = make("span", { hidden: "" }); // what is asked once a plan is read
  const size = make("input", { type: "text", "aria-label": "Size of the plan's buffer", title: "bytes of the larger buffer of a rank: 1 MiB" });
  const cost = make("p", { class: "anb-hint" });
  const problem = make("p", { class: "anb-error", role: "alert", hidden: "" });
  const notes = make("ul", { class: "anb-hint" });
  const form = make(
    "form", { class: "anb-plan", "aria-label": "Plan", hidden: "", onsubmit: run },
    title, asked, makeButton("Close", close), cost, notes, problem,
  );
  asked.append(make("label", {}, "Size ", size), make("button", { type: "submit", class: "anb-button", text: "Run the plan" }));
  const chooser = make("input", {
    type: "file", hidden: "", accept: ".json,application/json", "aria-label": "Plan to run",
    async onchange() {
      const file = chooser.files?.[0];
      if (file) await take(file);
      chooser.value = "";
    },
  });
  const own = makeButton("Own run", () => guarded(async () => (await openOwn()).session.show("the run of this page")), {
    hidden: "", title: "return to the run that this page was made of",
  });
  const button = makeButton("Run a plan…", () => chooser.click(), {
    title: "run an MSCCL++ execution plan (JSON) on the machine of this page; a file can be dropped on the page, too",
  });

  /** @param {() => Promise<unknown> | void} action */
  async function guarded(action) {
    problem.hidden = true;
    try {
      await action();
    } catch (error) {
      form.hidden = false;
      problem.hidden = false;
      problem.textContent = error instanceof Error ? error.message : String(error);
    }
  }
  /** Size that a plan is given at first: that of the page, within the plan's range. @param {Plan} given */
  const usual = ({ minBytes, maxBytes }) => Math.max(1, minBytes, Math.min(about.work?.size || USUAL_SIZE, maxBytes ?? Infinity));

  /** Read the file of a plan. @param {Uint8Array} bytes @param {string} name */
  function read(bytes, name) {
    if (!able) throw new Error(`${name}: plans run by cache lines, and this page simulates whole messages`);
    return readPlan(bytes, name);
  }
  /** Say before it is run what a plan takes; of a size that is no size, Run says so. */
  function weigh() {
    cost.textContent = "";
    try {
      if (taken) cost.textContent = costOf(taken.plan, sizeBytes(size.value));
    } catch (error) {
      cost.textContent = error instanceof Error ? error.message : String(error);
    }
  }
  size.addEventListener("input", weigh);
  /** @param {Plan} plan */
  const note = (plan) => refill(notes, ...plan.notes.map((text) => make("li", { text })));

  /** Read a plan, and ask for its size. @param {File} file */
  const take = (file) =>
    guarded(async () => {
      taken = null;
      asked.hidden = true;
      refill(notes);
      weigh();
      title.textContent = file.name;
      if (file.size > MOST_BYTES) throw new Error(`${file.name}: larger than ${MOST_BYTES / 2 ** 20} MiB; is it the right file?`);
      const bytes = new Uint8Array(await file.arrayBuffer());
      const plan = read(bytes, file.name);
      taken = { plan, name: file.name, file: bytes };
      title.textContent = summary(plan, about.gpus.length);
      size.value = formatBytes(usual(plan));
      note(plan);
      weigh();
      asked.hidden = form.hidden = false;
      size.focus();
    });
  /** @param {Event} event */
  function run(event) {
    event.preventDefault();
    guarded(async () => {
      if (!taken) return;
      const { plan, name, file } = taken;
      const workbench = await show(plan, { name, file, size: sizeBytes(size.value) });
      workbench.session.show(`the plan “${plan.name}” at its start`);
    });
  }
  /** @param {Plan} plan @param {SharedPlan} shared */
  async function show(plan, shared) {
    const { kernel, columns: given } = await planKernel(page, columns, plan, shared);
    note(plan);
    own.hidden = false;
    return open(kernel, given);
  }
  function close() {
    form.hidden = true;
  }
  /** Show the run of a plan that somebody has shared. @param {SharedPlan} shared */
  const openPlan = (shared) => show(read(shared.file, shared.name), shared);
  /** Show the run that the page was made of. */
  async function openOwn() {
    own.hidden = true;
    return open(await createKernel(page, columns), columns);
  }
  return { buttons: able ? [button, own, chooser] : [], form, take, openPlan, openOwn };
}
