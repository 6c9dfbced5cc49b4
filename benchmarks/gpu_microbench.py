"""Measure a real GPU as ``astranb.explore.microbenchmarks`` measures a simulated one.

``python gpu_microbench.py --output my-gpu.json`` on a machine with an NVIDIA or AMD GPU; it needs
Python 3.11, NumPy and CuPy, and nothing of astranb. ``astranb gpu from my-gpu.json`` makes a
preset of what it writes.

It was written on a machine without a GPU and **has not been run on hardware there**. What was
checked: the kernels compile with NVRTC for compute_80 and compute_90, and, taken as C++, do on a
processor what they should (``tests/gpu/test_microbench_script.py``); the whole script runs there
against a stand-in for CuPy. No HIP compiler has seen the HIP branch.

How each row is measured:

- Latencies: one thread follows a random ring of pointers, 128 bytes apart, past the L1. Two lengths
  are timed by events and subtracted, so that launches and first misses cancel. For the far half of
  the L2 each load is timed by the clock: the median of the slower half of the loads.
- Streaming reads: all SMs read 16 bytes a thread, four at a time, past the L1.
- A fence: the clock before a store and behind the ``__threadfence_system`` that follows it.
- Kernels: periods of 500 empty kernels, launched by the driver's own call from Python (which adds
  some tenths of a microsecond), and 500 in one CUDA graph.
- A flag: a thread on each of two GPUs stores to the other's memory and polls its own.
- Copies: so many blocks of 512 threads read their own memory and store to a peer's.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import_error = ""
try:
    import numpy as np
except ImportError as error:
    import_error = f"NumPy is missing ({error}); pip install numpy"

FORMAT, VERSION = "astranb-gpu-microbench", 1

SOURCE = r"""
#if defined(__HIP_PLATFORM_AMD__) || defined(__HIPCC__) || defined(__HIPCC_RTC__)
#define ON_HIP 1
#endif
typedef unsigned int word;
typedef unsigned long long wide;

/* A load past the L1, of a word and of 16 bytes. */
__device__ __forceinline__ word load(const word* from) {
#ifdef ON_HIP
  return __hip_atomic_load(from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
  word got;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(got) : "l"(from) : "memory");
  return got;
#endif
}

__device__ __forceinline__ word load16(const wide* from) {
#ifdef ON_HIP
  wide a = __hip_atomic_load(from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  wide b = __hip_atomic_load(from + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
  wide a, b;
  asm volatile("ld.global.cg.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(from) : "memory");
#endif
  return (word)(a ^ b);
}

extern "C" __global__ void nothing() {}

/* From pointer to pointer; what is read tells where to read next. */
extern "C" __global__ void chase(const word* ring, word start, word steps, wide* out) {
  word at = start;
  wide began = clock64();
  for (word step = 0; step < steps; ++step) at = load(ring + at);
  out[0] = at;
  out[1] = clock64() - began;
}

/* The same, each load by the clock. */
extern "C" __global__ void chase_each(const word* ring, word start, word steps, word* took, wide* out) {
  word at = start;
  for (word step = 0; step < steps; ++step) {
    wide began = clock64();
    at = load(ring + at);
    if (at == 0xffffffffu) break; /* never: the clock is read when the word is there */
    took[step] = (word)(clock64() - began);
  }
  out[0] = at;
}

/* Every block reads the whole of the buffer's pairs once a round, each from its own place on. */
extern "C" __global__ void stream(const wide* from, wide pairs, word rounds, word* out) {
  const wide all = (wide)gridDim.x * blockDim.x;
  const wide me = (wide)blockIdx.x * blockDim.x + threadIdx.x;
  word sum = 0;
  for (word round = 0; round < rounds; ++round) {
    wide pair = me;
    for (; pair + 3 * all < pairs; pair += 4 * all)
      sum ^= load16(from + 2 * pair) ^ load16(from + 2 * (pair + all)) ^
             load16(from + 2 * (pair + 2 * all)) ^ load16(from + 2 * (pair + 3 * all));
    for (; pair < pairs; pair += all) sum ^= load16(from + 2 * pair);
  }
  if (sum == 0x9e3779b9u) out[0] = sum; /* so that nothing is left out */
}

extern "C" __global__ void fence(volatile word* to, word times, wide* out) {
  wide began = clock64();
  for (word time = 0; time < times; ++time) {
    to[time & 1023u] = time;
    __threadfence_system();
  }
  out[1] = clock64() - began;
}

/* Two of these, one a GPU, wake each other. `mine` is polled here, `yours` lies on the other GPU. */
extern "C" __global__ void pingpong(volatile word* mine, volatile word* yours, volatile word* data,
                                    word first, word turns, word fenced, wide most, wide* out) {
  wide began = 0;
  out[0] = 0;
  for (word turn = 1; turn <= turns; ++turn) {
    if (turn == 2) began = clock64(); /* both are there */
    for (word half = 0; half < 2; ++half) {
      if (half == first) {
        if (fenced) {
          data[0] = turn;
          __threadfence_system();
        }
        *yours = turn;
      } else {
        wide polls = 0;
        while (*mine < turn)
          if (++polls > most) return; /* out[0] stays 0 */
        if (fenced) __threadfence_system();
      }
    }
  }
  out[1] = clock64() - began;
  out[0] = 1;
}

extern "C" __global__ void copy(const ulonglong2* from, ulonglong2* to, wide pairs) {
  const wide all = (wide)gridDim.x * blockDim.x;
  wide pair = (wide)blockIdx.x * blockDim.x + threadIdx.x;
  for (; pair + 3 * all < pairs; pair += 4 * all) {
    ulonglong2 a = from[pair], b = from[pair + all], c = from[pair + 2 * all], d = from[pair + 3 * all];
    to[pair] = a;
    to[pair + all] = b;
    to[pair + 2 * all] = c;
    to[pair + 3 * all] = d;
  }
  for (; pair < pairs; pair += all) to[pair] = from[pair];
}
"""

_LINE_WORDS = 32  # 128 bytes
_THREADS = 512
_KERNELS = 500
_TURNS = 2000
_MOST_POLLS = 50_000_000
_MOVED = 16 << 30


class Unusable(Exception):
    """Something is missing: one line, exit code 2."""


class Gpu:
    """One GPU, with what measuring on it needs."""

    def __init__(self, cupy: Any, number: int, repeats: int) -> None:
        self.cupy, self.number, self.repeats = cupy, number, repeats
        runtime = cupy.cuda.runtime
        self.hip = bool(runtime.is_hip)
        with self.on():
            self.module = cupy.RawModule(code=SOURCE)
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.out = cupy.zeros(4, dtype=np.uint64)
            cupy.cuda.runtime.deviceSynchronize()
        said = runtime.getDeviceProperties(number)
        name = said["name"]
        self.name = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
        self.sms = int(said["multiProcessorCount"])
        self.l2_bytes = int(said.get("l2CacheSize", 0))
        self.memory_bytes = int(said["totalGlobalMem"])
        arch = said.get("gcnArchName", b"")
        self.arch = arch.decode(errors="replace") if isinstance(arch, bytes) else str(arch)
        self.version = (int(said.get("major", 0)), int(said.get("minor", 0)))
        self.clock_khz = self._attribute("cudaDevAttrClockRate", said.get("clockRate"))
        self.memory_khz = self._attribute("cudaDevAttrMemoryClockRate", said.get("memoryClockRate"))
        self.memory_bits = self._attribute("cudaDevAttrGlobalMemoryBusWidth", said.get("memoryBusWidth"))

    def on(self) -> Any:
        """The context in which this GPU is the present one."""
        return self.cupy.cuda.Device(self.number)

    def _attribute(self, name: str, told: Any) -> int:
        """A number that newer runtimes give as an attribute only."""
        if told:
            return int(told)
        runtime = self.cupy.cuda.runtime
        try:
            return int(runtime.deviceGetAttribute(getattr(runtime, name), self.number))
        except (AttributeError, runtime.CUDARuntimeError):
            return 0

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        """Launch a kernel on this GPU's stream."""
        with self.on(), self.stream:
            self.module.get_function(name)((blocks,), (threads,), arguments)

    def seconds(self, work: Callable[[], None]) -> float:
        """Seconds that the GPU takes for what is launched, by events."""
        with self.on():
            began, ended = self.cupy.cuda.Event(), self.cupy.cuda.Event()
            began.record(self.stream)
            work()
            ended.record(self.stream)
            ended.synchronize()
            return float(self.cupy.cuda.get_elapsed_time(began, ended)) / 1e3

    def often(self, once: Callable[[], float]) -> tuple[float, float]:
        """Median of some repetitions after one to warm up, and half the distance of the quartiles."""
        once()
        found = sorted(once() for _ in range(self.repeats))
        lower, _, upper = statistics.quantiles(found, n=4)
        return statistics.median(found), (upper - lower) / 2

    def array(self, words: int) -> Any:
        """Zeroed memory on this GPU."""
        with self.on():
            found = self.cupy.zeros(words, dtype=np.uint32)
            self.cupy.cuda.runtime.deviceSynchronize()
            return found

    def ring(self, size: int) -> Any:
        """A random ring of pointers over a footprint, one in each line of 128 bytes."""
        lines = max(2, size // (4 * _LINE_WORDS))
        order = np.random.default_rng(1).permutation(lines).astype(np.uint32)
        words = np.zeros((lines, _LINE_WORDS), dtype=np.uint32)
        words[order, 0] = np.roll(order, -1) * np.uint32(_LINE_WORDS)
        with self.on():
            return self.cupy.asarray(words.reshape(-1))

    def latency(self, size: int) -> Callable[[], float]:
        """Ns of a load somewhere in a footprint: two lengths, subtracted."""
        ring = self.ring(size)
        lines = ring.size // _LINE_WORDS
        steps = max(4096, min(lines, 1 << 18))
        at = 0

        def chase(n: int) -> float:
            # On from where the last one ended: what it has brought in is not read again at once.
            nonlocal at
            arguments = (ring, np.uint32(at), np.uint32(n), self.out)
            seconds = self.seconds(lambda: self.launch("chase", 1, 1, *arguments))
            at = int(self.out.get()[0])
            return seconds

        chase(min(lines, 1 << 21))  # bring it in, where it may fit
        return lambda: (chase(3 * steps) - chase(steps)) / (2 * steps) * 1e9

    def tick_ns(self) -> float:
        """Ns of one count of the clock that kernels read, now."""
        ring = self.ring(1 << 16)

        def chase(steps: int) -> tuple[float, int]:
            arguments = (ring, np.uint32(0), np.uint32(steps), self.out)
            seconds = self.seconds(lambda: self.launch("chase", 1, 1, *arguments))
            return seconds, int(self.out.get()[1])

        chase(1 << 14)  # warms up
        few, many = chase(1 << 14), chase(1 << 17)
        return (many[0] - few[0]) / (many[1] - few[1]) * 1e9

    def far(self, size: int) -> Callable[[], float]:
        """Ns of the slower half of the loads in a footprint: their median."""
        ring, small, tick_ns = self.ring(size), self.ring(1 << 17), self.tick_ns()
        # What reading the clock adds to each load shows where all loads take the same.
        added = float(np.median(self.each(small))) * tick_ns - self.latency(1 << 17)()

        def once() -> float:
            found = np.sort(self.each(ring))
            return float(found[3 * len(found) // 4]) * tick_ns - max(0.0, added)

        return once

    def each(self, ring: Any) -> Any:
        """Counts of the clock that each load along a ring takes, once the ring was gone through."""
        lines = ring.size // _LINE_WORDS
        steps = min(lines, 1 << 18)
        took = self.array(steps)
        self.launch("chase", 1, 1, ring, np.uint32(0), np.uint32(lines), self.out)
        self.launch("chase_each", 1, 1, ring, np.uint32(0), np.uint32(steps), took, self.out)
        self.stream.synchronize()
        return took.get()

    def streaming(self, size: int, moved: int) -> Callable[[], float]:
        """GB/s of reads of a footprint, again and again until enough was moved."""
        words = self.array(size // 4)
        pairs = size // 16
        rounds = max(1, moved // size)

        def once() -> float:
            def read(n: int) -> float:
                arguments = (words, np.uint64(pairs), np.uint32(n), self.out)
                return self.seconds(lambda: self.launch("stream", 4 * self.sms, _THREADS, *arguments))

            return rounds * pairs * 16 / (read(2 * rounds) - read(rounds)) / 1e9

        return once

    def fence(self) -> Callable[[], float]:
        """Ns of a store and the system-wide fence behind it."""
        words, tick_ns, times = self.array(1024), self.tick_ns(), 1000

        def once() -> float:
            self.seconds(lambda: self.launch("fence", 1, 1, words, np.uint32(times), self.out))
            return float(self.out.get()[1]) / times * tick_ns

        return once

    def launches(self) -> Callable[[], float]:
        """Ns from one empty kernel to the next, each launched by the driver's own call."""
        with self.on():
            function = self.module.get_function("nothing")
            function((1,), (1,), ())
            handle, driver = function.kernel.ptr, self.cupy.cuda.driver

        def many() -> None:
            for _ in range(_KERNELS):
                driver.launchKernel(handle, 1, 1, 1, 1, 1, 1, 0, self.stream.ptr, 0, 0)

        return lambda: self.seconds(many) / _KERNELS * 1e9

    def graph(self) -> Callable[[], float]:
        """Ns from one empty kernel of a graph to the next."""
        with self.on(), self.stream:
            self.stream.begin_capture()
            for _ in range(_KERNELS):
                self.module.get_function("nothing")((1,), (1,), ())
            graph = self.stream.end_capture()
        return lambda: self.seconds(lambda: graph.launch(self.stream)) / _KERNELS * 1e9


def sizes(gpu: Gpu, cache: int | None, near: int | None) -> tuple[int, int]:
    """Bytes of the last-level cache, and of the part of it that is near to an SM."""
    whole = cache or gpu.l2_bytes
    if gpu.hip:
        # CDNA 3: what the driver calls L2 is that of one die; behind it is the Infinity Cache.
        large = gpu.arch.startswith(("gfx94", "gfx95"))
        return cache or (256 << 20 if large else whole), near or gpu.l2_bytes
    halves = gpu.version[1] == 0 and gpu.version[0] in (8, 9, 10)  # A100, H100, B200: two partitions
    return whole, near or (whole // 2 if halves else whole)


def peers(cupy: Any, first: int, second: int) -> bool:
    """Enable access of two GPUs to each other's memory, where they can have it."""
    runtime = cupy.cuda.runtime
    if not (runtime.deviceCanAccessPeer(first, second) and runtime.deviceCanAccessPeer(second, first)):
        return False
    for here, there in ((first, second), (second, first)):
        with cupy.cuda.Device(here):
            try:
                runtime.deviceEnablePeerAccess(there)
            except runtime.CUDARuntimeError as error:
                if "AlreadyEnabled" not in str(error) and "already enabled" not in str(error):
                    raise
    return True


def flags(one: Gpu, two: Gpu, fenced: bool) -> Callable[[], float]:
    """Ns of one way of a flag between two GPUs."""
    memory = [gpu.array(1024) for gpu in (one, two)]
    tick_ns = one.tick_ns()

    def once() -> float:
        for gpu, words in zip((one, two), memory, strict=True):
            with gpu.on():
                words.fill(0)
                gpu.cupy.cuda.runtime.deviceSynchronize()
        for first, (gpu, mine, yours) in enumerate(((one, *memory), (two, *memory[::-1]))):
            there = int(yours.data.ptr)
            arguments = (
                mine, np.uint64(there), np.uint64(there + 2048), np.uint32(first), np.uint32(_TURNS),
                np.uint32(fenced), np.uint64(_MOST_POLLS), gpu.out,
            )  # fmt: skip
            gpu.launch("pingpong", 1, 1, *arguments)
        for gpu in (one, two):
            gpu.stream.synchronize()
        done, ticks = (int(word) for word in one.out.get()[:2])
        if not done:
            raise Unusable("the other GPU's flag did not come")
        return ticks * tick_ns / (2 * (_TURNS - 1))

    return once


def copies(one: Gpu, two: Gpu, blocks: int) -> Callable[[], float]:
    """GB/s of a copy from one GPU to the other by so many thread blocks."""
    size = min(256 << 20, blocks << 22)
    source, target = one.array(size // 4), two.array(size // 4)

    def once() -> float:
        def copy(pairs: int) -> float:
            arguments = (source, np.uint64(int(target.data.ptr)), np.uint64(pairs))
            return one.seconds(lambda: one.launch("copy", blocks, _THREADS, *arguments))

        return size / 2 / (copy(size // 16) - copy(size // 32)) / 1e9

    return once


def block_counts(sms: int) -> list[int]:
    """1, 4, 16, 64 and so on, up to a block an SM."""
    found = [1]
    while found[-1] * 4 < sms:
        found.append(found[-1] * 4)
    return [*found, sms] if found[-1] < sms else found


def rows(cupy: Any, options: argparse.Namespace, one: Gpu) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield each quantity to measure, its unit, and the function that prepares the measurement."""
    cache, near = sizes(one, options.cache_bytes, options.near_bytes)
    if cache:
        yield "L2 hit, near", "ns", lambda: one.latency(min(1 << 20, near // 4))
        if near < cache:
            yield "L2 hit, far", "ns", lambda: one.far((near + 3 * cache) // 4 if one.hip else 3 * cache // 4)
        yield "streaming reads, L2", "GB/s", lambda: one.streaming(cache // 4, _MOVED)
    large = min(max(8 * cache, 1 << 30), one.memory_bytes // 4)
    yield "memory", "ns", lambda: one.latency(min(large, 1 << 30))
    yield "streaming reads", "GB/s", lambda: one.streaming(min(2 * large, one.memory_bytes // 2), _MOVED)
    yield "fence after a store", "ns", one.fence
    yield "kernel launch", "ns", one.launches
    yield "kernel in a graph", "ns", one.graph
    if options.peer is None:
        return
    peer = functools.cache(lambda: Gpu(cupy, options.peer, options.repeats))
    yield "flag, one way", "ns", lambda: flags(one, peer(), fenced=False)
    yield "flag behind a fence, one way", "ns", lambda: flags(one, peer(), fenced=True)
    for blocks in block_counts(one.sms):
        yield f"copy to a peer, {blocks} blocks", "GB/s", lambda n=blocks: copies(one, peer(), n)  # type: ignore[misc]


def find_cupy() -> Any:
    """CuPy, once it is sure that it can be used."""
    if import_error:
        raise Unusable(import_error)
    try:
        cupy = importlib.import_module("cupy")  # has no types
    except ImportError as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "it cannot be imported"
        raise Unusable(f"CuPy is missing ({reason}); pip install cupy-cuda12x, or its ROCm build") from None
    return cupy


def gpu_count(cupy: Any) -> int:
    """Count the GPUs; none is an error."""
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise Unusable(f"no GPU can be used: {str(error).splitlines()[0]}") from None
    if count == 0:
        raise Unusable("there is no GPU here; run this on a machine with one")
    return count


def choose_peer(cupy: Any, options: argparse.Namespace, count: int) -> None:
    """The other GPU: the first that has access both ways, where none was asked for."""
    for name, number in (("--gpu", options.gpu), ("--peer", options.peer)):
        if number is not None and not 0 <= number < count:
            raise Unusable(f"{name} {number}: there are {count} GPUs, numbered from 0")
    if options.peer == options.gpu:
        raise Unusable("--peer: a GPU is no peer of itself; give another one")
    asked = options.peer is not None
    candidates = [options.peer] if asked else [n for n in range(count) if n != options.gpu]
    options.peer = next((n for n in candidates if peers(cupy, options.gpu, n)), None)
    if asked and options.peer is None:
        raise Unusable("--peer: the two GPUs have no access to each other's memory")


def _possible(value: float, unit: str) -> None:
    if not 0 < value < 1e9:
        raise Unusable(f"{value:.4g} {unit} cannot be")


def _check(options: argparse.Namespace) -> None:
    """Check that the options make sense."""
    if options.repeats < 3:
        raise Unusable("--repeats: at least 3")
    if any(size is not None and size < 1 << 16 for size in (options.cache_bytes, options.near_bytes)):
        raise Unusable("--cache-bytes, --near-bytes: at least 65536")
    if not options.output.parent.is_dir():
        raise Unusable(f"--output: there is no folder {options.output.parent}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything; what fails is left out, and says so."""
    cupy = find_cupy()
    count = gpu_count(cupy)
    choose_peer(cupy, options, count)
    one = Gpu(cupy, options.gpu, options.repeats)
    cache, near = sizes(one, options.cache_bytes, options.near_bytes)
    runtime = cupy.cuda.runtime
    device = {
        "name": one.name,
        "sms": one.sms,
        "l2_bytes": cache or None,
        "near_bytes": near or None,
        "memory_bytes": one.memory_bytes,
        "clock_MHz": one.clock_khz / 1e3 or None,
        # Two transfers a clock, as every HBM and GDDR that these drivers report in this way.
        "memory_GBps": 2 * one.memory_khz * 1e3 * one.memory_bits / 8 / 1e9 or None,
        "gpus": count,
        "driver": int(runtime.driverGetVersion()),
        "runtime": int(runtime.runtimeGetVersion()),
        "platform": "HIP" if one.hip else "CUDA",
    }
    measured, left_out = [], []
    for what, unit, prepare in rows(cupy, options, one):
        try:
            value, spread = one.often(prepare())
            _possible(value, unit)
        except Exception as error:  # noqa: BLE001 - whatever a driver says, the other rows still count
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            left_out.append({"what": what, "why": reason})
            print(f"{what:<30} left out: {reason}", file=sys.stderr)
            continue
        measured.append({"what": what, "value": value, "unit": unit, "spread": spread})
        print(f"{what:<30} {value:>12.4g} {unit:<5} (half the quartiles' distance {spread:.2g})")
    if not measured:
        raise Unusable(f"nothing could be measured: {left_out[0]['why']}")
    return {
        "format": FORMAT, "version": VERSION, "device": device, "measured": measured, "left_out": left_out,
    }  # fmt: skip


def write(path: Path, document: dict[str, Any]) -> None:
    """Write the document, whole or not at all."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1, allow_nan=False)
            file.write("\n")
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise Unusable(f"{path} cannot be written: {error.strerror or error}") from None


def main(arguments: list[str]) -> int:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description="Measure a GPU, for a preset of astranb.")
    parser.add_argument(
        "-o", "--output", metavar="FILE.json", type=Path, required=True, help="where to write it"
    )
    parser.add_argument("--gpu", type=int, default=0, help="which one (0)")
    parser.add_argument("--peer", type=int, help="for flags and copies (the first with peer access)")
    parser.add_argument("--repeats", type=int, default=9, help="of each measurement (9)")
    parser.add_argument("--cache-bytes", type=int, help="last-level cache (what the driver says)")
    parser.add_argument("--near-bytes", type=int, help="of it, near to an SM (half, of two partitions)")
    options = parser.parse_args(arguments)
    try:
        _check(options)
        document = measure(options)
        write(options.output, document)
    except Unusable as error:
        print(f"gpu_microbench: {error}", file=sys.stderr)
        return 2
    print(f"{options.output}: now `astranb gpu from {options.output} --like h100-sxm --name my-gpu`")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
