// @ts-check
// The graph of a rank's operations around now: counterpart of widgets/views/graph.py.

import { graphAnswer } from "../graph_layout.js";
import { int, optional } from "./options.js";
import { KINDS, STATES } from "./operations_about.js";
import { str } from "./text.js";
import { formatTime } from "./units.js";

/** @import { OperationFeed } from "./operations_feed.js" */
/** @import { Answers } from "./types" */

/** @type {Answers<OperationFeed>} */
export const graphs = {
  /** The operations of a rank around the cursor. */
  graph(feed, options) {
    const engine = feed.engineAt(options.at_ps);
    const { about } = engine;
    const rank = Math.min(Math.max(0, int(optional(options, "rank", 0))), engine.ranks - 1);
    const most = int(optional(options, "most", Infinity));
    const [rows, times] = [about.rows_of(rank), engine.times_ps()];
    const [path, head] = [str(optional(options, "path", "")), `rank[${rank}].op[`];
    const which = path.startsWith(head) ? path.slice(head.length).replace(/\]$/, "") : "";
    const centre = /^\d+$/.test(which) && Number(which) < rows.length ? rows[Number(which)] : -1;
    /** @param {number} row */
    function when(row) {
      const [start, end] = [times.start[row], times.end[row]];
      if (end >= 0) return `${formatTime(start)} to ${formatTime(end)}`;
      const [over, chunks] = engine.progress(row);
      return start >= 0 ? `since ${formatTime(start)}${chunks ? `, ${over} of ${chunks} chunks` : ""}` : "";
    }
    const graphed = {
      rows, parents: about.parents_of, children: about.children_of,
      state: (/** @type {number} */ row) => engine.state(row, times),
      end: (/** @type {number} */ row) => times.end[row],
      node: (/** @type {number} */ row) => ({ path: about.path(row), label: about.label(row), what: about.text(row), kind: KINDS[about.kind[row]], when: when(row) }),
    };
    return graphAnswer(rank, graphed, STATES, { most, centre });
  },
};
