"""End a person's code that does not end by itself, in the same thread and process."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["OutOfTime", "within"]

_T = TypeVar("_T")
_AGAIN_S = 0.2  # a bare ``except:`` may have caught the first one


class OutOfTime(BaseException):
    """The time is over; no ``Exception``, so that code that goes on after errors ends, too."""


def within(seconds: float, call: Callable[[], _T]) -> _T:
    """Call a function, and end it when its time is over.

    A second thread has the interpreter raise :class:`OutOfTime` in this one
    (``PyThreadState_SetAsyncExc``), between two instructions of Python; it costs nothing
    until then, leaves signals and debuggers alone, and works in any thread. What it cannot
    end is one single call into compiled code that never returns.

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
    watch = _Watch(seconds, threading.get_ident())
    collects = gc.isenabled()
    gc.disable()  # Python would swallow, with a message, what is raised in a collector's callback
    watch.start()
    try:
        return call()
    finally:
        # Interrupted itself, it begins again: nothing may be raised once this function is left.
        while not watch.over:
            try:
                watch.end()
            except OutOfTime:
                watch.late = True
        if collects:
            gc.enable()
        if watch.late:
            raise OutOfTime


class _Watch(threading.Thread):
    def __init__(self, seconds: float, of: int) -> None:
        super().__init__(daemon=True, name="astranb deadline")
        self.over = self.late = False
        self._seconds, self._of = seconds, of
        self._lock, self._ended = threading.Lock(), threading.Event()

    def run(self) -> None:
        wait = self._seconds
        while not self._ended.wait(wait):
            with self._lock:
                if not self.over:
                    _raise_in(self._of, OutOfTime)
            wait = _AGAIN_S

    def end(self) -> None:
        with self._lock:
            self.over = True
            _raise_in(self._of, None)  # what has not been raised yet
        self._ended.set()


def _raise_in(thread: int, what: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if what is None else ctypes.py_object(what)
    )
