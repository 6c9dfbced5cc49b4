// @ts-check
// The operations of a rank by module, and how far each module is: counterpart of widgets/views/modules.py.

import { pack } from "../messages.js";
import { createModuleAnswers } from "../module_answers.js";
import { needsPython } from "./needs.js";
import { STATES } from "./operations_about.js";
import { int, optional } from "./options.js";
import { str } from "./text.js";

/** @import { OperationFeed } from "./operations_feed.js" */
/** @import { Answers } from "./types" */
/** @typedef {ReturnType<typeof createModuleAnswers>} Modules */

const [WAITING, READY, RUNNING, DONE] = STATES.keys();

/** @type {WeakMap<OperationFeed, Map<number, Modules>>} by rank */
const kept = new WeakMap();

/** @param {OperationFeed} feed @param {Record<string, unknown>} options */
const rankOf = (feed, options) => Math.min(Math.max(0, int(optional(options, "rank", 0))), feed.engineAt().ranks - 1);

/** The modules of a rank. @param {OperationFeed} feed @param {number} rank */
function modulesOf(feed, rank) {
  const ranks = kept.get(feed) ?? new Map();
  kept.set(feed, ranks);
  if (!ranks.has(rank)) {
    const { about } = feed.engineAt();
    const tree = about.trees[about.tree_of[rank]] ?? needsPython(`modules of rank ${rank}`);
    const rows = about.rows_of(rank);
    const facts = (/** @type {number} */ row) => [["operation", about.text(rows[row])], ["path", about.path(rows[row])]];
    ranks.set(rank, createModuleAnswers({ ...tree.about, title: `rank ${rank}` }, tree, tree.buffers, facts));
  }
  return /** @type {Modules} */ (ranks.get(rank));
}

/** @type {Answers<OperationFeed>} */
export const modules = {
  modules: (feed, options) => [modulesOf(feed, rankOf(feed, options)).about, []],
  module: (feed, options) => modulesOf(feed, rankOf(feed, options)).module(int(optional(options, "module", 0))),
  module_detail: (feed, options) => [modulesOf(feed, rankOf(feed, options)).detail(int(optional(options, "entity", -1))), []],
  module_search: (feed, options) => [modulesOf(feed, rankOf(feed, options)).search(str(optional(options, "text", ""))), []],

  /** How far the children of some modules of a rank are at the cursor. */
  module_states(feed, options) {
    const rank = rankOf(feed, options);
    const { about, children, counts } = modulesOf(feed, rank);
    const engine = feed.engineAt(optional(options, "at_ps", null));
    const times = engine.times_ps();
    const now = engine.about.rows_of(rank).map((row) => engine.state(row, times));
    const all = counts(() => true);
    const asked = optional(options, "modules", [0]).map(int).filter((/** @type {number} */ one) => one >= 0 && one < about.modules);
    /** @type {number[]} */
    const entity = asked.flatMap((/** @type {number} */ one) => Array.from(children(one)));
    const [ready, running, done] = [READY, RUNNING, DONE].map((state) => {
      const inside = counts((row) => now[row] === state);
      return entity.map((one) => (one < about.modules ? inside[one] : Number(now[one - about.modules] === state)));
    });
    const total = entity.map((one) => (one < about.modules ? all[one] : 1));
    const state = entity.map((_, at) => {
      if (running[at] > 0) return RUNNING;
      if (done[at] === total[at]) return DONE;
      return ready[at] > 0 ? READY : WAITING;
    });
    return [{ rank }, pack("module_states", { entity, state, done, running, total })];
  },
};
