// What the modules of runs of operations share in a page: counterpart of engine/operations/.

import type { ConditionField } from "./engine_breakpoints.js";
import type { Parameter } from "./edits.js";
import type { Steps } from "./steps.js";
import type { Breakpoint, Edit, Engine, Sent, Table, Tables, Why } from "./types";

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
  axes: import("../types").MemoryAxis[];
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
  /** What each link of an infrastructure is called. */
  links: string[];
  own: number;
  parts: Parts | null;
  footprint: Footprint | null;
  /** Trees of modules, and the number of that of each rank; -1: the page has none of it. */
  trees: { about: import("../types").ModuleAbout; labels: string[]; names: string[]; buffers: Record<"module" | "module_tree", DataView[]> }[];
  tree_of: number[];
  /** The message that describes the picture, and its columns. */
  scene: Sent;
  /** The links that are drawn, ascending; the entry of the legend of each operation. */
  drawn: Numbers;
  kind_of: Numbers;
  /** How many bundles of links there are, and the bundle of each link that is drawn. */
  bundles: number;
  bundle_of: Int32Array;
  /** Of a network with congestion: the node at the end of each link, and that of each rank. */
  link_ends: Record<"dst" | "gpus", Numbers>;
  /** The ranks that have a box of their own. */
  boxes: number[];
  /** What the run cannot know, and why. */
  absent: Record<string, string>;
  /** The first operation of each rank, and behind them all the number of them. */
  start: Numbers;
  rows_of(rank: number): number[];
  /** What a rank does one by one: its operations, but of a replay each message and computation. */
  leaves_of(rank: number): number[];
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
/** A stretch of the critical path, time of an operation; counterpart of engine/critical_path.py. */
export interface Segment {
  row: number;
  start_ps: number;
  end_ps: number;
  cause: string;
  /** Why what comes after it could not begin earlier. */
  because: string;
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
/** An object that a path names: counterpart of engine/messages/paths.py and engine/layers/paths.py. */
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
/** What is shown of an object, without what every object has. */
export interface Shown {
  title?: string;
  state: [label: string, text: string][];
  in_flight?: string[];
  in_flight_count?: number;
  children?: { path: string; text: string }[];
}
/** What only runs by cache lines have. */
type OfLines = "recorder" | "spot_text" | "late_ps" | "tracks" | "copy" | "replica" | "place";

/** Counterpart of engine/operations/engine.py. */
export interface OperationEngine extends Omit<Engine, OfLines> {
  about: About;
  copy(record: boolean): Steps<OperationEngine>;
  replica(): OperationEngine;
  ranks: number;
  stands_for: number;
  track_names: string[];
  times_ps(): Times;
  ends_ps(): number[];
  /** The number of an operation's state. */
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
  /** How many messages wait for each of some links now, and which of these are down. */
  queues(links: Numbers): [waiting: number[], down: boolean[]];
  computed_ps(): number[];
  /** The operation of a recorded message, its phase and chunk; of a custom collective as recorded. */
  whose(flight: number): Record<"operation" | "phase" | "chunk", number>;
  /** What is inspected for a link: itself, or its dimension where links are not simulated. */
  link_path(link: number): string;
  /** What the hash is of: names, rows and bytes. */
  simulated(): [name: string, rows: number, bytes: Uint8Array][];
  place(path: string): Place;
  /** Paths of the objects beside ranks and dimensions that are no part of another one. */
  others(): string[];
  /** Paths of the parts of one of these, by their kinds. */
  parts_of_others(path: string): Record<string, Iterable<string>>;
}
/** What operations_engine.js does for both engines. */
export type Shared = Pick<
  OperationEngine,
  | "finish" | "check" | "done" | "state_bytes" | "replica" | "digest" | "recording" | "rewinding" | "rewound" | "unrecorded"
  | "recording_switched" | "install" | "hit" | "reason" | "on_event" | "condition" | "inspect" | "narrate" | "last_phase"
  | "readers" | "read_edit" | "apply" | "directions" | "next_operation" | "place" | "parameters" | "kinds" | "fields"
  | "recorded" | "why" | "objects" | "part_kinds" | "parts" | "is_point"
>;
/** What each is given. */
export interface Special {
  tables: Tables;
  about: About;
  /** The tables that conditions may name, in the order of their numbers. */
  owners(): Table[];
  simulatedTables(): Table[];
  place(path: string): Place;
  /** Kinds of events that one can stop on. */
  kinds: string[];
  /** What conditions may name of an object, by its kind. */
  fields: Record<string, object>;
  /** The words that a run knows only where it records. */
  recorded(place: Place): string[];
  why(path: string): Why;
  inspectors: Record<string, (engine: OperationEngine, place: Place) => Shown>;
  /** What was reported last, in words. */
  happened(): string;
  condition_field(path: string, word: string): ConditionField;
  on_event(kind: string | null, path: string | null): Breakpoint;
  readers(path: string): [path: string, readers: Record<string, (engine: any) => number>];
  read_edit(path: string, value: unknown): Edit;
  apply(edit: Edit): void;
  directions(link: string, both: boolean): string[];
  parameters(path: string): Parameter[];
  /** A condition, for an error message. */
  example: string;
}
