"""One rank is late: how long the others wait, and how much of that each algorithm hides."""

import astranb as anb


def late_rank(infra="dgx-h100", size="1 MiB", late="20 us"):
    """Print the time of some all-reduces when all start together, and when rank 3 is late."""
    for algorithm in ("ring", "allpairs", "halving_doubling", "switch"):
        collective = anb.collectives.all_reduce(size, algorithm)
        together = anb.Simulation(infra, collective, record=False)
        skewed = anb.Simulation(infra, collective, start={3: late}, record=False)
        together.run(), skewed.run()
        more = skewed.now_ps - together.now_ps
        share = skewed.result.critical_path().by_cause().get("started late", 0)
        print(f"{algorithm:16} {together.now_ps / 1e6:6.1f} us, {more / 1e6:+5.1f} us late,", end=" ")
        print(f"{share / 1e6:.1f} us of the critical path before rank 3 started")


if __name__ == "__main__":
    late_rank()
