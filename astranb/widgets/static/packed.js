// @ts-check
// What a page without a kernel holds, packed into one text (page.py), and its theme.

/** What a page holds: a header of JSON, and columns whose places the header holds. @param {string} text */
export async function read(text) {
  const letters = atob(text);
  const packed = new Uint8Array(letters.length);
  for (let k = 0; k < letters.length; k += 1) packed[k] = letters.charCodeAt(k);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const all = await new Response(stream).arrayBuffer();
  const length = new DataView(all).getUint32(0, true);
  /** @type {import("./types").PackedHeader} */
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(all, 8, length)));
  const from = Math.ceil((8 + length) / 8) * 8;
  return { header, columns: header.places.map(([start, bytes]) => new DataView(all, from + start, bytes)) };
}

/** Follow the system's light or dark theme, with the attribute that JupyterLab's pages have. */
export function followTheme() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    document.body.dataset.jpThemeLight = String(!dark.matches);
  };
  dark.addEventListener("change", follow);
  follow();
}
