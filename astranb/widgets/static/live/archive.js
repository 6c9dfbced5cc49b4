// @ts-check
// Files of named arrays as NumPy's `savez` writes them, with a checksum: counterpart of core/state.py's write_tables
// and read_tables. Nothing is compressed. Formats: PKWARE's APPNOTE.TXT 4.3, and numpy.lib.format version 1.0.

import { hashOf } from "./digest.js";
import { InputError } from "./errors.js";

/** @import { Steps } from "./steps.js" */
/** @typedef {{ descr: string, shape: number[], bytes: Uint8Array }} NamedArray `descr`: Python's text of the type's fields */

const [LOCAL, CENTRAL, END] = [0x04034b50, 0x02014b50, 0x06054b50];
const [LOCAL_BYTES, CENTRAL_BYTES, END_BYTES] = [30, 46, 22];
const MOST_COMMENT = 65535;
const MADE_1980 = 0x21; // the date of files without one
const MAGIC = "\x93NUMPY\x01\x00";
const ALIGN = 64;
const HEADER = /^\{'descr': (.*), 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n$/s;
const PLAIN = /^\[\('', ('[<|][a-z]\d+')\)\]$/;
const CHECKSUM = "checksum";
const BYTES = "[('', '|u1')]"; // the type of plain bytes
const STEP = 2 ** 19; // bytes checked in a step

const encoder = new TextEncoder();
const latin = (/** @type {Uint8Array} */ bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
const fromLatin = (/** @type {string} */ text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
/** A shape as Python writes a tuple. @param {number[]} shape */
const tuple = (shape) => (shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`);

/** Plain bytes as an array. @param {Uint8Array} bytes @returns {NamedArray} */
export const plainBytes = (bytes) => ({ descr: BYTES, shape: [bytes.length], bytes });

/** @param {Map<string, NamedArray>} arrays */
const checksumOf = (arrays) => hashOf(Array.from(arrays, ([name, { descr, shape, bytes }]) => [`${name}:${descr}:${tuple(shape)}:`, bytes]));

/**
 * A file of arrays, in parts.
 * @param {Map<string, NamedArray>} arrays
 * @returns {Steps<Uint8Array[] | null>} null: it was stopped
 */
export function* writeArchive(arrays) {
  const digits = yield* checksumOf(arrays);
  if (digits === null) return null;
  const checksum = Uint8Array.from(digits.match(/../g) ?? [], (two) => parseInt(two, 16));
  const all = new Map([...arrays, [CHECKSUM, plainBytes(checksum)]]);
  return yield* zipped([...all].map(([name, array]) => [`${name}.npy`, [headerOf(array), array.bytes]]));
}

/** @param {NamedArray} array */
function headerOf({ descr, shape }) {
  const type = PLAIN.exec(descr)?.[1] ?? descr;
  const room = " ".repeat(Math.max(0, 21 - String(shape[0]).length)); // NumPy leaves as much for a longer first axis
  const text = `{'descr': ${type}, 'fortran_order': False, 'shape': ${tuple(shape)}, }${room}`;
  const before = MAGIC.length + 2;
  const length = Math.ceil((before + text.length + 1) / ALIGN) * ALIGN - before;
  return fromLatin(`${MAGIC}${String.fromCharCode(length & 255, length >> 8)}${text.padEnd(length - 1)}\n`);
}

/**
 * Read what `writeArchive` or NumPy wrote.
 * @param {Uint8Array} file
 * @param {string} what the file should be: for the error
 * @returns {Steps<Map<string, NamedArray> | null>} null: it was stopped
 */
export function* readArchive(file, what) {
  /** @type {Map<string, NamedArray>} */
  const arrays = new Map();
  try {
    for (const [name, data] of unzipped(file)) {
      if (arrays.has(name)) throw new RangeError("two of one name");
      arrays.set(name.replace(/\.npy$/, ""), arrayOf(data));
    }
  } catch (error) {
    if (error instanceof RangeError) throw new InputError(`not ${what}`);
    throw error;
  }
  const checksum = arrays.get(CHECKSUM);
  arrays.delete(CHECKSUM);
  if (!checksum) throw new InputError(`not ${what}: it has no checksum`);
  const digits = Array.from(checksum.bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const found = yield* checksumOf(arrays);
  if (found !== null && digits !== found) throw new InputError("damaged: its checksum is another one");
  return found === null ? null : arrays;
}

/** @param {Uint8Array} data @returns {NamedArray} */
function arrayOf(data) {
  const from = MAGIC.length + 2;
  if (latin(data.subarray(0, MAGIC.length)) !== MAGIC || data.length < from) throw new RangeError("no array");
  const length = data[from - 2] + 256 * data[from - 1];
  const [, type, sizes] = HEADER.exec(latin(data.subarray(from, from + length))) ?? [];
  if (type === undefined) throw new RangeError("no header");
  const shape = sizes.split(",").map((size) => size.trim()).filter(Boolean).map(Number);
  return { descr: type.startsWith("[") ? type : `[('', ${type})]`, shape, bytes: data.subarray(from + length) };
}

/** @type {Uint32Array} */
const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
  return rest;
});
/** @param {Uint8Array[]} parts @returns {Steps<number>} */
function* crcOf(parts) {
  let found = -1;
  for (const part of parts) {
    for (let at = 0; at < part.length;) {
      const end = Math.min(part.length, at + STEP);
      for (; at < end; at++) found = CRC[(found ^ part[at]) & 255] ^ (found >>> 8);
      yield 1;
    }
  }
  return ~found;
}

/**
 * The two headers of a member that begins at a place: the one before it, and the one in the list behind all members.
 * @param {Uint8Array} name
 * @param {Uint8Array[]} parts
 * @param {number} size
 * @param {number} at
 * @returns {Steps<Uint8Array[]>}
 */
function* headersOf(name, parts, size, at) {
  const [local, central] = [LOCAL_BYTES, CENTRAL_BYTES].map((length) => new DataView(new ArrayBuffer(length)));
  local.setUint32(0, LOCAL, true);
  central.setUint32(0, CENTRAL, true);
  central.setUint16(4, 20, true); // made by version 2.0
  central.setUint32(42, at, true);
  const crc = yield* crcOf(parts);
  for (const [view, from] of /** @type {const} */ ([[local, 4], [central, 6]])) {
    view.setUint16(from, 20, true); // read by version 2.0; no flags, stored, no time
    view.setUint16(from + 8, MADE_1980, true);
    view.setInt32(from + 10, crc, true);
    view.setUint32(from + 14, size, true);
    view.setUint32(from + 18, size, true);
    view.setUint16(from + 22, name.length, true);
  }
  return [local, central].map(({ buffer }) => new Uint8Array(buffer));
}

/** @param {[name: string, parts: Uint8Array[]][]} members @returns {Steps<Uint8Array[]>} */
function* zipped(members) {
  /** @type {Uint8Array[]} */
  const file = [];
  /** @type {Uint8Array[]} */
  const listed = [];
  let at = 0;
  for (const [name, parts] of members) {
    const called = encoder.encode(name);
    const size = parts.reduce((sum, { length }) => sum + length, 0);
    const [local, central] = yield* headersOf(called, parts, size, at);
    file.push(local, called, ...parts);
    listed.push(central, called);
    at += LOCAL_BYTES + called.length + size;
  }
  const end = new DataView(new ArrayBuffer(END_BYTES));
  end.setUint32(0, END, true);
  end.setUint16(8, members.length, true);
  end.setUint16(10, members.length, true);
  end.setUint32(12, listed.reduce((sum, { length }) => sum + length, 0), true);
  end.setUint32(16, at, true);
  return [...file, ...listed, new Uint8Array(end.buffer)];
}

/** Members of a file; RangeError where it is no such file. @param {Uint8Array} file @returns {Generator<[name: string, data: Uint8Array]>} */
function* unzipped(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  let end = file.length - END_BYTES;
  const least = Math.max(0, end - MOST_COMMENT);
  while (end >= least && view.getUint32(end, true) !== END) end -= 1;
  if (end < least) throw new RangeError("no end");
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    if (view.getUint32(at, true) !== CENTRAL) throw new RangeError("no list");
    const [stored, size, plain] = [view.getUint16(at + 10, true) === 0, view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
    const [named, more, comment] = [view.getUint16(at + 28, true), view.getUint16(at + 30, true), view.getUint16(at + 32, true)];
    const local = view.getUint32(at + 42, true);
    const from = local + LOCAL_BYTES + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    if (!stored || size !== plain || from + size > file.length) throw new RangeError("compressed");
    yield [new TextDecoder().decode(file.subarray(at + CENTRAL_BYTES, at + CENTRAL_BYTES + named)), file.subarray(from, from + size)];
    at += CENTRAL_BYTES + named + more + comment;
  }
}
