// @ts-check
// Watches whether the kernel still answers: a kernel that has died or is busy is reported, not hidden.

const PATIENCE_MS = 6000;
/** @type {Record<string, string>} */
const GONE = {
  dead: "the kernel has died",
  terminating: "the kernel has been shut down",
  restarting: "the kernel has died, or was restarted",
  autorestarting: "the kernel has died and was restarted",
};
const HINT = "this is the last picture: run the cells again, or Workbench.load(path) if the session was saved";

/**
 * Call `report(text, gone)` when something is wrong with the kernel, and with an empty text when nothing is any more.
 * @param {import("./types").Model} model
 * @param {(text: string, gone: boolean) => void} report
 */
export function watchKernel(model, report) {
  const kernel = model.widget_manager?.kernel;
  let timer = 0;
  let gone = false;
  /** @type {(sender: unknown, now: string) => void} */
  const status = (_, now) => {
    if (!GONE[now] || gone) return;
    gone = true;
    report(`${GONE[now]}; ${HINT}`, true);
  };
  /** @type {(sender: unknown, now: string) => void} */
  const connection = (_, now) => {
    if (!gone && now === "disconnected") report("the connection to the kernel is lost; reconnecting", false);
    else if (!gone && now === "connected") report("", false);
  };
  kernel?.statusChanged?.connect(status);
  kernel?.connectionStatusChanged?.connect(connection);
  return {
    /** Something was asked that is always answered. */
    asked() {
      if (gone || timer) return;
      timer = setTimeout(() => {
        report(`no answer for ${PATIENCE_MS / 1000} s: the kernel is busy with a cell (interrupt it to go on), or has died`, false);
      }, PATIENCE_MS);
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
    },
  };
}
