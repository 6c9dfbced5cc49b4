// What the modules of a page's kernel share. Counterpart of engine/protocol.py, sim/ and widgets/session/: the same
// names mean the same. Only types; nothing of it is sent or run.

import type { Options, Sent, ToKernel } from "../types";
import type { Feed } from "./feed.js";
import type { Units } from "./layout_units.js";
import type { LineFeed } from "./lines_feed.js";
import type { Session } from "./session.js";
import type { Parameter } from "./edits.js";
import type { Simulation } from "./simulation.js";
import type { Steps } from "./steps.js";

// The machine -------------------------------------------------------------------------

/** A table: its fields with their types and places, and what of it is not zero at the start. */
export interface Layout {
  name: string;
  /** Bytes of a record. */
  size: number;
  fields: [name: string, type: string, offset: number][];
  rows: number;
  /** Rows that are not zero at the start; null: the data is the whole table. */
  parts: [first: number, rows: number][] | null;
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
  /** Hash of the state at the start of the page's own run: links to a state are of pages with the same one. */
  inputs: string;
  /** What the file of `Simulation.save` is made of (widgets/live/saved_file.py). */
  saved: { document: string; arrays: SavedArray[] };
  /** Bytes of state whose copy takes as long as replaying an event. */
  replay_bytes: number;
  title: string;
  /** The first speed, in ps a second. */
  speed: number;
  /** Every question that Python answers, and the answers that never change. */
  questions: string[];
  answers: StaticAnswer[];
  /** The plan that runs, if one was opened on the page. */
  plan?: SharedPlan;
  /** What does not change, described by widgets/live/<engine>.py: names, programs, networks. */
  about: Record<string, any>;
}

/** An array of a saved file with its type, as Python writes it: a table now, a table at the start, or a column with its shape. */
export interface SavedArray {
  name: string;
  now?: string;
  start?: string;
  data?: number;
  descr: string;
  shape?: number[];
}
/** A plan as it is opened on a page: its file, and the bytes of the larger buffer of a rank. */
export interface SharedPlan {
  name: string;
  file: Uint8Array<ArrayBuffer>;
  size: number;
}
/** A state that travels in a link or a file. */
export interface SharedState {
  events: number;
  edits: { events: number; at_ps: number; path: string; value: string }[];
  breakpoints: Breakpoint[];
  watches: string[];
  /** Of everything simulated; empty: it is not known. */
  hash: string;
  shown: ShownState;
}
/** What a workbench shows of it. */
export interface ShownState {
  selection: string;
  cursor_ps: number;
  window_ps: number[];
  panels: Record<string, string | boolean>;
  sizes: Record<string, number>;
  redraw_hz: number;
  speed: number;
}

// Names ---------------------------------------------------------------------------------

/** What nodes are called: counterpart of infragraph/_plan.py. */
export interface NodePlan {
  instances: Record<string, { device: string; count: number; base: number }>;
  devices: Record<string, { size: number; components: Record<string, { count: number; base: number; stride: number; leaf: boolean }> }>;
}
/** Nodes and directed lanes by name: counterpart of net/fabric.py. */
export interface Fabric {
  nodes: string[];
  /** The node of each rank, and the rank of each of these nodes. */
  gpus: number[];
  rankOf: Map<number, number>;
  /** The number of the instance that each node is in. */
  instance: Int32Array;
  /** Lanes between nodes; rows behind them are on-chip links. */
  links: number;
  src: Float64Array;
  dst: Float64Array;
  lane: Float64Array;
  lanes(source: number, target: number): number[];
  name(link: number): string;
  kindName(node: number): string;
  forwardPs(node: number): number;
  /** -1: there is no such node. */
  index(name: string): number;
  select(identifier: string): number[];
  /** With full names of ranks. */
  full(path: string): string;
  find(name: string): number[];
}
/** An object of a machine: counterpart of `MachinePart` of engine/cacheline/paths.py. */
export interface MachinePart {
  kind: string;
  rows: number[];
  row: number;
  path: string;
  /** Whether it has several lanes, over which some fields are summed. */
  whole: boolean;
}
export interface StaticAnswer {
  question: string;
  options: Options;
  message: object;
  /** Numbers of its columns. */
  buffers: number[];
}

/** A chain of waits, each step waits for the next one: counterpart of engine/why.py. */
export interface Why {
  path: string;
  now_ps: number;
  /** Whether the chain comes back to itself: then nobody in it can ever go on. */
  circle: boolean;
  steps: { text: string; path: string; since_ps: number }[];
}

// Stops, breakpoints, edits -----------------------------------------------------------

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

/** Up to where a loop may go: counts are from the start of the run. */
export interface Limits {
  steps: number;
  until_ps?: number | null;
  /** Other counts, by name. */
  most?: Record<string, number>;
}

/** What moves and answers: counterpart of engine/protocol.py. Errors are those of errors.js, with Python's texts. */
export interface Engine extends Movable, Inspectable {}
interface Movable {
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
  go(limits: Limits): number;
  /** Handle all events at once where that is faster; false: nothing was done. */
  finish(): boolean;
  /** Throw a Deadlock or WrongResult where the run cannot go on or has ended wrongly. */
  check(why: number): void;
  /** The share that is done, 0 to 1. */
  done(): number;
  /** Bytes that a checkpoint holds, by table. */
  kept(): Table[];
  /** Make the tables as long, in bytes, as they were at a checkpoint. */
  resize(sizes: Record<string, number>): void;
  state_bytes(): number;
  /** A private copy, with or without its recording. */
  copy(record: boolean): Steps<Engine>;
  /** A copy to look at the past in: it records nothing, and shows what this one has recorded. */
  replica(): Engine;
  /** The hash of everything simulated; null: it was stopped. */
  digest(): Steps<string | null>;
  read_edit(path: string, value: unknown): Edit;
  apply(edit: Edit): void;
  /** What can be changed of an object, as it is now. */
  parameters(path: string): Parameter[];
  /** The edit that switches the recording; null: it is as asked for already. */
  recording_switched(on: boolean): Edit | null;
  /** A link's full path, and, if wanted, that of its other direction. */
  directions(link: string, both: boolean): string[];
  /** Write breakpoints into the machine; the breakpoint of each row. */
  install(points: Breakpoint[]): Breakpoint[];
  /** Whether a breakpoint that somebody else has made is one. */
  is_point(point: unknown): boolean;
  /** The row of the breakpoint that stopped the loop. */
  hit(): number;
  /** Time is about to go back; has gone back. */
  rewinding(): void;
  rewound(): void;
}
interface Inspectable {
  recording(): boolean;
  /** Intervals of time, in ps, of which nothing was recorded. */
  unrecorded(switches: Edit[]): [number, number][];
  /** Events that one can stop on. */
  kinds: string[];
  on_event(kind: string | null, path: string | null): Breakpoint;
  condition(text: string): Breakpoint;
  /** Where a breakpoint was hit, and what was found there. */
  reason(point: Breakpoint): [where: string, because: string];
  /** An object's full path, and the reader of each field that can be watched of it. */
  readers(path: string): [path: string, readers: Record<string, (engine: Engine) => number>];
  /** An object's kind and full path. */
  place(path: string): { kind: string; path: string };
  /** What a condition may name of an object. */
  fields(path: string): string[];
  /** Which of these words a run knows only where it records. */
  recorded(path: string): string[];
  /** The condition that a thread block is at its next operation. */
  next_operation(block: string): string;
  /** The place of a thread block in its program, in words. */
  spot_text(block: string): string;
  inspect(path: string): { kind: string; path: string; title: string };
  narrate(): string;
  concerned(): string;
  /** Why an object waits: the first step is what it does, each further one what the one before waits for. */
  why(path: string): Why;
  /** Paths of objects that are no part of another one, and of the parts of one of these, by their kinds. */
  objects(): string[];
  part_kinds: string[];
  parts(path: string): Record<string, Iterable<string>>;
  /** Name, start and end of the phase that ended last; no name: none has. */
  last_phase(): [name: string, started_ps: number, ended_ps: number];
  /** Of runs by cache lines. */
  recorder: Recorder;
  late_ps: number[];
  tracks(kind: string): Tracks;
}

// Recording and timelines of a run by cache lines (engine/cacheline/recorder.py, tracks.py) ---

/** What a ring of records holds from a number on. */
export interface Ring {
  /** The number of the first one; one past the last. */
  first: number;
  total: number;
  table: Table;
  /** The row of the record of a number. */
  row(which: number): number;
  /** Calls with the rows, in the order of their records. */
  each(visit: (row: number) => void): void;
}
export interface Recorder {
  /** Most flights and bursts recorded so far: a ring has lost those beyond its length. */
  most: number;
  most_bursts: number;
  on(): boolean;
  bin_ps(): number;
  /** Bins of activity up to now; none without a recording. */
  bins(): number;
  /** From when on every flight is still there. */
  oldest_ps(): number;
  /** Keep how many flights have been recorded; to be called before time goes back. */
  mark(): number;
  since(number: number): Ring;
  bursts_since(number: number): Ring;
  /** Calls with the flights for which a wire carried bits in a window of time: row, from when to when. */
  carried(start_ps: number, end_ps: number, visit: (row: number, start_ps: number, end_ps: number) => void): void;
  /** Busy fractions of each GPU by bin, of `issue`, `l2` or `hbm`. */
  activity(strip: string): Float64Array[];
  /** Busy fractions of groups of links by bin, on average over each group. */
  busy(groups: number[][]): Float64Array[];
  /** How much of a window of time each link was busy. */
  utilisation(start_ps: number, end_ps: number): Float64Array;
  /** How busy everything was around a time, over how long; of GPUs issue slots, L2 and HBM. */
  near(at_ps: number): { over_ps: number; links: Float64Array; gpus: number[][] };
}
/** The tracks of one kind: `sms` or `blocks`. */
export interface Tracks {
  /** Of each track: its GPU, ascending; its number there; whether it is a copy engine or a NIC. */
  gpu: number[];
  number: number[];
  engine: number[];
  /** Time has gone back. */
  rewound(): void;
  /** Time in each state between each two edges, by row, column and state; with `fold` of all tracks of GPUs. */
  spent(rows: number[], edges: ArrayLike<number>, fold?: boolean): Float64Array;
  spans(track: number, start_ps: number, end_ps: number): [state: number, start_ps: number, end_ps: number][];
  /** About how many spans of tracks overlap a window. */
  count(tracks: number[], start_ps: number, end_ps: number): number;
}
/** A picture of the system: boxes and the bundles of links between them (export/layout). */
export interface Picture {
  meta: Record<string, any>;
  /** Of each link the number of its bundle; -2 - b inside box b; -1 nowhere. */
  bundle_of: Int32Array;
  /** The links of each bundle, and inside each box. */
  bundles: number[][];
  inside: number[][];
  /** All that might be drawn as one box. */
  units: Units;
}

/** What answers a question; of one kind of engine with its own feed. It may throw `Unready`, and is asked once more then. */
export type Answer<F = any> = (feed: F, options: any) => Sent | Promise<Sent>;
export type Answers<F = any> = Record<string, Answer<F>>;

/** What stands in the place of a Python kernel. */
export interface PageKernel {
  sim: Simulation;
  session: Session;
  feed: Feed;
  send(message: ToKernel): void;
  /** Resolves when nothing plays. */
  rest(): Promise<void>;
  /** Called with every message and its columns; returns what ends that. */
  listen(listener: (message: object, buffers: DataView[]) => void): () => void;
}
export type LineAnswers = Answers<LineFeed>;
export type { Feed, LineFeed, Options, Sent, Session };
export type { Watch } from "./watch.js";
export type Sim = Simulation;
/** A table of two runs as people look at it: what its rows are of, and one number of each. */
export interface Shown {
  title: string;
  /** What the number is: in ps where this says so, else in bytes. */
  field: string;
  /** Whether the largest differences come first. */
  largest: boolean;
  rows(engine: Engine): [key: string | number, value: number][];
}
/** What is compared of runs of one kind: the time, what it consists of, and tables. */
export interface Compared {
  time(engine: Engine): number;
  causes(engine: Engine): [cause: string, time_ps: number][];
  shown: Shown[];
}
