// @ts-check
// A plan on the machine of a page: from the bytes of a file to what a page's kernel is made of.

import { InputError } from "./errors.js";
import { createKernel } from "./kernel.js";
import { describe } from "./plan_about.js";
import { build } from "./plan_build.js";
import { lower } from "./plan_lower.js";
import { machineOf } from "./plan_machine.js";
import { costOf, cutsOf } from "./plan_pieces.js";
import { Program } from "./plan_program.js";
import { savedFile } from "./plan_saved.js";
import { formatBytes } from "./units.js";

/** @import { Chunk, Plan } from "./plan.js" */
/** @import { Layout, Live, PageKernel, SharedPlan } from "./types" */

const POSTED_LINES = 2048; // that an SM has under way where it stores packets to other nodes
const UNEVEN = "pipelines have iterations of equal parts of a chunk: unit_size does not cut it into lines";
const ROUTED = ["dispatch", "combine"];
/** What a page fills with zeros by itself. */
const EMPTY = new Set(["flights", "bursts", "activity", "trace", "control", "breaks"]);

/**
 * Check a plan's collective and size, as it runs: its name there, and its protocol.
 * @param {Plan} plan
 * @param {number} size bytes of the larger buffer of a rank
 */
function checked(plan, size) {
  const collective = plan.collective ?? "custom";
  if (ROUTED.includes(collective)) {
    const hint = `use astranb.collectives.${collective}, or astranb run --collective ${collective} --tokens N`;
    throw new InputError(`a ${collective} depends on the experts of each token`, { where: "collective", hint });
  }
  if (!Number.isSafeInteger(size) || size < 1) throw new InputError("size must be at least 1 B", { where: "size" });
  if (size < plan.minBytes || (plan.maxBytes !== null && size > plan.maxBytes)) {
    const most = plan.maxBytes === null ? "any size" : `${plan.maxBytes} B`;
    const note = `${size} B is outside the range of the plan, ${plan.minBytes} B to ${most}`;
    if (!plan.notes.includes(note)) plan.notes.push(note);
  }
  return collective;
}

/** As titles have it. @param {Plan} plan @param {string} collective */
const titleOf = ({ name, protocol }, collective) => `${collective}/${name}${protocol === "Simple" ? "" : `/${protocol}`}`;

/**
 * The program of a plan for a size.
 * @param {Plan} plan @param {string} collective @param {number} size @param {{ perNode: number, rdma: boolean }} joined @param {number} ranks
 */
function programOf(plan, collective, size, joined, ranks) {
  const { parts, inputs, outputs } = plan.parts(collective, ranks);
  costOf(plan, size); // refuses what a page has no memory for
  const { cut, loops, uneven } = cutsOf(plan, size);
  if (uneven && !plan.notes.includes(UNEVEN)) plan.notes.push(UNEVEN);
  const program = new Program({ name: titleOf(plan, collective), ranks, protocol: plan.protocol, joined });
  [program.inputs, program.outputs, program.width] = [inputs, outputs, parts * plan.slices * cut];
  /** @param {Chunk} chunk @param {number} piece @returns {Chunk} */
  const moved = ({ rank, buffer, index, channel }, piece) => {
    if (buffer !== "input" && buffer !== "output") return { rank, buffer, index, channel: channel * cut + piece };
    return { rank, buffer, index: Math.floor(index / parts), channel: ((index % parts) * plan.slices + channel) * cut + piece };
  };
  program.add(plan.blocks, moved, cut, loops);
  return program;
}

/**
 * The kernel of a plan on the machine of a page.
 * @param {{ live: Live }} header of the page
 * @param {DataView[]} columns of the page
 * @param {Plan} plan
 * @param {SharedPlan} shared its file, and bytes of the larger buffer of a rank
 * @returns {Promise<{ kernel: PageKernel, columns: DataView[] }>}
 */
export async function planKernel(header, columns, plan, shared) {
  const own = planned(header, columns, plan, shared.size);
  own.live.plan = shared;
  return { kernel: await createKernel(own, own.columns), columns: own.columns };
}

/**
 * What a page of a plan is given.
 * @param {{ live: Live }} header of the page
 * @param {DataView[]} columns of the page
 * @param {Plan} plan
 * @param {number} size bytes of the larger buffer of a rank
 * @returns {{ live: Live, columns: DataView[] }}
 */
function planned({ live }, columns, plan, size) {
  const collective = checked(plan, size);
  const machine = machineOf(live, columns.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)));
  const title = titleOf(plan, collective);
  const [coalesced] = machine.presets(false);
  if (size > coalesced.hbm_bytes) {
    const what = `a buffer of ${formatBytes(size)}, the memory of a ${coalesced.name} is ${formatBytes(coalesced.hbm_bytes)}`;
    throw new InputError(what, { where: title, hint: "reduce the size" });
  }
  const program = programOf(plan, collective, size, machine.joined, machine.ranks);
  let presets = machine.presets(false);
  let lowered = lower(program, collective, size, presets[0]);
  const exact = lowered.flags > 0 && machine.coalesce > 1; // packets always travel line by line
  if (exact) {
    presets = machine.presets(true);
    lowered = lower(program, collective, size, presets[0]);
  }
  program.blocks.length = 0; // of a large plan the operations take as much memory as the machine
  const { perNode, rdma } = machine.joined;
  const posted = rdma && perNode < machine.ranks && plan.protocol !== "Simple" ? Math.ceil(POSTED_LINES / (exact ? 1 : machine.coalesce)) : 0;
  presets = presets.map((preset) => ({ ...preset, max_outstanding: Math.max(preset.max_outstanding, posted) }));
  presets.forEach((preset, rank) => {
    const taken = lowered.lines[rank] * preset.line_bytes;
    if (taken <= preset.hbm_bytes) return;
    const what = `the buffers of rank ${rank} take ${formatBytes(taken)}, the memory of a ${preset.name} is ${formatBytes(preset.hbm_bytes)}`;
    throw new InputError(what, { where: title, hint: "reduce the size" });
  });
  const { layouts, tables, through } = build(machine, presets, lowered, title, live.tables);
  const found = [columns[live.wasm]];
  /** @type {Layout[]} */
  const sent = layouts.map((layout) => {
    if (EMPTY.has(layout.name)) return { ...layout, parts: [], data: 0 };
    const { buffer, byteOffset, byteLength } = tables[layout.name].bytes();
    return { ...layout, parts: null, data: found.push(new DataView(buffer, byteOffset, byteLength)) - 1 };
  });
  const run = { plan, collective, size, title, program, lowered, tables, through, presets, together: exact ? 1 : machine.coalesce };
  const saved = savedFile(live, run, ({ buffer }) => found.push(new DataView(buffer)) - 1);
  return { live: { ...live, ...describe(live, run), saved, wasm: 0, tables: sent }, columns: found };
}
