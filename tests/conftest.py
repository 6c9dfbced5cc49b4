"""Fixtures of all tests: examples that can be reproduced, no network, a clean checkout, and a small run."""

from __future__ import annotations

import ipaddress
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

import astranb as anb
from tests.checkout import in_root

# A job that a shell starts in the background (`make test &`, `nohup`) ignores SIGINT, and so does every
# process that it starts. Tests interrupt themselves, commands, servers and kernels.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine is no failure: time is measured by `make bench`, never asserted here.
# Explaining a failure traces every line of a simulation: ten minutes, and the watchdog ends the run unread.
_PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("local", deadline=None, print_blob=True, phases=_PHASES)
# CI tries the same examples every time; people try new ones.
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, database=None)
# `make test-random` draws others, from a seed that it prints and from nothing else.
settings.register_profile("random", settings.get_profile("local"), database=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def _refuse_other_hosts(event: str, arguments: tuple[Any, ...]) -> None:
    """Turn a connection to another machine into an error: nothing of ours may need one."""
    if event != "socket.connect":
        return
    address = arguments[1]
    if not isinstance(address, tuple):  # a Unix socket
        return
    host = str(address[0])
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not local:
        message = f"a test connects to {host}"
        raise ConnectionRefusedError(message)


sys.addaudithook(_refuse_other_hosts)


ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that leaves a file in the root, as programs that write into their own folder do."""
    before = in_root(ROOT)
    result = yield
    left = sorted(in_root(ROOT) - before)
    if left:
        pytest.fail(f"{item.nodeid} left {', '.join(left)} in the checkout: run programs in tmp_path")
    return result


@pytest.fixture(scope="session")
def ring() -> anb.Simulation:
    """A ring all-reduce of 32 KiB on eight GPUs, run to its end; tests only read it."""
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "ring", channels=2))
    sim.run()
    return sim
