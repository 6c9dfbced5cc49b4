// @ts-check
// The workbench of a page that simulates, with what is above it.

import { createKernel } from "./kernel.js";
import { createPageControls } from "./page_controls.js";
import { PageWorkbench } from "./page_workbench.js";
import { createPlanControl } from "./plan_control.js";
import { isSamePlan } from "./shared_plan.js";
import { enterState } from "./shared_state.js";

/** @import { LiveHeader } from "../types" */
/** @import { Modelled } from "./page_workbench.js" */
/** @import { PageKernel, SharedPlan } from "./types" */
/** @typedef {(place: { model: import("../types").Model, el: HTMLElement, host: import("../types").Host }) => Promise<() => void>} Render */

/**
 * Open a page's simulation.
 * @param {HTMLElement} host
 * @param {LiveHeader} page
 * @param {DataView[]} columns
 * @param {(kernel: PageKernel) => Modelled} modelled makes a model whose messages go to a kernel
 * @param {Render} render shows a workbench
 */
export async function openSimulation(host, page, columns, modelled, render) {
  const place = document.createElement("div");
  /** @type {PageWorkbench} */
  let current;
  let leave = () => {};
  let { panels, sizes, redraw_hz } = page.state.shown; // which a plan's run takes over
  /** @param {PageWorkbench} one @param {{ el: HTMLElement, signal?: AbortSignal }} where */
  async function show(one, { el, signal }) {
    const stop = await render({ model: one.model, el, host: one.host(show) });
    signal?.addEventListener("abort", stop);
  }
  /** Show a run in the place of the one that is shown. @param {PageKernel} kernel @param {DataView[]} own */
  async function open(kernel, own) {
    leave();
    const shown = new AbortController();
    const workbench = new PageWorkbench(kernel, modelled, own);
    const { model } = workbench;
    model.set("_panels", panels);
    model.set("_sizes", sizes);
    model.set("_redraw_hz", redraw_hz);
    leave = () => {
      [panels, sizes, redraw_hz] = [model.get("_panels") ?? {}, model.get("_sizes") ?? {}, model.get("_redraw_hz")];
      shown.abort();
      workbench.part();
      workbench.close();
      place.replaceChildren();
    };
    await show(workbench, { el: place, signal: shown.signal });
    return (current = workbench);
  }
  const plans = createPlanControl(page, columns, open);
  /** Show the run of a plan, or the page's own, unless it is shown already. @param {SharedPlan | null} [plan] */
  async function showRun(plan) {
    if (isSamePlan(plan, current.sim.engine.live.plan)) return current;
    return plan ? plans.openPlan(plan) : plans.openOwn();
  }
  const { element, enterLink } = createPageControls({ inputs: page.live.inputs, plans, current: () => current, show: showRun });
  host.replaceChildren(element, plans.form, place);
  current = await open(await createKernel(page, columns), columns);
  async function enterOwn() {
    const { kernel, model } = await showRun();
    await enterState(kernel, model, page.state, "ready");
  }
  try {
    if (!(await enterLink())) await enterOwn();
  } catch (error) {
    await enterOwn(); // what is wrong with the link is no reason to show nothing
    current.session.show(error instanceof Error ? error.message : String(error), true);
  }
}
