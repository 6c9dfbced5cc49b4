"""Ctrl-C on the command line: whatever the process does, it ends soon, with one line and code 130.

Python acts on a signal between two bytecodes of the main thread, so one long call of NumPy or of the
compiler would delay it. A thread is woken by the signal itself; if the main thread has not ended the
process after a grace period, that thread does. This file loads before all others of the command line
and imports almost nothing, because imports can be interrupted too.
"""

from __future__ import annotations

import _thread
import gc
import os
import signal
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["EXIT_CODE", "MESSAGE", "run_interruptible", "stop_code", "stoppable"]

EXIT_CODE = 130
MESSAGE = "astranb: interrupted\n"

_GRACE_S = 0.1  # the main thread unwinds in this time, where it can
_FINISH_S = 20.0  # or, where it has results to tell, in this one
_AGAIN_S = 0.05
_grace_s = [_GRACE_S]
_stopped: list[int] = []
_ending = _thread.allocate_lock()


def stop_code() -> int | None:
    """Return the exit code of a command that was stopped in :func:`stoppable`; None: it was not.

    It is 0 where its time is over, else as of a process that a signal ends.
    """
    return next((0 if number == signal.SIGALRM else 128 + number for number in _stopped), None)


@contextmanager
def stoppable(limit_s: float | None = None) -> Iterator[None]:
    """Stop a command at Ctrl-C, SIGTERM or a time limit, so that it can report what it has.

    Each raises KeyboardInterrupt in the main thread, and sets :func:`stop_code`, since what is interrupted
    may replace the error. Where it is lost, because a callback of compiled code or a finalizer was
    running, it is raised again. The next signal ends the process.

    Parameters
    ----------
    limit_s : float, optional
        The time; without it there is no limit.
    """
    import threading  # not above: an interrupt of this file's imports would have a traceback

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGTERM, signal.SIGALRM]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        numbers.append(signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    report = sys.unraisablehook

    def restore() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = report
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(number: int, _frame: Any) -> None:
        restore()
        sys.unraisablehook = once_more
        signal.signal(signal.SIGALRM, stop)
        _stopped.append(number)
        raise KeyboardInterrupt

    def once_more(error: sys.UnraisableHookArgs) -> None:
        if error.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        else:
            report(error)

    _grace_s[0] = _FINISH_S
    _stopped.clear()
    for number in numbers:
        signal.signal(number, stop)
    try:
        # To the timer, 0 is no limit.
        signal.setitimer(signal.ITIMER_REAL, 0 if limit_s is None else max(limit_s, 1e-6))
        yield
    finally:
        restore()
        # An exec of a library that was interrupted has left a mark by which Python would end the process
        # with the signal, however well all went after it; the next exec removes it.
        exec("")  # noqa: S102
        _grace_s[0] = _GRACE_S
        _stopped.clear()


def run_interruptible(command: Callable[[], int]) -> NoReturn:
    """Run a command in the main thread, and end the process with its exit code.

    Parameters
    ----------
    command : callable
        Returns the exit code; raises KeyboardInterrupt where it is interrupted.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell
        raise SystemExit(command())
    interrupted: list[int] = []

    def remember(number: int, _frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        interrupted.append(number)
        raise KeyboardInterrupt

    # A full collection of the objects of a large document would take longer than an interrupt may.
    gc.set_threshold(10_000, 10, 1000)
    report = sys.unraisablehook
    sys.unraisablehook = lambda error: None if interrupted else report(error)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    _thread.start_new_thread(_watch, (reading,))
    signal.signal(signal.SIGINT, remember)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        code = command()
    except BaseException:  # some libraries replace the KeyboardInterrupt by an error of their own
        if interrupted:
            with suppress(OSError, ValueError):
                sys.stdout.flush()  # where it blocks, the thread ends the process
            _end()  # here, before what the frames hold is freed
        raise
    if interrupted:
        _end()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command has ended: the interpreter goes
    raise SystemExit(code)


def _watch(reading: int) -> None:
    """Wait for the signal, then for the main thread, then end the process."""
    while os.read(reading, 1) != bytes([signal.SIGINT]):
        pass
    time.sleep(_grace_s[0])
    _end()


def _end() -> NoReturn:
    """End the process at once: the interpreter would need time to free what it holds."""
    if not _ending.acquire(blocking=False):  # the other thread ends the process
        while True:
            time.sleep(1)
    files = sys.modules.get("astranb.core.files")
    if files is not None and hasattr(files, "remove_unfinished"):
        files.remove_unfinished()
    with suppress(OSError):
        os.write(2, MESSAGE.encode())
    os._exit(EXIT_CODE)
