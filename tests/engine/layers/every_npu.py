"""A second, slow implementation of ASTRA-sim 1.0 that simulates every NPU and every message.

It follows the C++ program: each NPU keeps the callbacks of a timestep together, messages match their
receives by tag, peers and size, and a chunk enters its next phase when all NPUs have ended the last
one. The layer engine, which simulates one NPU, is compared with it.
"""

import heapq
from collections import defaultdict, deque
from typing import Any

import numpy as np

from astranb.engine.layers.build import ProgramBuilder
from astranb.workload.astrasim1 import LayerWorkload
from astranb.workload.astrasim1.loops import WEIGHT_GRADIENT

NAMES = {"ALLREDUCE": "all-reduce", "ALLGATHER": "all-gather", "REDUCESCATTER": "reduce-scatter"}


class Clock:
    """The network's event queue: by time, and at one time in the order of scheduling."""

    def __init__(self):
        self.now, self.times, self.at = 0, [], {}

    def put(self, delay, call):
        time = self.now + delay
        if time not in self.at:
            self.at[time] = []
            heapq.heappush(self.times, time)
        self.at[time].append(call)

    def run(self):
        while self.times:
            self.now = self.times[0]
            for call in self.at[self.now]:  # grows during the iteration
                call()
            heapq.heappop(self.times)
            del self.at[self.now]


class EveryNpu:
    """The simulation."""

    def __init__(self, inputs: LayerWorkload) -> None:
        self.workload, self.system, self.network = inputs.table, inputs.system, inputs.network
        program = ProgramBuilder(inputs)
        self.levels, self.masks, self.steps = program.levels, program.masks, program.steps()
        self.step_ns, self.passes, self.planner = program.loop.step_ns, inputs.passes, program.planner
        self.clock = Clock()
        self.sends: Any = defaultdict(deque)
        self.receives: Any = defaultdict(deque)
        self.declared: Any = defaultdict(int)
        self.ready: Any = defaultdict(int)
        self.asleep: Any = defaultdict(list)
        self.delays: dict[tuple[int, int, int], int] = {}
        self.sent_bytes = 0
        self.orders: dict[int, tuple[list[int], int]] = {}
        self.timestep = 0
        self.ended_at: dict[int, Any] = {}  # a timestep, and what ended then
        self.coincidence = False  # two phases, or a phase and a computation or update, ended in one timestep
        self.npus = [Npu(self, rank) for rank in range(inputs.network.npus)]
        for npu in self.npus:
            npu.go_on()
        self.clock.run()

    def ends(self, what):
        self.coincidence |= self.ended_at.setdefault(self.clock.now, what) != what

    def declare(self, stream):
        self.declared[stream.tag] += 1
        if self.declared[stream.tag] == len(self.npus):
            self.declared[stream.tag] = 0
            self.ready[stream.tag] = len(self.npus)

    def delay(self, src, dst, size):
        key = (src, dst, size)
        if key not in self.delays:
            self.delays[key] = int(self.network.delay_ps(np.array([src]), np.array([dst]), size)[0]) // 1000
        return self.delays[key]

    def order(self, tag, left, usual, mask, *, gather):
        """Themis decides once for a chunk, at the first NPU that asks."""
        themis: Any = self.planner._themis
        if tag not in self.orders:
            if self.timestep != self.clock.now:
                themis.reset()
                self.timestep = self.clock.now
            self.orders[tag] = themis.schedule(left, usual, mask, gather=gather)
        return self.orders[tag]

    def send(self, src, dst, tag, size):
        if src == 0:
            self.sent_bytes += size
        delay = self.delay(src, dst, size)
        key = (tag, src, dst, size)
        self.clock.put(delay, lambda: None)
        if self.receives[key]:
            self.clock.put(delay, self.receives[key].popleft())
        else:
            self.sends[key].append(self.clock.now + delay)

    def receive(self, src, dst, tag, size, call):
        key = (tag, src, dst, size)
        if self.sends[key]:
            self.clock.put(max(self.sends[key].popleft() - self.clock.now, 0), call)
        else:
            self.receives[key].append(call)


class Npu:
    """One NPU: its scheduled callbacks, its program, its queues."""

    def __init__(self, whole, rank):
        self.whole, self.rank = whole, rank
        self.calls = {}
        self.queues = defaultdict(list)
        self.running = defaultdict(int)
        self.turns = defaultdict(int)
        self.rotation = self.tag = self.priority = 0
        self.trees = defaultdict(int)
        self.at = (0, 0, 0)  # pass, step, action
        self.under_way, self.since = defaultdict(int), {}
        self.exposed, self.total, self.compute = defaultdict(int), defaultdict(int), defaultdict(int)
        self.left, self.ending, self.end = 0, False, None

    def schedule(self, delay, call):
        time = self.whole.clock.now + delay
        if time not in self.calls:
            self.calls[time] = []
            self.whole.clock.put(delay, lambda: self.keep(time))
        self.calls[time].append(call)

    def keep(self, time):
        for call in self.calls[time]:
            call()
        del self.calls[time]

    # The program.
    def go_on(self):
        whole = self.whole
        while True:
            turn, step, action = self.at
            if turn == whole.passes:
                self.finish()
                return
            if action == len(whole.steps[step]):
                self.at = (turn + 1, 0, 0) if step + 1 == len(whole.steps) else (turn, step + 1, 0)
                if whole.step_ns:
                    self.schedule(whole.step_ns, self.resume)
                    return
                continue
            what = whole.steps[step][action]
            layer = whole.workload.layers[what.layer]
            part = (layer.forward, layer.input_gradient, layer.weight_gradient)[what.part]
            slot = (what.layer, what.part)
            if what.verb == "wait" and self.under_way[slot]:
                self.since.setdefault(slot, whole.clock.now)
                return
            self.at = (turn, step, action + 1)
            if what.verb == "issue" and part.collective != "NONE":
                self.issue(slot, part, layer.update_ns, first=what.first)
            elif what.verb == "compute" and part.compute_ns:
                self.compute[slot] += part.compute_ns
                self.schedule(part.compute_ns, self.resume)
                return

    def resume(self):
        self.whole.ends("computation")
        self.go_on()

    def finish(self):
        if not self.ending and self.left:
            self.ending = True
            slot = (0, WEIGHT_GRADIENT)
            if self.under_way[slot]:
                self.since.setdefault(slot, self.whole.clock.now)
        elif not self.left and self.end is None:
            self.end = self.whole.clock.now

    def updated(self, slot, issued, chunks):
        now = self.whole.clock.now
        if self.whole.workload.layers[slot[0]].update_ns:
            self.whole.ends(slot)
        self.total[slot] += now - issued
        self.under_way[slot] -= 1
        if slot in self.since:
            self.exposed[slot] += now - self.since.pop(slot)
            self.go_on()
        self.left -= chunks
        if self.ending:
            self.finish()

    # The system layer.
    def issue(self, slot, part, update, *, first):
        system, now = self.whole.system, self.whole.clock.now
        priority = 100_000_000
        if not first:
            priority = self.priority
            self.priority += 1 if system.lifo else -1
        name = NAMES.get(part.collective, "all-to-all")
        dims = self.whole.planner._dimensions[name]
        mask = self.whole.masks[slot[0]][slot[1]]
        active = [d for d in range(len(dims)) if dims[d].nodes > 1 and mask >> d & 1]
        if not active:
            return
        usual = max(part.size // system.splits, 1)
        self.under_way[slot] += 1
        state = {"left": 0, "count": 0}

        def over():
            state["left"] -= 1
            if state["left"] == 0:
                self.schedule(update, lambda: self.updated(slot, now, state["count"]))

        themis = self.whole.planner._themis
        left = part.size
        while left > 0:
            size = min(usual, left)
            state["left"] += 1
            state["count"] += 1
            self.left += 1
            order = list(range(len(dims)))
            if name == "all-gather":
                order.reverse()
            if system.between == "roundRobin":
                order = order[self.rotation :] + order[: self.rotation]
                self.rotation = (self.rotation + 1) % len(order)
            elif themis is not None and name != "all-to-all":
                order, size = self.whole.order(self.tag, left, usual, mask, gather=name == "all-gather")
            left -= size
            order = [d for d in order if d in active]
            if name != "all-reduce" or system.baseline:
                phases = [(name, d) for d in order]
            elif themis is not None:
                phases = [("reduce-scatter", d) for d in order] + [("all-gather", d) for d in reversed(order)]
            else:
                phases = [("reduce-scatter", d) for d in order[:-1]] + [("all-reduce", order[-1])]
                phases += [("all-gather", d) for d in reversed(order[:-1])]
            self.admit(Stream(self, self.tag, priority, phases, name, size, over))
            self.tag += 1

    def admit(self, stream):
        self.put_in_or_sleep(stream)
        self.wake(stream.queue)

    def put_in_or_sleep(self, stream):
        if stream.enabled:
            self.put_in(stream)
        else:
            self.whole.declare(stream)
            self.whole.asleep[stream.tag].append(stream)

    def put_in(self, stream):
        queue, system = self.queues[stream.queue], self.whole.system
        within = system.within if stream.does in ("reduce-scatter", "all-gather") else "FIFO"
        at = 0
        while at < len(queue):
            other = queue[at]
            if other.started:
                pass
            elif within in ("SCF", "smallestFirst"):
                if other.size >= stream.size:
                    break
            elif within == "lessRemainingPhaseFirst":
                if len(other.plan) - other.phase >= len(stream.plan) - stream.phase:
                    break
            elif other.priority < stream.priority:
                break
            at += 1
        queue.insert(at, stream)

    def wake(self, queue):
        limit = -(-self.whole.system.active_chunks // self.whole.system.queues)
        waiting = self.queues[queue][self.running[queue] :]
        for stream in waiting:
            if self.running[queue] >= limit:
                return
            stream.started = True
            stream.begin()
            self.running[queue] += 1

    def proceed(self, stream):
        """A phase is over here; it goes on when it is over everywhere."""
        whole, tag = self.whole, stream.tag
        if whole.ready[tag] == 0:
            whole.asleep[tag].append(stream)
            return
        whole.ready[tag] -= 1
        whole.ends(tag)
        if len(whole.asleep[tag]) == len(whole.npus) - 1:
            others, whole.asleep[tag] = whole.asleep[tag], []
            for other in others:
                other.npu.proceed(other)
        last = stream.queue
        final = stream.phase == len(stream.plan) - 1
        if final:
            stream.over()
        if stream.enabled:
            self.queues[last].remove(stream)
        if final:
            self.running[last] -= 1
            self.wake(last)
            return
        stream.load(stream.phase + 1)
        self.put_in_or_sleep(stream)
        self.running[last] -= 1
        self.wake(last)
        self.wake(stream.queue)


class Stream:
    """One chunk at one NPU."""

    def __init__(self, npu, tag, priority, plan, name, size, over):
        self.npu, self.tag, self.priority, self.plan, self.over = npu, tag, priority, [], over
        system, planner = npu.whole.system, npu.whole.planner
        for does, dim in plan:
            algorithm, nodes, stride = planner._dimensions[name][dim]
            tree = 0
            if algorithm.name == "doubleBinaryTree":
                does = "all-reduce"  # noqa: PLW2901
                tree = npu.trees[name, dim] % 2
                npu.trees[name, dim] += 1
            queue = dim * system.queues + npu.turns[dim]
            npu.turns[dim] = (npu.turns[dim] + 1) % system.queues
            self.plan.append((does, algorithm, nodes, stride, queue, size, tree))
            if does == "all-gather":
                size *= nodes
            elif does == "reduce-scatter":
                size //= nodes
        self.load(0)

    def load(self, phase):
        self.phase, self.started, self.enabled = phase, False, True
        self.does, self.algorithm, self.nodes, self.stride, self.queue, self.size, self.tree = self.plan[
            phase
        ]
        self.index = self.npu.rank // self.stride % self.nodes
        self.origin = self.npu.rank - self.index * self.stride
        self.enabled = self.origin == 0 or not self.npu.whole.system.boost

    def member(self, index):
        return self.origin + index % self.nodes * self.stride

    def reduce_ns(self, size):
        return 3 * (size // 500_000)

    def bundle(self, size, *, reduced):
        endpoint = self.npu.whole.system.endpoint_ns
        if reduced:
            self.npu.schedule(endpoint, lambda: self.npu.schedule(self.reduce_ns(size), self.passed))
        else:
            self.npu.schedule(endpoint, self.passed)

    def leave(self):
        self.npu.whole.declare(self)
        self.npu.proceed(self)

    def begin(self):
        self.sent = self.free = self.received = self.plain = self.reduced = 0
        self.toggle = False
        name, n, d = self.algorithm.name, self.nodes, self.size
        if name == "doubleBinaryTree":
            self.begin_tree()
            return
        self.window = 1
        self.message = d if self.does == "all-gather" else d // n
        self.total = {"all-reduce": 2 * (n - 1)}.get(self.does, n - 1)
        if self.does == "all-to-all" and name == "ring":
            self.total = n * (n - 1) // 2
        self.reductions = n - 1
        self.packets: Any = deque()
        if name == "direct":
            self.window = n - 1 if self.algorithm.window < 0 else min(self.algorithm.window, n - 1)
            self.reductions = self.window
            self.peer = 1
        elif name == "halvingDoubling":
            levels = n.bit_length() - 1
            self.total = 2 * levels if self.does == "all-reduce" else levels
            self.reductions = levels - 1
            self.offset: Any = n // 2 if self.does == "all-gather" else 1
            self.factor: Any = 0.5 if self.does == "all-gather" else 2
            self.message = d if self.does == "all-gather" else d // 2
        else:
            self.peer = 1
        for _ in range(self.window):
            self.insert()

    def insert(self):
        if self.plain == 0 and self.reduced == 0:
            self.plain, self.reduced, self.toggle = self.window, self.reductions, not self.toggle
        reduced = False
        if self.plain:
            self.plain -= 1
        else:
            self.reduced -= 1
            reduced = self.does == "reduce-scatter" or (self.does == "all-reduce" and self.toggle)
        if self.algorithm.name == "halvingDoubling":
            partner = self.member(self.index ^ self.offset)
            self.packets.append((partner, partner, self.message))
            self.bundle(self.message, reduced=reduced)
            self.offset = int(self.offset * self.factor)
            self.message = int(self.message / self.factor)
            if self.offset == self.nodes and self.does == "all-reduce":
                self.factor = 0.5
                self.offset //= 2
                self.message *= 2
        else:
            ahead, behind = self.member(self.index + self.peer), self.member(self.index - self.peer)
            self.packets.append((ahead, behind, self.message))
            self.bundle(self.message, reduced=reduced)
            if self.algorithm.name == "direct":
                self.peer = self.peer % (self.nodes - 1) + 1

    def send_next(self):
        if not self.packets or self.sent == self.total or not self.free:
            return
        ahead, behind, size = self.packets.popleft()
        self.npu.whole.send(self.npu.rank, ahead, self.tag, size)
        self.npu.whole.receive(behind, self.npu.rank, self.tag, size, self.came)
        self.sent += 1
        self.free -= 1

    def came(self):
        if self.algorithm.name == "doubleBinaryTree":
            self.tree_came()
            return
        self.received += 1
        self.insert()

    def passed(self):
        if self.algorithm.name == "doubleBinaryTree":
            self.tree_passed()
            return
        self.free += 1
        turns = 1
        half = self.nodes - 1
        if self.algorithm.name == "direct" and self.does == "all-reduce" and self.total - self.sent <= half:
            if self.received < half:
                return
            turns = self.window
        for _ in range(turns):
            self.send_next()
        if self.sent == self.total and self.free == self.window:
            self.leave()

    # Trees: the whole chunk goes up and down.
    def begin_tree(self):
        shift = 1 - self.tree
        root = self.nodes - 1 if self.tree == 0 else 0
        number = self.index + shift
        half = (number & -number) // 2
        self.children = [] if self.index != root else [self.nodes // 2 - shift]
        self.parent = None
        if self.index != root:
            if half:
                self.children = [number - half - shift, number + half - shift]
            up = number + 2 * half if half else number + 1
            width = number & -number
            up = number - width if number // width % 4 == 3 else number + width
            self.parent = root if number == self.nodes // 2 else up - shift
        self.state = "up"
        self.waits = len(self.children)
        self.done = 0
        if not self.children:
            self.bundle(self.size, reduced=False)
        for child in self.children:
            self.expect(child)

    def expect(self, index):
        self.npu.whole.receive(self.member(index), self.npu.rank, self.tag, self.size, self.came)

    def pass_on(self, index):
        self.npu.whole.send(self.npu.rank, self.member(index), self.tag, self.size)

    def tree_came(self):
        self.bundle(self.size, reduced=bool(self.children))

    def tree_passed(self):
        self.done += 1
        if self.state == "up":
            if self.children and self.done < self.waits:
                return
            if self.parent is not None:
                self.state = "down"
                self.pass_on(self.parent)
                self.expect(self.parent)
                return
        for child in self.children:
            self.pass_on(child)
        self.leave()
