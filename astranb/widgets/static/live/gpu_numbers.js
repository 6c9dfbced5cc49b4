// @ts-check
// What the numbers in a machine's tables mean: those of gpu/tables.py and net/port.py, by the same names.

export const NEVER = 2 ** 61; // exact as a number; a time from here on waits for a link that is down

export const EVENT_KINDS = ["launch", "issue", "hop", "l2", "hbm", "return", "wire", "switch", "fence", "fault", "pause", "rate_release", "cnp", "post"];
export const [LAUNCH, ISSUE, HOP, L2, HBM, RETURN, WIRE, SWITCH, FENCE, FAULT, PAUSE, RATE_RELEASE, CNP, POST] = EVENT_KINDS.keys();

export const REQUEST_KINDS = ["load", "store", "signal", "poll"];
export const [LOAD, STORE, SIGNAL, POLL] = REQUEST_KINDS.keys();

export const OP_KINDS = ["move", "signal", "wait", "fence", "compute", "spend", "release", "tile"];
export const [MOVE, NOTIFY, WAIT, FLUSH, COMPUTE, SPEND, RELEASE, TILE] = OP_KINDS.keys();

export const [COPY_ENGINE, NIC] = [1, 2]; // what carries out a list of operations, other than an SM

export const BLOCK_STATES = ["pending", "moving", "signalling", "waiting", "draining", "done"];
export const [PENDING, MOVING, SIGNALLING, WAITING, DRAINING, DONE] = BLOCK_STATES.keys();

export const [ON_FABRIC, ON_CHIP] = [0, 1]; // where a request is
export const IN_VAIN = 2; // what comes back of a read that found nothing
export const [INITIAL, UNWRITTEN, TORN, NEVER_SEEN, LINE_BY_LINE] = [-1, -2, -3, -9, -2]; // writers of a slice, and what a source has seen

export const CLASSES = 4; // queues of a link: requests and responses, data and control
