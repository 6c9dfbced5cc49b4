// @ts-check
// Opens a page that simulates (live_page.py): its kernel is in the page, and the workbench is that of a notebook.

import { load } from "./loader.js";
import { createModel } from "./model.js";
import { followTheme, read } from "./packed.js";

/** @import { LiveHeader } from "./types" */

/** What this browser lacks to simulate; empty: nothing. */
function lacking() {
  if (typeof WebAssembly !== "object") return "WebAssembly";
  if (typeof DecompressionStream !== "function") return "DecompressionStream";
  return "";
}

/** Open the page's simulation. @param {HTMLElement} host @param {string} text */
export async function openPage(host, text) {
  followTheme();
  const missing = lacking();
  if (missing) throw new Error(`this browser has no ${missing}, which simulating takes; a newer one has`);
  const { header, columns } = await read(text);
  const page = /** @type {LiveHeader} */ (header);
  /** @type {typeof import("./live/kernel.js")} */
  const { createKernel } = await load({ ...page.modules, ...page.kernel }, "kernel");
  const kernel = await createKernel(page, columns);
  const { model, send } = createModel(
    { _engine: page.engine, _modules: page.modules, _selection: page.selection, _cursor_ps: -1, _panels: page.panels },
    (message) => kernel.send(message),
  );
  kernel.listen(send);
  const url = URL.createObjectURL(new Blob([page.entry], { type: "text/javascript" }));
  try {
    const widget = (await import(url)).default();
    await widget.initialize({ model });
    host.replaceChildren();
    await widget.render({ model, el: host });
  } finally {
    URL.revokeObjectURL(url);
  }
}
