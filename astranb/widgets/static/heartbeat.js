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
      timer ||= setTimeout(() => {
        report(`no answer for ${PATIENCE_MS / 1000} s: the kernel is busy with a cell (interrupt it to go on), or has died`, false);
      }, PATIENCE_MS);
      model.send(message);
    },
    /** Something has come from the kernel. */
    heard() {
      clearTimeout(timer);
      if (timer && !gone) report("", false);
      timer = 0;
    },
    stop() {
      clearTimeout(timer);
      kernel?.statusChanged?.disconnect(status);
      kernel?.connectionStatusChanged?.disconnect(connection);
      kernel?.disposed?.disconnect(disposed);
    },
  };
}
