// @ts-check
// Python in a Worker: starts Pyodide of the packs that the page holds, and passes messages on, both ways.
// Pyodide's own scripts stand before this one in the same text: WebKit lets a Worker of a page from disk load no others.
// Nothing is answered here: what comes from the page goes to Python's PageHost (widgets/page_host.py), and back.

import { decode, unpackBytes } from "./packed.js";

/** @import { ToWorker } from "./types" */

const HERE = "page:/"; // no address: what Pyodide fetches from there is in the page
const SITE = /** @type {const} */ (["site/", "/lib/python3.13/site-packages/"]); // in a pack, and in Python
/** @type {Record<string, string>} */
const TYPES = { wasm: "application/wasm", json: "application/json" };
const START = `
from astranb.widgets.page_host import PageHost
from pyodide.ffi import to_js
import page_port

def post(text, buffers):
    page_port.post(text, to_js([memoryview(one).cast("B") for one in buffers]))

host = PageHost(post)

def open_run(run):
    host.open(run.to_bytes())

def receive(text, buffers):
    host.receive(text, [one.to_bytes() for one in buffers])
`;

/** @type {any} */
const worker = self;

/** @param {string} stage what is done now */
const tell = (stage) => worker.postMessage({ stage });

/** Files of a pack, by name. @param {{ text?: string, address?: string }} pack */
async function filesOf({ text, address }) {
  let bytes;
  if (text === undefined) {
    const answer = await fetch(String(address));
    if (!answer.ok) throw new Error(`${address}: ${answer.status} ${answer.statusText}`);
    bytes = new Uint8Array(await answer.arrayBuffer());
  } else bytes = decode(text);
  const { header, columns } = await unpackBytes(bytes);
  /** @type {[string, Uint8Array][]} */
  const found = header.files.map((name, k) => [name, new Uint8Array(columns[k].buffer, columns[k].byteOffset, columns[k].byteLength)]);
  return Object.fromEntries(found);
}

/** @param {ToWorker} given */
async function start({ packs, run }) {
  tell("unpacking Python");
  const files = Object.assign({}, ...(await Promise.all(packs.map(filesOf))));
  const plain = worker.fetch;
  /** @param {any} address */
  worker.fetch = async (address) => {
    const name = String(address?.url ?? address).replace(/^page:\/+/, "");
    if (!Object.hasOwn(files, name)) return plain(address);
    return new Response(files[name], { headers: { "content-type": TYPES[name.split(".").pop() ?? ""] ?? "application/octet-stream" } });
  };
  tell("starting Python");
  const python = await worker.loadPyodide({ indexURL: HERE, env: { HOME: "/tmp", PYTHONDONTWRITEBYTECODE: "1" } });
  worker.fetch = plain;
  const folders = new Set();
  for (const [name, bytes] of Object.entries(files)) {
    if (!name.startsWith(SITE[0])) continue;
    const path = name.replace(...SITE);
    const folder = path.slice(0, path.lastIndexOf("/"));
    if (!folders.has(folder)) python.FS.mkdirTree(folder);
    folders.add(folder);
    python.FS.writeFile(path, bytes, { canOwn: true });
  }
  for (const name of Object.keys(files)) delete files[name];
  tell("loading NumPy");
  python.runPython("import numpy");
  tell("loading astranb");
  python.registerJsModule("page_port", {
    /** @param {string} text @param {Uint8Array[]} columns views of Python's memory */
    post(text, columns) {
      const buffers = columns.map((one) => one.slice().buffer);
      worker.postMessage({ text, buffers }, buffers);
    },
  });
  python.runPython(START);
  tell("building the run");
  const receive = python.globals.get("receive");
  python.globals.get("open_run")(run);
  /** @param {MessageEvent<{ text: string, buffers?: Uint8Array[] }>} event */
  worker.onmessage = ({ data }) => {
    receive(data.text, data.buffers ?? []);
    worker.postMessage({ handled: true });
  };
  worker.postMessage({ ready: true, bytes: python._module.HEAPU8.length });
}

/** @param {MessageEvent<ToWorker>} event */
worker.onmessage = ({ data }) => {
  start(data).catch((error) => worker.postMessage({ failed: String(error.message ?? error).trim().split("\n").pop() }));
};
