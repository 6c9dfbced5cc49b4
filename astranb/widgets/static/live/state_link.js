// @ts-check
// A state as a link to this page: what is behind `#state=` in its address. Unpacked it is a line of JSON, and one with
// the plan that runs, if one was opened on the page.

import { InputError } from "./errors.js";
import { checkedPlan, lineOf } from "./shared_plan.js";
import { checkedState } from "./shared_state.js";

/** @import { SharedPlan, SharedState } from "./types" */

const BEGIN = "#state=";
const MOST = 8192; // characters that every program passes on
const MOST_UNPACKED = 1032 * MOST; // deflate packs nothing smaller
const OF_ANOTHER = "this link belongs to another page: its run or its version of astranb is another one";
const VERSION = 1;

/** @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream @param {CompressionStream | DecompressionStream} by */
const through = async (stream, by) => new Uint8Array(await new Response(stream.pipeThrough(by)).arrayBuffer());

/**
 * The fragment of a link to a state.
 * @param {SharedState} state
 * @param {string} inputs hash of the page's inputs
 * @param {SharedPlan} [plan] that runs
 */
export async function linkOf(state, inputs, plan) {
  const lines = [JSON.stringify({ version: VERSION, inputs, state, plan: plan && { name: plan.name, size: plan.size } })];
  const fits = !plan || plan.file.length <= MOST_UNPACKED;
  if (plan && fits) lines.push(lineOf(plan));
  const packed = await through(new Blob([lines.join("\n")]).stream(), new CompressionStream("deflate-raw"));
  const letters = btoa(Array.from(packed, (byte) => String.fromCharCode(byte)).join(""));
  const fragment = BEGIN + letters.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  if (!fits || fragment.length > MOST) {
    throw new InputError(`${plan ? "this plan" : "this state"} is too large for a link`, { hint: "save it as a file, and send that with the page" });
  }
  return fragment;
}

/**
 * The state that a page's address names, and the plan that it is of; null: none.
 * @param {string} fragment
 * @param {string} inputs hash of the page's inputs
 * @returns {Promise<{ state: SharedState, plan: SharedPlan | null } | null>}
 */
export async function stateOfLink(fragment, inputs) {
  if (!fragment.startsWith(BEGIN)) return null;
  const [found, text] = await unpacked(fragment);
  if (found?.version !== VERSION || found.inputs !== inputs) throw new InputError(OF_ANOTHER);
  return { state: checkedState(found.state), plan: checkedPlan(found.plan, text) };
}

/** What is in a fragment: the value of its first line, and the second one. @param {string} fragment @returns {Promise<[found: any, text: string | undefined]>} */
async function unpacked(fragment) {
  try {
    if (fragment.length > MOST) throw new Error("too long");
    const letters = atob(fragment.slice(BEGIN.length).replace(/-/g, "+").replace(/_/g, "/"));
    const packed = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const [first, second] = new TextDecoder().decode(await through(new Blob([packed]).stream(), new DecompressionStream("deflate-raw"))).split("\n");
    return [JSON.parse(first), second];
  } catch {
    throw new InputError("this link is damaged", { hint: "copy the whole of it" });
  }
}
