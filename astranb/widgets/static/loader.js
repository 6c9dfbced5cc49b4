// @ts-check
// Imports the modules of the views from their text: a notebook has no address to load them from.

const IMPORT = /(?<=^(?:import|export) [^;]*? from )"(\.\.?)\/(\w+)\.js"/gm;

/**
 * Import a module by its name, and before it those that it imports.
 * @param {Record<string, string>} sources text by name
 * @param {string} name
 */
export async function load(sources, name) {
  /** @type {Map<string, string>} */
  const urls = new Map();
  /** @param {string} module */
  const address = (module) => {
    const known = urls.get(module);
    if (known !== undefined) {
      if (!known) throw new Error(`${module}.js imports itself through others`);
      return known;
    }
    if (!Object.hasOwn(sources, module)) throw new Error(`no module ${module}.js`);
    urls.set(module, "");
    const folder = module.slice(0, module.lastIndexOf("/") + 1);
    const text = sources[module].replace(IMPORT, (_, from, imported) => JSON.stringify(address((from === "." ? folder : "") + imported)));
    const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    urls.set(module, url);
    return url;
  };
  try {
    return await import(address(name));
  } finally {
    for (const url of urls.values()) if (url) URL.revokeObjectURL(url);
  }
}
