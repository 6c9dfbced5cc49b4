"""Ctrl-C on the command line: code 130, one line and no traceback, whenever it comes and whatever runs."""

import os
import random
import signal
import subprocess
import sys

import pytest

from benchmarks.hostile import commands, interrupt

INTERRUPTED = "astranb: interrupted\n"
AT_IMPORT = """
import os, signal, sys
from astranb.cli import entry
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)
wanted = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupt())
entry()
"""
IN_A_LIBRARY = """
import hashlib, sys
from pathlib import Path
from astranb.core.files import whole_file
from astranb.core.interrupt import run_interruptible
def work():
    with whole_file(Path(sys.argv[1])) as file:
        file.write(b"half of it")
        print("begins", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 10**9)  # one call of many minutes
    return 0
run_interruptible(work)
"""
HIDDEN = """
import os, signal
from astranb.core.interrupt import run_interruptible
class Last:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**6):
            pass
def work():
    Last()
    raise ImportError("a library replaces the interrupt")
run_interruptible(work)
"""


@pytest.mark.parametrize(
    "module",
    ["argparse", "astranb.core.errors", "astranb.cli.run", "numpy", "numpy.linalg", "astranb.net"],
)
def test_during_the_imports(module):
    command = [
        sys.executable,
        "-c",
        AT_IMPORT,
        module,
        "run",
        "collective",
        "all_reduce",
        "--infra",
        "dgx-h100",
    ]
    done = subprocess.run(
        [*command, "--size", "4KiB"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (130, INTERRUPTED, "")


def test_within_one_long_call_of_a_library(tmp_path):
    file = tmp_path / "out"
    command = [sys.executable, "-c", IN_A_LIBRARY, str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)  # and again
    _, err = process.communicate(timeout=30)  # the call itself takes longer
    assert (process.returncode, err) == (130, INTERRUPTED)
    assert list(tmp_path.iterdir()) == []


def test_where_it_is_swallowed_or_replaced():
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, INTERRUPTED)


def test_in_the_background_of_a_shell_it_stays_ignored():
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code += "from astranb.core.interrupt import run_interruptible\nimport os\n"
    code += "run_interruptible(lambda: os.kill(os.getpid(), signal.SIGINT) or 7)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 7


@pytest.mark.slow
def test_at_random_moments_of_any_command(tmp_path):
    draw = random.Random(os.environ.get("ASTRANB_SEED", "17"))
    worst: dict[str, float] = {}
    for name, (argv, seconds) in commands(tmp_path).items():
        for _ in range(8):
            code, err, took = interrupt(argv, 0.1 + seconds * draw.random())
            assert (code, err) in {(130, INTERRUPTED), (0, "")}, (name, code, err)
            worst[name] = max(worst.get(name, 0), took)
    print({name: round(took, 3) for name, took in worst.items()})  # shown by pytest -s
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
