// What the modules of runs of operations share in a page: counterpart of engine/operations/.

import type { Engine, Table } from "./types";

export type Numbers = Float64Array | Int32Array;

/** A recorded operation's words, see workload/astrasim2/parts.py. */
export interface Label {
  name: string;
  collective: string;
  algorithm: string;
  job: string;
}
/** What custom collectives replay, see engine/operations/parts.py. */
export interface Parts {
  own: number;
  labels: Label[];
  owner: Numbers;
  first: Numbers;
  until: Numbers;
  label: Numbers;
  kind: Numbers;
  bytes: Numbers;
  shows: Numbers;
  phase: Numbers;
  chunk: Numbers;
  /** For each row whether others are shown for it. */
  hidden: Uint8Array;
  shown(row: number): number;
  /** The number of the part that a row begins; -1: none. */
  at(row: number): number;
  of(row: number): Label;
}
/** What ranks hold in memory when; counterpart of workload/astrasim2/footprint.py. */
export interface Footprint {
  axes: { parts: string[] }[];
  used: number[];
  width: number;
  fullest: number;
  table: Numbers;
  held: Numbers;
  first: Numbers;
  operation: Numbers;
  at_end: Numbers;
  change: Numbers;
}
/** What does not change in a run; counterpart of engine/operations/about.py. */
export interface About {
  npu: Numbers;
  kind: Numbers;
  collective: Numbers;
  size: Numbers;
  name: Numbers;
  names: string[];
  topology: string[];
  network: string;
  own: number;
  parts: Parts | null;
  footprint: Footprint | null;
  /** The first operation of each rank, and behind them all the number of them. */
  start: Numbers;
  rows_of(rank: number): number[];
  waited_for(row: number): Numbers;
  parents_of(row: number): number[];
  children_of(row: number): number[];
  number(row: number): number;
  label(row: number): string;
  label_of(row: number): Label;
  what(row: number): string;
  text(row: number): string;
  path(row: number): string;
}
/** When each operation began and ended, in ps; -1: not yet. */
export interface Times {
  start: Float64Array;
  end: Float64Array;
}
/** Operations that have begun, as columns; one under way ends now. */
export interface Spans {
  row: number[];
  npu: number[];
  track: number[];
  start_ps: number[];
  end_ps: number[];
}
/** Messages on their links, as columns; counterpart of engine/operations/flights.py. */
export interface Flights {
  link: number[];
  source: number[];
  target: number[];
  bytes: number[];
  operation: number[];
  chunk: number[];
  phase: number[];
  step: number[];
  queued_ps: number[];
  start_ps: number[];
  end_ps: number[];
}
export interface Recorded {
  first: number;
  total: number;
  settled: number;
  flights: Flights;
}
/** Phases of chunks that are over, as columns. */
export type Passed = Record<"npu" | "operation" | "chunk" | "phase" | "dim" | "algorithm" | "queued_ps" | "begun_ps" | "end_ps", number[]>;
/** An object that a path names. */
export interface Place {
  kind: string;
  path: string;
  rows: number[];
  npu: number;
  operation: number;
  dim: number;
  layer: number;
  part: number;
}
/** Counterpart of engine/operations/engine.py. */
export interface OperationEngine extends Engine {
  about: About;
  ranks: number;
  stands_for: number;
  tracks: string[];
  recording(): boolean;
  times_ps(): Times;
  ends_ps(): number[];
  state(row: number, times: Times): number;
  /** How many chunks of an operation are done, of how many. */
  progress(row: number): [number, number];
  passed(): Passed;
  /** Phases under way. */
  running(): Record<"npu" | "dim" | "operation" | "begun_ps", number[]>;
  ready_ps(): Float64Array;
  track_spans(): Spans;
  recorded_flights(): number;
  flights(since: number): Recorded;
  queues(links: Numbers): [waiting: number[], down: boolean[]];
  /** Number of rows that tables had at a checkpoint, by name. */
  resize(rows: Record<string, number>): void;
  computed_ps(): number[];
  /** Tables, or parts of them, that the hash is of: names, rows and bytes. */
  simulated(): [name: string, rows: number, bytes: Uint8Array][];
}
export type { Engine, Table };
