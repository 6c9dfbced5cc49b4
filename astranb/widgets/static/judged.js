// @ts-check
// A page about models of a corpus: corpus_page.py writes it, with what it shows.

import { load } from "./loader.js";
import { followTheme, read } from "./packed.js";

/** @import { JudgedRecording } from "./types" */

/** Show the page's reports. @param {HTMLElement} host @param {string} text */
export async function openPage(host, text) {
  followTheme();
  const { header } = await read(text);
  const { modules, title, judged } = /** @type {JudgedRecording} */ (header);
  /** @type {typeof import("./quality.js")} */
  const { createQuality } = await load(modules, "quality");
  host.replaceChildren(createQuality(title, judged));
}
