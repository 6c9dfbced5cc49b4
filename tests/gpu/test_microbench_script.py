"""``benchmarks/gpu_microbench.py`` without a GPU: its kernels as C++, and CuPy by a stand-in."""

import ctypes
import ctypes.util
import importlib.util
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import astranb as anb

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu_microbench.py"

_BEFORE = r"""
#include <time.h>
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_MEMORY_SCOPE_AGENT 0
#define __hip_atomic_load(from, order, scope) __atomic_load_n(from, order)
#define __global__
#define __device__ static
#define __forceinline__ inline
struct place { unsigned x; };
static thread_local place blockIdx, threadIdx, blockDim, gridDim;
struct ulonglong2 { unsigned long long x, y; };
static unsigned long long clock64() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ull + now.tv_nsec;
}
static void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
"""
_AFTER = r"""
template <class Kernel> static void grid(unsigned blocks, unsigned threads, Kernel kernel) {
  gridDim.x = blocks;
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel();
}
#define RUN(name, given) \
  extern "C" void run_##name(unsigned blocks, unsigned threads, void** a) { \
    grid(blocks, threads, [&] { name given; }); \
  }
#define W(n) ((word*)a[n])
#define V(n) ((wide)a[n])
RUN(nothing, ())
RUN(chase, (W(0), V(1), V(2), (wide*)a[3]))
RUN(chase_each, (W(0), V(1), V(2), W(3), (wide*)a[4]))
RUN(stream, ((wide*)a[0], V(1), V(2), W(3)))
RUN(fence, (W(0), V(1), (wide*)a[2]))
RUN(pingpong, (W(0), W(1), W(2), V(3), V(4), V(5), V(6), (wide*)a[7]))
RUN(copy, ((ulonglong2*)a[0], (ulonglong2*)a[1], V(2)))
"""


def load():
    spec = importlib.util.spec_from_file_location("gpu_microbench", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The kernels, compiled as C++: one thread after the other."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.cpp").write_text(_BEFORE + load().SOURCE + _AFTER)
    command = [compiler, "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "kernels.cpp", "-o", "kernels.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


def call(kernels, name, blocks, threads, arguments):
    words = [a.ctypes.data if isinstance(a, np.ndarray) else int(a) for a in arguments]
    packed = (ctypes.c_void_p * max(1, len(words)))(*words)
    getattr(kernels, f"run_{name}")(blocks, threads, packed)


class Memory(np.ndarray[Any, Any]):
    """Memory of a GPU as CuPy gives it."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self):
        return np.array(self)


class Stream:
    """Kernels run at once, but those that wait for one another in threads."""

    current: Any = None
    ptr = 0

    def __init__(self, **_):
        self.threads: list[threading.Thread] = []
        self.captured: list[Any] | None = None

    def __enter__(self):
        Stream.current = self

    def __exit__(self, *_):
        Stream.current = None

    def run(self, name, work):
        if self.captured is not None:
            self.captured.append(work)
        elif name == "pingpong":
            self.threads.append(threading.Thread(target=work))
            self.threads[-1].start()
        else:
            work()

    def synchronize(self):
        for thread in self.threads:
            thread.join()
        self.threads.clear()

    def begin_capture(self):
        self.captured = []

    def end_capture(self):
        works, self.captured = self.captured or [], None
        return SimpleNamespace(launch=lambda _: [work() for work in works])


class Event:
    def record(self, _stream):
        self.at = time.perf_counter()

    def synchronize(self):
        pass


class Nowhere:
    """The device that is the present one: it makes no difference here."""

    def __init__(self, number):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class CUDARuntimeError(RuntimeError):
    pass


def stand_in(kernels, gpus=2, **said):
    def function(name):
        def launch(blocks, threads, arguments):
            def work():
                call(kernels, name, blocks[0], threads[0], arguments)

            (Stream.current or Stream()).run(name, work)

        launch.kernel = SimpleNamespace(ptr=0)  # type: ignore[attr-defined]
        return launch

    properties = {
        "name": b"Paper GPU", "multiProcessorCount": 3, "l2CacheSize": 1 << 20, "totalGlobalMem": 32 << 20,
        "major": 9, "minor": 0, "clockRate": 1_000_000, "memoryClockRate": 0, "memoryBusWidth": 64, **said,
    }  # fmt: skip

    def attribute(name, _number):
        if name == "memory":
            return 500_000
        raise CUDARuntimeError("invalid")

    runtime = SimpleNamespace(
        is_hip=False,
        CUDARuntimeError=CUDARuntimeError,
        cudaDevAttrMemoryClockRate="memory",
        getDeviceCount=lambda: gpus,
        getDeviceProperties=lambda _: properties,
        deviceGetAttribute=attribute,
        deviceCanAccessPeer=lambda *_: True,
        deviceEnablePeerAccess=lambda _: None,
        deviceSynchronize=lambda: None,
        driverGetVersion=lambda: 12040,
        runtimeGetVersion=lambda: 12040,
    )
    driver = SimpleNamespace(launchKernel=lambda *_: call(kernels, "nothing", 1, 1, ()))
    cuda = SimpleNamespace(
        runtime=runtime, driver=driver, Stream=Stream, Event=Event, Device=Nowhere,
        get_elapsed_time=lambda a, b: (b.at - a.at) * 1e3,
    )  # fmt: skip
    return SimpleNamespace(
        cuda=cuda,
        RawModule=lambda **_: SimpleNamespace(get_function=function),
        zeros=lambda n, dtype: np.zeros(n, dtype).view(Memory),
        asarray=lambda words: words.copy().view(Memory),
    )


def test_the_kernels_do_what_they_should(kernels):
    script = load()
    gpu = script.Gpu(stand_in(kernels), 0, 3)
    ring, out = gpu.ring(128 * 100), np.zeros(4, np.uint64)
    seen = set()
    for steps in range(100):
        call(kernels, "chase", 1, 1, (ring, 0, steps, out))
        seen.add(int(out[0]))
    assert seen == set(range(0, 3200, 32))  # every line, each once
    call(kernels, "chase", 1, 1, (ring, 0, 100, out))
    assert out[0] == 0  # and back
    source, target = np.arange(4096, dtype=np.uint32), np.zeros(4096, np.uint32)
    call(kernels, "copy", 3, 64, (source, target, 1000))
    assert (target[:4000] == source[:4000]).all()
    assert not target[4000:].any()


def test_the_whole_script(kernels, monkeypatch, tmp_path, capsys):
    script = load()
    monkeypatch.setitem(sys.modules, "cupy", stand_in(kernels))
    monkeypatch.setattr(script, "_MOVED", 1 << 24)
    monkeypatch.setattr(script, "_TURNS", 50)
    assert script.main(["--output", str(tmp_path / "mine.json"), "--repeats", "3"]) == 0
    assert "astranb gpu from" in capsys.readouterr().out
    document = json.loads((tmp_path / "mine.json").read_text())
    found = anb.gpu.read_measured(tmp_path / "mine.json")
    assert (found.device, found.clock_MHz, found.memory_GBps) == ("Paper GPU", 1000, 8)
    facts = {"sms": 3, "l2_bytes": 1 << 20, "near_bytes": 1 << 19, "memory_bytes": 32 << 20}
    assert found.facts == facts
    # On a busy processor times may cross, and a thread wait too long for another; nothing else may go wrong.
    late = ("cannot be", "flag did not come")
    assert [row for row in document["left_out"] if not row["why"].endswith(late)] == []
    left_out = {row["what"] for row in document["left_out"]}
    known = set(anb.gpu.measured.ROWS) | {f"copy to a peer, {n} blocks" for n in (1, 3)}
    assert found.rows.keys() | left_out == known
    assert len(left_out) < 6


def test_one_gpu_has_no_peer(kernels):
    script = load()
    options = SimpleNamespace(gpu=0, peer=None)
    script.choose_peer(stand_in(kernels, gpus=1), options, 1)
    assert options.peer is None


def test_caches_of_amd():
    script = load()
    die = SimpleNamespace(hip=True, arch="gfx942:sramecc+", l2_bytes=4 << 20, version=(9, 4))
    assert script.sizes(die, None, None) == (256 << 20, 4 << 20)
    assert script.sizes(die, 8 << 20, 1 << 20) == (8 << 20, 1 << 20)


def run(*arguments, prelude=""):
    path = repr(str(SCRIPT))
    start = f"import runpy, sys; sys.argv[0] = {path}; runpy.run_path({path}, run_name='__main__')"
    code = f"{prelude}\n{start}"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


NO_CUPY = "import sys; sys.modules['cupy'] = None"
BROKEN = """
import sys, types
class CUDARuntimeError(RuntimeError): pass
def count(): raise CUDARuntimeError('cudaErrorInsufficientDriver: too old')
cupy = types.ModuleType('cupy')
runtime = types.SimpleNamespace(CUDARuntimeError=CUDARuntimeError, getDeviceCount=count)
cupy.cuda = types.SimpleNamespace(runtime=runtime)
sys.modules['cupy'] = cupy
"""

TWO_GPUS = "runtime.getDeviceCount = lambda: 2"


def test_help_needs_no_cupy():
    done = run("--help", prelude=NO_CUPY)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--cache-bytes" in done.stdout


@pytest.mark.parametrize(
    "arguments,prelude,says",
    [
        (["--output", "x.json"], NO_CUPY, "CuPy is missing"),
        (["--output", "x.json"], BROKEN, "no GPU can be used: cudaErrorInsufficientDriver"),
        (["--output", "x.json"], BROKEN + TWO_GPUS.replace("2", "0"), "there is no GPU here"),
        (["--output", "x.json", "--gpu", "2"], BROKEN + TWO_GPUS, "there are 2 GPUs"),
        (["--output", "no/such/x.json"], NO_CUPY, "--output: there is no folder"),
        (["--output", "x.json", "--repeats", "1"], NO_CUPY, "--repeats: at least 3"),
        (["--output", "x.json", "--near-bytes", "1"], NO_CUPY, "at least 65536"),
    ],
)
def test_what_is_missing_is_one_line(arguments, prelude, says):
    done = run(*arguments, prelude=prelude)
    assert done.returncode == 2
    assert done.stderr.startswith("gpu_microbench: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
def test_the_kernels_compile_for_nvidia(arch):
    name = ctypes.util.find_library("nvrtc")
    if name is None:
        pytest.skip("NVRTC is not installed")
    nvrtc, program = ctypes.CDLL(name), ctypes.c_void_p()
    source = load().SOURCE.encode()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={arch}".encode())
    assert nvrtc.nvrtcCompileProgram(program, 1, options) == 0
