// @ts-check
// The question behind the button Fork: counterpart of `fork` in widgets/views/change.py.

import { InputError } from "./errors.js";

/** @import { Answers } from "./types" */

/** @type {Answers} what is wrong is the answer's error */
export const FORKING = {
  fork(feed, { changes }) {
    if (typeof changes !== "object" || !changes || Array.isArray(changes)) throw new InputError("a fork needs changes", { where: "fork" });
    if (!feed.workbench) throw new InputError("no workbench shows this run", { where: "fork" });
    feed.workbench.fork(changes);
    return [{ made: true }, []];
  },
};
