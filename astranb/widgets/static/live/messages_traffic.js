// @ts-check
// Traffic of ASTRA-sim 2.0's workloads by dimension: counterpart of engine/messages/traffic.py.

import { FULLY_CONNECTED } from "./dimension_links.js";
import { timePs } from "./operations_spans.js";

/** @import { OperationEngine } from "./operations_types" */

/** What was sent in a dimension; `utilisation` is the share of all its links' bandwidth. @param {OperationEngine} engine @param {number} dim */
export function dimensionRow(engine, dim) {
  const { dims, npus, traffic } = engine.tables;
  const { kind, nodes, rate_Bpns } = dims.at;
  const links = kind(dim) === FULLY_CONNECTED ? npus.rows * (nodes(dim) - 1) : 2 * npus.rows;
  const could = links * rate_Bpns(dim) * Math.max(1, Math.floor(timePs(engine) / 1000));
  const sums = { messages: 0, bytes: 0, crossed: 0 };
  if (engine.recording()) {
    for (let row = dim; row < traffic.rows; row += dims.rows) {
      sums.messages += traffic.at.messages(row);
      sums.bytes += traffic.at.bytes(row);
      sums.crossed += traffic.at.crossed(row);
    }
  }
  return { ...sums, links, utilisation: could ? sums.crossed / could : 0 };
}
