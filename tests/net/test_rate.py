"""DCQCN against its paper's equations, in floating point and with every timer an event."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.ticks import transfer_ps
from astranb.net.rate import FLOW, ONE, catch_up, cut, spend
from astranb.net.roce import Dcqcn, Roce, roce_row

LINE = 12_500_000_000
LEAST = 1_250_000


def options(**more):
    return roce_row(Roce(dcqcn=Dcqcn(**more)), 0)


def flow():
    table = np.zeros(1, FLOW).view(np.recarray)
    table["rate_Bps"] = table["target_Bps"] = table["slowest_Bps"] = LINE
    table["alpha"] = ONE
    return table


@dataclass
class Paper:
    """Equations 1 to 4 of Zhu et al. 2015, with QCN's hyper increase; timers one by one."""

    gain: float = 1 / 256
    alpha_ps: int = 55_000_000
    timer_ps: int = 55_000_000
    counter: int = 10_000_000
    steps: int = 5
    additive: float = 5e6
    hyper: float = 50e6
    rate: float = LINE
    aim: float = LINE
    alpha: float = 1.0
    next_alpha: float = field(default=float("inf"))
    next_timer: float = field(default=float("inf"))
    by_time: int = 0
    by_bytes: int = 0
    counted: int = 0

    def until(self, now):
        while self.next_alpha <= now:
            self.alpha *= 1 - self.gain
            self.next_alpha += self.alpha_ps
        while self.next_timer <= now:
            self.next_timer += self.timer_ps
            self.by_time += 1
            self.up()

    def up(self):
        more, less = max(self.by_time, self.by_bytes), min(self.by_time, self.by_bytes)
        if less > self.steps:
            self.aim += (less - self.steps) * self.hyper
        elif more > self.steps:
            self.aim += self.additive
        self.aim = min(self.aim, LINE)
        self.rate = (self.rate + self.aim) / 2

    def notice(self, now):
        self.until(now)
        self.aim, self.rate = self.rate, max(LEAST, self.rate * (1 - self.alpha / 2))
        self.alpha = (1 - self.gain) * self.alpha + self.gain
        self.next_alpha, self.next_timer = now + self.alpha_ps, now + self.timer_ps
        self.by_time = self.by_bytes = self.counted = 0

    def send(self, size, now):
        self.until(now)
        if self.next_timer == float("inf"):
            return
        self.counted += size
        while self.counted >= self.counter:
            self.counted -= self.counter
            self.by_bytes += 1
            self.up()


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["send", "send", "send", "notice"]),
            st.integers(0, 400_000_000),
            st.integers(64, 2_000_000),
        ),
        min_size=1,
        max_size=80,
    )
)
def test_lazy_timers_come_to_what_the_paper_says(steps):
    roce, flows, paper, now = options(), flow(), Paper(), 0
    for what, wait, size in steps:
        now += wait
        if what == "notice":
            cut(roce, flows, 0, LINE, now)
            paper.notice(now)
        else:
            catch_up(roce, flows, 0, LINE, now)
            spend(roce, flows, 0, LINE, size, now)
            paper.send(size, now)
        # The integers round by a byte a second and by 2**-20 a step.
        assert int(flows[0].rate_Bps) == pytest.approx(paper.rate, rel=2e-3, abs=2000)
        assert int(flows[0].target_Bps) == pytest.approx(paper.aim, rel=2e-3, abs=2000)
        assert int(flows[0].alpha) / ONE == pytest.approx(paper.alpha, abs=5e-4)
        assert LEAST <= flows[0].rate_Bps <= LINE
        assert 0 <= flows[0].alpha <= ONE


@settings(max_examples=100, deadline=None)
@given(cuts=st.lists(st.integers(1, 10**9), min_size=1, max_size=20), looks=st.integers(1, 40))
def test_looking_more_often_changes_nothing(cuts, looks):
    """The times at which a flow is read never matter, only what happens to it."""
    roce, once, often, now = options(), flow(), flow(), 0
    for wait in cuts:
        for look in range(1, looks):
            catch_up(roce, often, 0, LINE, now + wait * look // looks)
        now += wait
        cut(roce, once, 0, LINE, now)
        cut(roce, often, 0, LINE, now)
        assert once[0] == often[0]


def test_the_first_notification_halves_and_five_steps_bring_it_back():
    roce, flows = options(), flow()
    cut(roce, flows, 0, LINE, 0)
    assert flows[0].rate_Bps == LINE // 2
    catch_up(roce, flows, 0, LINE, 5 * 55_000_000)
    assert flows[0].rate_Bps == pytest.approx(LINE * (1 - 0.5**6), rel=1e-6)
    assert flows[0].by_time == 5


def test_additive_then_hyper_increase():
    roce, flows = options(byte_counter="1 MB"), flow()
    for _ in range(6):
        cut(roce, flows, 0, LINE, 0)
    low = int(flows[0].target_Bps)
    catch_up(roce, flows, 0, LINE, 6 * 55_000_000)
    assert flows[0].target_Bps == low + 5_000_000
    spend(roce, flows, 0, LINE, 6_000_000, 6 * 55_000_000)
    # Five of these are additive, as the timer has had more than five; the sixth is hyper.
    assert flows[0].target_Bps == low + 6 * 5_000_000 + 50_000_000


def test_a_message_spaces_the_next_one():
    roce, flows = options(), flow()
    spend(roce, flows, 0, LINE, 1000, 0)
    assert flows[0].next_ps == 0
    cut(roce, flows, 0, LINE, 10)
    spend(roce, flows, 0, LINE, 1000, 20)
    assert flows[0].next_ps == 20 + transfer_ps(1000, LINE // 2)


def test_rates_of_the_fastest_link_do_not_overflow():
    line = 9 * 10**12
    roce, flows = options(), flow()
    flows["rate_Bps"] = flows["target_Bps"] = line
    cut(roce, flows, 0, line, 0)
    assert flows[0].rate_Bps == line // 2
