// Whether there is still somebody to answer: a kernel that has died or is busy is told, not hidden.

const PATIENCE_MS = 6000;
const GONE = {
  dead: "the kernel has died",
  terminating: "the kernel has been shut down",
  restarting: "the kernel has died, or was restarted",
  autorestarting: "the kernel has died and was restarted",
};
const HINT = "this picture is of before: run the cells again, or Workbench.load(path) if the session was saved";

/** Tell `say(text, gone)` what is wrong with the kernel; an empty text: nothing. */
export function watchKernel(model, say) {
  const kernel = model.widget_manager?.kernel;
  let timer = 0;
  let gone = false;
  const status = (_, now) => {
    if (!GONE[now] || gone) return;
    gone = true;
    say(`${GONE[now]}; ${HINT}`, true);
  };
  const connection = (_, now) => {
    if (!gone && now === "disconnected") say("the connection to the kernel is lost; it is being sought", false);
    else if (!gone && now === "connected") say("", false);
  };
  kernel?.statusChanged?.connect(status);
  kernel?.connectionStatusChanged?.connect(connection);
  return {
    /** Something was asked that is always answered. */
    asked() {
      if (gone || timer) return;
      timer = setTimeout(() => {
        say(`no answer for ${PATIENCE_MS / 1000} s: the kernel is busy with a cell (interrupt it to go on), or has died`, false);
      }, PATIENCE_MS);
    },
    /** Something has come from the kernel. */
    heard() {
      clearTimeout(timer);
      if (timer && !gone) say("", false);
      timer = 0;
    },
    stop() {
      clearTimeout(timer);
      kernel?.statusChanged?.disconnect(status);
      kernel?.connectionStatusChanged?.disconnect(connection);
    },
  };
}
