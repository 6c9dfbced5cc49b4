// @ts-check
// Families of links (NVLink, PCIe, Ethernet, ...): each has a dash and a tone of its own.

import { trace } from "./edges.js";
import { fit, make, makeKey } from "./theme.js";

/** @import { Context, Edge } from "./types" */

/** @type {Record<string, { tone: string, dash: number[], width?: number }>} tones that show on light and on dark ground */
const FAMILIES = {
  NVLink: { tone: "#7aa35c", dash: [] },
  xGMI: { tone: "#c0854f", dash: [] },
  ICI: { tone: "#7aa35c", dash: [] },
  PCIe: { tone: "#a37cc0", dash: [6, 3] },
  Ethernet: { tone: "#4f94c4", dash: [10, 3, 2, 3], width: 1.5 },
  InfiniBand: { tone: "#3fa39b", dash: [10, 3, 2, 3, 2, 3], width: 1.5 },
  UPI: { tone: "#a37cc0", dash: [2, 3] },
  QPI: { tone: "#a37cc0", dash: [2, 3] },
  "on-chip": { tone: "#909090", dash: [1, 3] },
};
const OTHER = { tone: "#909090", dash: [] };

/** Set how links of a family are stroked. @param {Context} context @param {string} family */
function style(context, family) {
  const { tone, dash, width = 1 } = FAMILIES[family] ?? OTHER;
  context.strokeStyle = tone;
  context.lineWidth = width;
  context.setLineDash(dash);
}

/** @param {Context} context @param {Edge} edge @param {string} family */
export function strokeLink(context, edge, family) {
  style(context, family);
  trace(context, edge);
  context.setLineDash([]);
}

/** Entries of a legend for the families that there are. @param {string[]} families */
export function familyKeys(families) {
  return [...new Set(families)].sort().map((family) => {
    const sample = make("canvas", { class: "anb-family", "data-family": family });
    const context = fit(sample, 26, 8);
    strokeLink(context, { x: 0, y: 4, ux: 1, uy: 0, length: 26 }, family);
    return makeKey(sample, family === "unspecified" ? "link" : family);
  });
}
