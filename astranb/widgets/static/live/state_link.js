// @ts-check
// A state as a link to this page: what is behind `#state=` in its address.

import { InputError } from "./errors.js";
import { checkedState } from "./shared_state.js";

/** @import { SharedState } from "./types" */

const BEGIN = "#state=";
const MOST = 8192; // characters that every program passes on
const OF_ANOTHER = "this link belongs to another page: its run or its version of astranb is another one";
const VERSION = 1;

/** @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream @param {CompressionStream | DecompressionStream} by */
const through = async (stream, by) => new Uint8Array(await new Response(stream.pipeThrough(by)).arrayBuffer());

/**
 * The fragment of a link to a state.
 * @param {SharedState} state
 * @param {string} inputs hash of the page's inputs
 */
export async function linkOf(state, inputs) {
  const text = JSON.stringify({ version: VERSION, inputs, state });
  const packed = await through(new Blob([text]).stream(), new CompressionStream("deflate-raw"));
  const letters = btoa(Array.from(packed, (byte) => String.fromCharCode(byte)).join(""));
  const fragment = BEGIN + letters.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  if (fragment.length > MOST) {
    throw new InputError("this state is too large for a link", { hint: "save it as a file, and send that with the page" });
  }
  return fragment;
}

/**
 * The state that a page's address names; null: none.
 * @param {string} fragment
 * @param {string} inputs hash of the page's inputs
 * @returns {Promise<SharedState | null>}
 */
export async function stateOfLink(fragment, inputs) {
  if (!fragment.startsWith(BEGIN)) return null;
  let found;
  try {
    if (fragment.length > MOST) throw new Error("too long");
    const letters = atob(fragment.slice(BEGIN.length).replace(/-/g, "+").replace(/_/g, "/"));
    const packed = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const text = await through(new Blob([packed]).stream(), new DecompressionStream("deflate-raw"));
    found = JSON.parse(new TextDecoder().decode(text));
  } catch {
    throw new InputError("this link is damaged", { hint: "copy the whole of it" });
  }
  if (found?.version !== VERSION || found.inputs !== inputs) throw new InputError(OF_ANOTHER);
  return checkedState(found.state);
}
