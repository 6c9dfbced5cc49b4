"""A time limit for a user's code, in the same thread and process."""

from __future__ import annotations

import _thread
import ctypes
import gc
import threading
from collections.abc import Callable
from typing import TypeVar

from .host import THREADS

__all__ = ["OutOfTime", "within"]

_T = TypeVar("_T")
_AGAIN_S = 0.2


class OutOfTime(BaseException):
    """The time is over; no ``Exception``, so that code that goes on after errors ends, too."""


def within(seconds: float, call: Callable[[], _T]) -> _T:
    """Call a function, and end it when its time is over.

    A second thread has the interpreter raise :class:`OutOfTime` in this one
    (``PyThreadState_SetAsyncExc``), between two instructions of Python; it costs nothing
    until then, leaves signals and debuggers alone, and works in any thread. What it cannot
    end is one single call into compiled code that never returns. Where there are no threads nothing
    watches: a page ends the Worker that its Python is.

    Parameters
    ----------
    seconds : float
    call : callable
        Without arguments.

    Returns
    -------
    object
        What it returns.

    Raises
    ------
    OutOfTime
        It took longer.

    Examples
    --------
    >>> within(1.0, lambda: 6 * 7)
    42
    >>> def forever():
    ...     while True:
    ...         pass
    >>> try:
    ...     within(0.05, forever)
    ... except OutOfTime:
    ...     print("ended")
    ended
    """
    if not THREADS:
        return call()
    watch = _Watch(threading.get_ident())
    collects = gc.isenabled()
    gc.disable()  # Python would swallow, with a message, what is raised in a collector's callback
    try:
        _thread.start_new_thread(watch.run, (seconds,))
        return call()
    finally:
        # Interrupted itself, it begins again: nothing may be raised once this function is left.
        while not watch.over:
            try:
                with watch.lock:
                    watch.over = True
                    _raise_in(watch.thread, None)  # what has not been raised yet
            except OutOfTime:
                watch.late = True
        watch.ended.release()
        if collects:
            gc.enable()
        if watch.late:
            raise OutOfTime


class _Watch:
    """State of both threads. Only bare locks: an interrupted ``Event`` or ``Thread`` might stay locked."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.over = self.late = False
        self.lock, self.ended = _thread.allocate_lock(), _thread.allocate_lock()
        self.ended.acquire()

    def run(self, seconds: float) -> None:
        """Wait, and raise; again and again, because a bare ``except:`` may have caught the first one."""
        while not self.ended.acquire(timeout=seconds):
            with self.lock:
                if not self.over:
                    _raise_in(self.thread, OutOfTime)
            seconds = _AGAIN_S


def _raise_in(thread: int, what: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if what is None else ctypes.py_object(what)
    )
