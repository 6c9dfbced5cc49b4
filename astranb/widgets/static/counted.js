// @ts-check
// A page of statistics: statistics_page.py writes it, with what it shows.

import { load } from "./loader.js";
import { followTheme, read } from "./packed.js";

/** @import { CountedRecording } from "./types" */

/** Show the page's statistics. @param {HTMLElement} host @param {string} text */
export async function openPage(host, text) {
  followTheme();
  const { header } = await read(text);
  const { modules, title, counted } = /** @type {CountedRecording} */ (header);
  /** @type {typeof import("./statistics.js")} */
  const { createStatistics } = await load(modules, "statistics");
  host.replaceChildren(createStatistics(title, counted));
}
