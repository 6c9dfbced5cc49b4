// @ts-check
// What differs between a run and the one beside it: counterpart of widgets/views/compare.py.

import { difference } from "./difference.js";
import { truthy } from "./options.js";

/** @import { Answers, Feed } from "./types" */

/** @type {Answers<Feed>} */
export const comparison = {
  difference({ session, workbench }, options) {
    const beside = workbench?.linked;
    if (!workbench || !beside) return [{ other: false }, []];
    if (truthy(options.part)) {
      workbench.part();
      return [{ other: false }, []];
    }
    const at_ps = session.running || typeof options.at_ps !== "number" ? null : options.at_ps;
    return [{ other: true, ...difference(beside.a.sim, beside.b.sim, at_ps) }, []];
  },
};
