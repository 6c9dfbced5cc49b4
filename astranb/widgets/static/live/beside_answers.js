// @ts-check
// A run beside this one: counterpart of `fork` in widgets/views/change.py, and of widgets/views/compare.py.

import { difference } from "./compare.js";
import { InputError } from "./errors.js";
import { needsPython } from "./needs.js";
import { optional } from "./options.js";

/** @import { Answers } from "./types" */

/** @type {Answers} */
export const beside = {
  /** Fork with changes, and show the two beside each other; what is wrong is the answer's error. */
  fork({ workbench }, options) {
    const changes = optional(options, "changes", null);
    if (typeof changes !== "object" || !changes || Array.isArray(changes)) throw new InputError("a fork needs changes", { where: "fork" });
    if (!workbench) throw new InputError("no workbench shows this run", { where: "fork" });
    workbench.fork(/** @type {Record<string, unknown>} */ (changes));
    return [{ made: true }, []];
  },
  /** The difference between this run and the one beside it, at the view's cursor. */
  difference({ live, session, workbench }, { part, at_ps }) {
    if (!workbench?.linked) return [{ other: false }, []];
    if (part) {
      workbench.part();
      return [{ other: false }, []];
    }
    if (live.engine !== "cacheline") needsPython("difference");
    const { a, b } = workbench.linked;
    const now = session.running || typeof at_ps !== "number" || at_ps < 0;
    return [{ other: true, ...difference(a.sim, b.sim, now ? null : Math.trunc(at_ps)) }, []];
  },
};
