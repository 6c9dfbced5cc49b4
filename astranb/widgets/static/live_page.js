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
  if (missing) throw new Error(`this browser has no ${missing}, which a simulation in a page needs: use a newer browser`);
  const { header, columns } = await read(text);
  const page = /** @type {LiveHeader} */ (header);
  /** @type {typeof import("./live/live_workbench.js")} */
  const { openSimulation } = await load({ ...page.modules, ...page.kernel }, "live/live_workbench");
  const url = URL.createObjectURL(new Blob([page.entry], { type: "text/javascript" }));
  const { default: widgetOf } = await import(url);
  URL.revokeObjectURL(url);
  await openSimulation(
    host, page, columns,
    (kernel) =>
      createModel(
        { _engine: page.engine, _modules: page.modules, _selection: "", _cursor_ps: -1, _panels: {}, _window_ps: [] },
        (message) => kernel.send(message),
      ),
    async (place) => {
      const widget = widgetOf();
      await widget.initialize(place);
      return widget.render(place);
    },
  );
}
