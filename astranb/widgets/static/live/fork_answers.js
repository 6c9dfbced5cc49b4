// @ts-check
// The question behind the button Fork: counterpart of `fork` in widgets/views/change.py.

import { InputError } from "./errors.js";
import { optional } from "./options.js";

/** @import { Answers, Feed } from "./types" */

/** @type {Answers<Feed>} */
export const forking = {
  /** Fork with changes, and show the two beside each other; what is wrong is the answer's error. */
  async fork({ workbench }, options) {
    const changes = optional(options, "changes", null);
    if (typeof changes !== "object" || !changes || Array.isArray(changes)) throw new InputError("a fork needs changes", { where: "fork" });
    if (!workbench) throw new InputError("no workbench shows this run", { where: "fork" });
    await workbench.fork(/** @type {Record<string, unknown>} */ (changes));
    return [{ made: true }, []];
  },
};
