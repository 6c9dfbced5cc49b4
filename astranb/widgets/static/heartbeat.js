// @ts-check
// Sends to the kernel, and watches whether it still answers: a kernel that has died or is busy is reported, not hidden.

const PATIENCE_MS = 6000;
/** @type {Record<string, string>} */
const GONE = {
  dead: "the kernel has died",
  terminating: "the kernel has been shut down",
  restarting: "the kernel has died, or was restarted",
  autorestarting: "the kernel has died and was restarted",
};
const BUSY = "the kernel is busy with a cell (interrupt it to go on), or has died";
const CLOSED = "the kernel has been shut down, or the notebook has changed to another";

/** @import { Model, ToKernel } from "./types" */

/**
 * Call `report(text, gone)` when something is wrong with the kernel, and with an empty text when nothing is any more.
 * @param {Model<any>} model
 * @param {(text: string, gone: boolean) => void} report
 */
export function watchKernel(model, report) {
  const kernel = model.widget_manager?.kernel;
  let timer = 0;
  let gone = false;
  let asked = 0; // messages that are always answered
  let handled = 0; // how many of them the kernel is known to have handled
  let since = false; // something has come since the timer was set for a message
  function wait() {
    timer = setTimeout(() => {
      report(`no answer for ${PATIENCE_MS / 1000} s: ${model.busy ?? BUSY}`, false);
    }, PATIENCE_MS);
  }
  function rest() {
    clearTimeout(timer);
    if (timer && !gone) report("", false);
    timer = 0;
  }
  /** The kernel has handled a message, and all before it. @param {number} number */
  function acknowledge(number) {
    handled = Math.max(handled, number);
    if (handled === asked && since) rest();
  }
  /** @param {string} why */
  function end(why) {
    if (gone) return;
    gone = true;
    clearTimeout(timer);
    report(why, true);
  }
  /** @type {(sender: unknown, now: string) => void} */
  const status = (_, now) => GONE[now] && end(GONE[now]);
  const disposed = () => end(CLOSED);
  /** @type {(sender: unknown, now: string) => void} */
  const connection = (_, now) => {
    if (!gone && now === "disconnected") report("the connection to the kernel is lost; reconnecting", false);
    else if (!gone && now === "connected") report("", false);
  };
  kernel?.statusChanged?.connect(status);
  kernel?.connectionStatusChanged?.connect(connection);
  kernel?.disposed?.connect(disposed);
  return {
    /** Send a message; a kernel that is gone gets none. @param {ToKernel} message */
    send(message) {
      if (!gone) model.send(message);
    },
    /** Send the values that were set. */
    save() {
      if (!gone) model.save_changes();
    },
    /** Send a message that is always answered. @param {ToKernel} message */
    ask(message) {
      if (gone) return;
      const number = (asked += 1);
      if (!timer) {
        since = false;
        wait();
      }
      // Jupyter's kernels say of each message when they have handled it; other hosts need not know of this argument.
      /** @param {{ content: { execution_state: string } }} message */
      const said = ({ content }) => content.execution_state === "idle" && acknowledge(number);
      if (kernel) model.send(message, { iopub: { status: said } });
      else model.send(message);
    },
    /** Something has come from the kernel. */
    heard() {
      rest();
      since = true;
      // It may be the answer to an earlier question, which lay in the page when the kernel was busy already.
      if (kernel && !gone && handled < asked) wait();
    },
    stop() {
      clearTimeout(timer);
      kernel?.statusChanged?.disconnect(status);
      kernel?.connectionStatusChanged?.disconnect(connection);
      kernel?.disposed?.disconnect(disposed);
    },
  };
}
