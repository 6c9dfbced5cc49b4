// What the modules of a page's kernel share. Counterpart of engine/protocol.py, sim/ and widgets/session/: the same
// names mean the same. Only types; nothing of it is sent or run.

import type { Options, Sent, ToKernel } from "../types";

// The machine -------------------------------------------------------------------------

/** A table: its fields with their types and places, and what of it is not zero at the start. */
export interface Layout {
  name: string;
  /** Bytes of a record. */
  size: number;
  fields: [name: string, type: string, offset: number][];
  rows: number;
  parts: [at: number, bytes: number][];
  /** The number of the column with these parts. */
  data: number;
}
export interface Memory {
  memory: WebAssembly.Memory;
  view: DataView;
  /** Bytes in use. */
  end: number;
}
export interface Table {
  name: string;
  rows: number;
  size: number;
  address: number;
  /** Bytes that it may have there. */
  capacity: number;
  fields: Layout["fields"];
  /** Reads a field of a row: `links.at.free_at_ps(3)`; of a table without fields `at.value(row)`. */
  at: Record<string, (row: number) => number>;
  /** Writes one. */
  put: Record<string, (row: number, value: number) => void>;
  bytes(): Uint8Array<ArrayBuffer>;
  /** A field of all rows, copied. */
  column(field: string): Float64Array;
}
export type Tables = Record<string, Table>;
export interface Machine {
  room: Memory;
  tables: Tables;
  /** Call the loop once, up to the limits in its tables. */
  run(): number;
}

/** What a page is given of a simulation (widgets/live/): inputs of the kernel, and descriptions for the answers. */
export interface Live {
  engine: "cacheline" | "messages" | "layers";
  fidelity: string;
  /** The entry's name, and the number of the column with its WebAssembly. */
  symbol: string;
  wasm: number;
  tables: Layout[];
  /** The entry's arguments: which table, and the bytes of what it takes as one. */
  arguments: [table: string, size: number][];
  units: Record<string, string>;
  slice_events: number;
  /** What does not change, described by widgets/live/<engine>.py: names, programs, networks. */
  about: Record<string, any>;
}

// Stops, breakpoints, edits -----------------------------------------------------------

export interface Stop {
  why: string;
  now_ps: number;
  events: number;
  where: string;
  text: string;
  breakpoint: Breakpoint | null;
}
export interface Breakpoint {
  text: string;
  at_ps: number | null;
  rows: Record<string, number>[];
  object: string;
  enabled: boolean;
}
export interface Edit {
  events: number;
  at_ps: number;
  path: string;
  value: string;
  kind: string;
  field: string;
  rows: number[];
  number: number;
}

/** What moves and answers: counterpart of engine/protocol.py. It grows with what the page can do. */
export interface Engine {
  live: Live;
  tables: Tables;
  edits: Edit[];
  /** The time that questions are about, where it is later than the last event; else -1. */
  as_of_ps: number;
  now_ps(): number;
  /** -1: none is left. */
  next_ps(): number;
  finished(): boolean;
  count(name: string): number;
  counts(): Record<string, number>;
  /** Handle events up to limits; a number of stops.js. */
  go(limits: { steps: number; until_ps?: number | null; most?: Record<string, number> }): number;
  /** Bytes that a checkpoint holds, by table. */
  kept(): Table[];
  /** A private copy; without a recording of its own it shows this one's. */
  copy(record: boolean): Engine;
  digest(): string;
  inspect(path: string): object;
  narrate(): string;
  concerned(): string;
}

export interface Sim {
  engine: Engine;
  now_ps(): number;
  events(): number;
  finished(): boolean;
  counts(): Record<string, number>;
  step(n: number, unit: string): Stop;
}
export interface Session {
  sim: Sim;
  /** The simulation at a moment, to be looked at and never moved; null: now. */
  at(at_ps: number | null | undefined): Sim;
}
/** What one view has been sent, and is sent next: counterpart of widgets/feed/. */
export interface Feed {
  live: Live;
  sim: Sim;
  session: Session;
  scene(): Sent;
  state(settings?: { fine?: boolean }): Sent;
  timeline(): Sent;
}
export type Answer = (feed: Feed, options: any) => Sent;
export type Answers = Record<string, Answer>;

/** What stands in the place of a Python kernel. */
export interface PageKernel {
  send(message: ToKernel): void;
  /** Called with every message and its columns. */
  listen(listener: (message: object, buffers: DataView[]) => void): void;
}
export type { Options, Sent };
