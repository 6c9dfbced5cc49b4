from __future__ import annotations

import ctypes
import subprocess
import sys
import time

import pytest

from astranb.core.interrupt import stop_code, stoppable


def wait(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_time_limit_that_a_callback_of_compiled_code_loses_is_raised_again() -> None:
    """As where the compiler calls Python to store what it compiled."""
    callback = ctypes.CFUNCTYPE(None)(lambda: wait(0.2))

    def compile_something() -> None:
        callback()
        wait(10)

    with stoppable(0.1):
        with pytest.raises(KeyboardInterrupt):
            compile_something()
        assert stop_code() == 0


def test_a_time_limit_that_a_finalizer_loses_is_raised_again() -> None:
    class Slow:
        def __del__(self) -> None:
            wait(0.2)

    def free_something() -> None:
        Slow()
        wait(10)

    with stoppable(0.1):
        with pytest.raises(KeyboardInterrupt):
            free_something()
        assert stop_code() == 0


def test_other_errors_of_callbacks_are_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: reported.append(error.exc_type))
    with pytest.raises(KeyboardInterrupt), stoppable(0.1):
        wait(10)
    ctypes.CFUNCTYPE(None)(lambda: wait(1 / 0))()
    assert reported == [ZeroDivisionError]


def test_a_command_whose_library_was_interrupted_in_an_exec_ends_with_its_own_exit_code() -> None:
    program = (
        "from astranb.core.interrupt import stoppable\n"
        "try:\n"
        "    with stoppable(0.1):\n"
        "        exec('while True: pass')\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
