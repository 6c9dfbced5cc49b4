// @ts-check
// The page's machine as a plan needs it: its tables at the start, and what they do not hold (widgets/live/plan_machine.py).

import { lanesOf } from "./routes.js";
import { allocate, createTables, fill } from "./tables.js";

/** @import { Lanes } from "./routes.js" */
/** @import { Live, Tables } from "./types" */

/**
 * The numbers of a GPU that the layout of a program depends on, by the names of gpu/presets.py.
 * @typedef {{
 *   name: string, line_bytes: number, l2_bytes: number, l2_ways: number, near_bytes: number, far_ps: number, hbm_bytes: number,
 *   access_lines: number, unroll: number, warps_per_block: number, bulk_lines: number, issue_lines: number, max_outstanding: number,
 *   blocks_on_sm: number, engine_lines: number, engine_outstanding: number, nic_lines: number, nic_outstanding: number, nic_post_ps: number,
 * }} PlanGpu
 */
/** One value for all ranks, or one for each. @typedef {number[]} Alike */
/** @typedef {{ kinds: PlanGpu[], of_rank: Alike }} PlanGpus */
/**
 * What widgets/live/plan_machine.py writes.
 * @typedef {{
 *   title: string, per_node: number, rdma: boolean, gpus: PlanGpus, exact: PlanGpus | null, coalesce: number, launch_ps: Alike,
 *   fault_ps: number[], slow_faults: boolean, proxy_ps: number, proxied: number[], failed: string[], cut_off: number[],
 * }} Described
 */
/**
 * `links` are those between devices, `lanes` are these at the start, `gpus` are the nodes of the ranks.
 * @typedef {{
 *   base: Tables, ranks: number, links: number, lineBytes: number, gpus: number[], nodes: string[], title: string, failed: string[],
 *   cut_off: number[], joined: { perNode: number, rdma: boolean }, coalesce: number, launch_ps: number[], late_ps: number[],
 *   fault_ps: number[], slowFaults: boolean, lanes: Lanes, presets: (exact: boolean) => PlanGpu[],
 * }} PlanMachine
 */

const BASE = new Set(["clock", "gpus", "sms", "hbm_channels", "links", "queues", "roce", "faults", "recorder", "current"]);

/**
 * @param {Live} live
 * @param {Uint8Array[]} columns
 * @returns {PlanMachine}
 */
export function machineOf(live, columns) {
  const layouts = live.tables.filter(({ name }) => BASE.has(name));
  const base = createTables(allocate(layouts), layouts);
  for (const { name, parts, data } of layouts) fill(base[name], parts, columns[data]);
  const { nodes, gpus, late_ps } = live.about;
  const described = /** @type {Described} */ (live.about.machine);
  const links = base.recorder.at.links(0);
  /** @param {Alike} values */
  const each = (values) => gpus.map((/** @type {number} */ _, /** @type {number} */ rank) => values[rank] ?? values[0]);
  return {
    base, nodes, gpus, ranks: gpus.length, links, lineBytes: base.gpus.column("line_bytes").reduce((least, one) => Math.min(least, one)),
    title: described.title, failed: described.failed, cut_off: described.cut_off, coalesce: described.coalesce,
    joined: { perNode: described.per_node, rdma: described.rdma },
    launch_ps: each(described.launch_ps), late_ps: each(late_ps.length ? late_ps : [0]), fault_ps: described.fault_ps, slowFaults: described.slow_faults,
    lanes: lanesOf(base.links, links, described),
    presets(exact) {
      const { kinds, of_rank } = (exact && described.exact) || described.gpus;
      return each(of_rank).map((/** @type {number} */ kind) => kinds[kind]);
    },
  };
}
