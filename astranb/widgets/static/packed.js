// @ts-check
// What a page without a kernel holds, packed into one text (offline_page.py, astranb/browser), and its theme.

/** Bytes of their text in base 64. @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function decode(text) {
  const read = /** @type {any} */ (Uint8Array).fromBase64; // in browsers since 2025
  if (read) return read(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let k = 0; k < letters.length; k += 1) bytes[k] = letters.charCodeAt(k);
  return bytes;
}

/** Unpack what a page is given: a header of JSON, and columns whose places the header holds. @param {BlobPart} bytes */
export async function unpackBytes(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const all = await new Response(stream).arrayBuffer();
  const size = new DataView(all).getUint32(0, true);
  /** @type {import("./types").PackedHeader} */
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(all, 8, size)));
  const from = Math.ceil((8 + size) / 8) * 8;
  return { header, columns: header.places.map(([start, length]) => new DataView(all, from + start, length)) };
}

/** What a page holds, packed into one text. @param {string} text */
export const read = (text) => unpackBytes(decode(text));

/** Follow the system's light or dark theme, with the attribute that JupyterLab's pages have. */
export function followTheme() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    document.body.dataset.jpThemeLight = String(!dark.matches);
  };
  dark.addEventListener("change", follow);
  follow();
}
