// @ts-check
// A workbench of a page: its model, its kernel, and the run beside it. Counterpart of widgets/workbench.py.

import { kernelOf } from "./kernel.js";
import { LinkedClock } from "./linked_clock.js";
import { needsPython } from "./needs.js";

/** @import { Host, Model } from "../types" */
/** @import { PageKernel, Sim } from "./types" */
/** @import { Stop } from "./stop.js" */
const FORKING = { status: "copying the run", of: "run" };

/** @typedef {{ model: Model, send: (message: object, buffers?: DataView[]) => void }} Modelled */

export class PageWorkbench {
  /**
   * @param {PageKernel} kernel
   * @param {(kernel: PageKernel) => Modelled} modelled makes a model whose messages go to a kernel
   * @param {DataView[]} columns
   */
  constructor(kernel, modelled, columns) {
    this.kernel = kernel;
    this._modelled = modelled;
    this.columns = columns;
    const { model, send } = modelled(kernel);
    this.model = model;
    this._deafen = kernel.listen(send);
    this._detach = kernel.session.attach(() => this._changed());
    /** @type {Stop | null} */
    this._seen_hit = null;
    kernel.feed.workbench = this;
    /** With the run beside this one. @type {LinkedClock | null} */
    this.linked = null;
    this._forks = 0;
  }

  get sim() {
    return this.kernel.sim;
  }

  get session() {
    return this.kernel.session;
  }

  /** The columns that its run was given. */
  get bytes() {
    return this.columns.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength));
  }

  /** Where the workbench beside this one comes from. @param {(workbench: PageWorkbench, place: { el: HTMLElement, signal?: AbortSignal }) => Promise<unknown>} render @returns {Host} */
  host(render) {
    return {
      getWidget: async () => ({
        render: (place) => (this.linked ? render(this.linked.b, place) : Promise.resolve()),
      }),
    };
  }

  /** Select the object of a breakpoint that was hit. */
  _changed() {
    const { hit } = this.session;
    if (hit === this._seen_hit) return;
    this._seen_hit = hit;
    if (hit?.where) this.model.set("_selection", hit.where);
  }

  /** Have the cursor stay with the simulation. */
  follow() {
    this.model.set("_cursor_ps", -1);
  }

  /** @param {string} path */
  select(path) {
    if (path) this.sim.inspect(path); // refuses what there is not
    this.model.set("_selection", path);
  }

  /** Make another run with changes, and show it beside this one with the same clock. @param {Record<string, unknown>} changes */
  async fork(changes) {
    const whole = new Set((this.sim.engine.live.about.parameters ?? []).map((/** @type {{ path: string }} */ { path }) => path));
    for (const path of Object.keys(changes)) if (!path.includes(".") || whole.has(path)) needsPython(`fork with ${path}`);
    const other = await this.session.alone(FORKING, () => this.sim.fork());
    for (const [path, value] of Object.entries(changes)) other.set(path, value);
    this.compare(other);
  }

  /** Show another run beside this one, taken to the time of this one. @param {Sim} other */
  compare(other) {
    this.part();
    const beside = new PageWorkbench(kernelOf(other, this.columns), this._modelled, this.columns);
    this.linked = new LinkedClock(this, beside);
    this.linked.together();
    beside.model.set("_panels", { blocks: true, activity: false });
    this._forks += 1;
    this.model.set("_other", `fork ${this._forks}`);
    this.model.set("_panels", { ...this.model.get("_panels"), compare: true });
    this.session.publish();
  }

  /** Close the other run's view. */
  part() {
    const clock = this.linked;
    this.linked = null;
    if (!clock) return;
    clock.close();
    clock.b.close();
    this.model.set("_other", "");
  }

  close() {
    this.session.ask("pause");
    this._deafen();
    this._detach();
  }
}
