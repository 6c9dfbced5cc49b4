// @ts-check
// The workbench of a page that simulates, with what is above it.

import { createKernel } from "./kernel.js";
import { createPageControls } from "./page_controls.js";
import { PageWorkbench } from "./page_workbench.js";
import { enterState } from "./shared_state.js";

/** @import { LiveHeader } from "../types" */
/** @import { Modelled } from "./page_workbench.js" */
/** @import { PageKernel } from "./types" */
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
  const workbench = new PageWorkbench(await createKernel(page, columns), modelled, columns);
  const { element, openLink } = createPageControls(workbench, columns.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)));
  const place = document.createElement("div");
  host.replaceChildren(element, place);
  /** @param {PageWorkbench} one @param {{ el: HTMLElement, signal?: AbortSignal }} where */
  async function show(one, { el, signal }) {
    const stop = await render({ model: one.model, el, host: one.host(show) });
    signal?.addEventListener("abort", stop);
  }
  await show(workbench, { el: place });
  if (window.location.hash) await openLink();
  else await enterState(workbench.kernel, workbench.model, page.state, "ready");
}
