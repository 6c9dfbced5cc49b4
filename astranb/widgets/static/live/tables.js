// @ts-check
// Tables of records in a WebAssembly memory: the simulated machine, as kernels and answers read and write it.
// Their layouts are the kernels' dtypes (widgets/live/tables.py). Numbers of 64 bits are exact up to 2^53.

/** @import { Layout, Memory, Table, Tables } from "./types" */

const PAGE = 65536;
const LINE = 64; // every table begins with a line of the cache
const FIRST = 16 * PAGE; // what is below is the stack and the constants of the kernels
const MOST = 2 ** 31; // bytes of all tables
const HIGH = 2 ** 32;
const TOGETHER = 256; // rows that are written together, so that they stay in the cache

/** @type {Record<string, (view: DataView, at: number) => number>} */
const READ = {
  i1: (view, at) => view.getInt8(at), u1: (view, at) => view.getUint8(at),
  i2: (view, at) => view.getInt16(at, true), u2: (view, at) => view.getUint16(at, true),
  i4: (view, at) => view.getInt32(at, true), u4: (view, at) => view.getUint32(at, true),
  i8: (view, at) => view.getInt32(at + 4, true) * HIGH + view.getUint32(at, true),
  u8: (view, at) => view.getUint32(at + 4, true) * HIGH + view.getUint32(at, true),
  f4: (view, at) => view.getFloat32(at, true), f8: (view, at) => view.getFloat64(at, true),
};
/** @param {DataView} view @param {number} at @param {number} value */
function putLong(view, at, value) {
  view.setUint32(at, value % HIGH, true); // modulo 2^32, of negative numbers, too
  view.setInt32(at + 4, Math.floor(value / HIGH), true);
}
/** @type {Record<string, (view: DataView, at: number, value: number) => void>} */
const WRITE = {
  i1: (view, at, value) => view.setInt8(at, value), u1: (view, at, value) => view.setUint8(at, value),
  i2: (view, at, value) => view.setInt16(at, value, true), u2: (view, at, value) => view.setUint16(at, value, true),
  i4: (view, at, value) => view.setInt32(at, value, true), u4: (view, at, value) => view.setUint32(at, value, true),
  i8: putLong, u8: putLong,
  f4: (view, at, value) => view.setFloat32(at, value, true), f8: (view, at, value) => view.setFloat64(at, value, true),
};

/** @param {number} bytes */
function checkFits(bytes) {
  if (bytes > MOST) throw new Error(`this machine takes ${(bytes / 2 ** 30).toFixed(1)} GiB of memory, and a page has 2 GiB at most: open it in JupyterLab`);
}

/** Bytes with all tables. @param {Layout[]} layouts */
export function bytesOf(layouts) {
  return layouts.reduce((at, { rows, size }) => Math.ceil((at + rows * size) / LINE) * LINE, FIRST);
}

/**
 * Room for tables, all zero.
 * @param {Layout[]} layouts
 * @returns {Memory}
 */
export function allocate(layouts) {
  const bytes = bytesOf(layouts);
  checkFits(bytes);
  const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE) });
  return { memory, view: new DataView(memory.buffer), end: bytes };
}

/**
 * One table at an address.
 * @param {Memory} room
 * @param {Layout} layout
 * @param {number} address
 * @returns {Table}
 */
function createTable(room, { name, size, fields, rows }, address) {
  /** @type {Table} */
  const table = {
    name, rows, size, address, fields, capacity: rows * size, at: {}, put: {},
    bytes: () => new Uint8Array(room.memory.buffer, table.address, table.rows * size),
    column(field) {
      const read = table.at[field];
      const found = new Float64Array(table.rows);
      for (let row = 0; row < table.rows; row++) found[row] = read(row);
      return found;
    },
  };
  for (const [field, type, offset] of fields) {
    const [read, write] = [READ[type], WRITE[type]];
    table.at[field] = (row) => read(room.view, table.address + row * size + offset);
    table.put[field] = (row, value) => write(room.view, table.address + row * size + offset, value);
  }
  return table;
}

/**
 * All tables of a machine, one behind the other, by name.
 * @param {Memory} room
 * @param {Layout[]} layouts
 * @returns {Tables}
 */
export function createTables(room, layouts) {
  let at = FIRST;
  return Object.fromEntries(
    layouts.map((layout) => {
      const table = createTable(room, layout, at);
      at = Math.ceil((at + layout.rows * layout.size) / LINE) * LINE;
      return [layout.name, table];
    }),
  );
}

/**
 * Write what a table holds that is not zero: parts of so many rows. Without parts the data is the whole table, row by row.
 * @param {Pick<Table, "size" | "bytes">} table
 * @param {[first: number, rows: number][] | null} parts
 * @param {Uint8Array} data for each place in a row the bytes there of all parts, one behind the other
 */
export function fill(table, parts, data) {
  const { size } = table;
  const [bytes, sent] = [table.bytes(), data.length / size];
  if (!parts) {
    bytes.set(data);
    return;
  }
  let from = 0; // rows of earlier parts
  for (const [first, rows] of parts) {
    for (let begin = 0; begin < rows; begin += TOGETHER) {
      const end = Math.min(rows, begin + TOGETHER);
      for (let place = 0; place < size; place++) {
        let at = place * sent + from + begin;
        for (let row = first + begin; row < first + end; row++) bytes[row * size + place] = data[at++];
      }
    }
    from += rows;
  }
}

/**
 * Give a table another number of rows: it keeps its contents as far as they fit, and further rows are zero.
 * The memory may grow: whoever holds bytes of a table takes them anew.
 * @param {Memory} room
 * @param {Table} table
 * @param {number} rows
 */
export function resize(room, table, rows) {
  const [held, bytes] = [table.bytes(), rows * table.size];
  if (bytes > table.capacity) {
    const kept = held.slice();
    table.address = room.end;
    table.capacity = bytes;
    room.end = Math.ceil((room.end + bytes) / LINE) * LINE;
    checkFits(room.end);
    room.memory.grow(Math.max(0, Math.ceil((room.end - room.memory.buffer.byteLength) / PAGE)));
    room.view = new DataView(room.memory.buffer);
    table.rows = rows;
    table.bytes().set(kept);
  } else {
    table.rows = rows;
    table.bytes().fill(0, Math.min(bytes, held.length));
  }
}
