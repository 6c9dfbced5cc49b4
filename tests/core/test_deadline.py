"""Code that does not end is ended, and nothing is raised afterwards."""

import gc
import itertools
import threading
import time

import pytest

from astranb.core.deadline import OutOfTime, within


def _loop():
    while True:
        pass


def _deaf():
    while True:
        try:
            time.sleep(0.001)
        except:  # noqa: E722 - the worst that a person may write
            break
    _loop()


def _stubborn():
    try:
        _loop()
    finally:
        _loop()


def _in_c():
    return [n for n in itertools.count() if n < 0]


@pytest.mark.parametrize("forever", [_loop, _deaf, _stubborn, _in_c])
def test_what_never_ends_is_ended(forever):
    start = time.monotonic()
    with pytest.raises(OutOfTime):
        within(0.1, forever)
    assert time.monotonic() - start < 5
    assert sum(range(200_000)) > 0  # nothing comes late


def test_what_ends_in_time_gives_its_value_or_error():
    assert within(5, lambda: "done") == "done"
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)
    assert gc.isenabled()


def test_it_works_in_any_thread():
    ended = []

    def other():
        try:
            within(0.1, _loop)
        except OutOfTime:
            ended.append(threading.current_thread().name)

    thread = threading.Thread(target=other, name="other")
    thread.start()
    thread.join(5)
    assert ended == ["other"]


def test_close_to_the_deadline_nothing_escapes():
    # Whoever comes first, the function or its end: afterwards there is peace.
    outcomes = set()
    for turn in range(150):
        until = time.perf_counter() + 0.002 + 0.00002 * (turn % 50)

        def call(until=until):
            while time.perf_counter() < until:
                pass

        try:
            within(0.0025, call)
            outcomes.add("in time")
        except OutOfTime:
            outcomes.add("late")
        sum(range(5_000))
    assert outcomes
